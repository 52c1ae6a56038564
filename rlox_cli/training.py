"""Jobs of training: from a composed config to a finished run folder, once or many times."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import Any

from omegaconf import DictConfig

from rlox.configs import RunConfig
from rlox.loggers import check_loggers
from rlox_cli import compose, jobs, provenance, validate
from rlox_cli.command import Call
from rlox_cli.exit_codes import OK
from rlox_cli.identity import identity
from rlox_cli.jobs import Job
from rlox_cli.resume import go_on
from rlox_cli.run_folder import FAILED, KILLED, RunFolder
from rlox_cli.run_training import report_failure, run_training, title, warn
from rlox_cli.signals import Interrupted
from rlox_cli.sweep import SweepPlan

MULTIRUN = ("-m", "--multirun")


def train_one(call: Call) -> int:
    """Train as the command line says, several times where it asks for that; the exit code."""
    if set(MULTIRUN) & set(call.args):
        return train_many(call)
    task = TrainTask(call)
    compose.run(call, task)
    return task.code


def train_many(call: Call) -> int:
    """Train once per combination of values; the exit code of the whole."""
    asked = set(MULTIRUN) & set(call.args)
    args = call.args if asked else [MULTIRUN[1], *call.args]
    return compose.run_sweep(call, args, TrainTask(call))


class TrainTask:
    """What Hydra calls once per job; it never raises an error, so that a sweep goes on."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.code = OK
        self.plan: SweepPlan | None = None
        self.outcomes: list[dict[str, Any]] = []

    def __call__(self, config: DictConfig) -> dict[str, Any]:
        """Train one job; the result says how it ended."""
        job = jobs.current_job(self.plan.common if self.plan else frozenset())
        if job.sweep is not None:
            total = f"/{len(self.plan.jobs)}" if self.plan and self.plan.jobs else ""
            print(f"[{job.number + 1}{total}] {' '.join(job.overrides)}", flush=True)
        ended: dict[str, Any] = {"status": FAILED, "code": OK, "message": ""}
        try:
            ended |= self._train(config, job)
        except Exception as error:
            self.call.signals.settle()
            ended |= self._failed(error, job)
        finally:
            self._tidy(job)
        self.code = ended["code"]
        ended |= {"job": job.name, "identity": job.identity}
        ended["folder"] = str(job.folder) if job.folder else None
        self.outcomes.append(ended)
        if job.sweep is not None and ended["status"] == KILLED:
            raise Interrupted(self.code - 128)
        return ended

    def _train(self, composed: DictConfig, job: Job) -> dict[str, Any]:
        config = validate.run_config(composed)
        job.identity = identity(config)
        check_loggers(config.logger)
        if job.sweep is not None and not config.dry_run:
            if (done := jobs.finished(job)) is not None:
                job.folder = done
                print(f"  done before: {done}")
                return {"status": "skipped"}
            if (busy := jobs.busy_folder(job)) is not None:
                job.folder = busy
                print(f"  running in another process: {busy}")
                return {"status": "skipped"}
            if (left := jobs.interrupted(job)) is not None:
                job.folder = left
                return go_on(left, self.call)
        validate.try_environment(config)
        warn(config)
        from rlox.build import build  # late: it brings torch, which wrong use should not wait for

        with closing(build(config)) as algorithm:
            self.call.signals.settle()
            if config.dry_run:
                print(f"dry run: {_title(config, job)}: everything fits, nothing was trained")
                return {"status": "checked"}
            with RunFolder.create(config, job.place()) as folder:
                job.folder = folder.path
                grade = {"resume_grade": algorithm.source.resume_grade}
                folder.start(config, provenance.collect(config, self.call.line) | grade)
                jobs.save_hydra(folder.path, composed)
                print(f"{_title(config, job)}\n  folder  {folder.path}", flush=True)
                return run_training(algorithm, config, folder, self.call.signals)

    def _failed(self, error: Exception, job: Job) -> dict[str, Any]:
        if job.folder is not None and not job.folder.exists():
            job.folder = None
        code, text = report_failure(error, job.folder, self.call)
        return {"code": code, "message": text}

    def _tidy(self, job: Job) -> None:
        """Hydra makes `hydra.run.dir` before anything is checked; leave none empty."""
        if job.given is not None and job.folder is None:
            with suppress(OSError):
                job.given.rmdir()


def _title(config: RunConfig, job: Job) -> str:
    return title(config) + (f", tuned preset {job.tuned}" if job.tuned else "")
