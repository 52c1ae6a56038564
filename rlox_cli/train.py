"""`rlox train`: from a composed config to a finished run folder."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import Any

from omegaconf import DictConfig

from rlox.configs import RunConfig
from rlox.loggers import check_loggers
from rlox_cli import check, jobs, provenance
from rlox_cli.jobs import Job
from rlox_cli.messages import OK, Interrupted
from rlox_cli.run_folder import FAILED, KILLED, RunFolder
from rlox_cli.session import report_failure, run_session, title
from rlox_cli.signals import Signals
from rlox_cli.sweep import Plan


class TrainTask:
    """What Hydra calls once per job; it never raises an error, so that a sweep goes on."""

    def __init__(self, command: list[str], signals: Signals, full_trace: bool = False) -> None:
        self.command = command
        self.signals = signals
        self.full_trace = full_trace
        self.code = OK
        self.plan: Plan | None = None  # of a sweep
        self.outcomes: list[dict[str, Any]] = []

    def __call__(self, config: DictConfig) -> dict[str, Any]:
        """Train one job; the result says how it ended."""
        job = jobs.current_job(self.plan.common if self.plan else frozenset())
        if job.sweep is not None:
            total = f"/{self.plan.jobs}" if self.plan and self.plan.jobs else ""
            print(f"[{job.number + 1}{total}] {' '.join(job.overrides)}", flush=True)
        ended: dict[str, Any] = {"job": job.name, "status": FAILED, "code": OK, "message": ""}
        try:
            ended |= self._train(config, job)
        except Exception as error:
            ended |= self._failed(error, job)
        finally:
            self._tidy(job)
        self.code = ended["code"]
        ended["folder"] = str(job.folder) if job.folder else None
        self.outcomes.append(ended)
        if job.sweep is not None and ended["status"] == KILLED:
            raise Interrupted(self.code - 128)
        return ended

    def _train(self, composed: DictConfig, job: Job) -> dict[str, Any]:
        config = check.run_config(composed)
        check_loggers(config.logger)
        if job.sweep is not None and not config.dry_run:
            if (done := jobs.finished(job, config)) is not None:
                job.folder = done
                print(f"  done before: {done}")
                return {"status": "skipped"}
            if (busy := jobs.running(job)) is not None:
                job.folder = busy
                print(f"  running in another process: {busy}")
                return {"status": "skipped"}
        check.try_environment(config)
        from rlox.build import build  # late: it brings torch, which wrong use should not wait for

        with closing(build(config)) as algorithm:
            if config.dry_run:
                print(f"dry run: {_title(config, job)}: everything fits, nothing was trained")
                return {"status": "checked"}
            with RunFolder.create(config, job.place()) as folder:
                job.folder = folder.path
                grade = {"resume_grade": algorithm.source.resume_grade}
                folder.start(config, provenance.collect(config, self.command) | grade)
                jobs.save_hydra(folder.path, composed)
                print(f"{_title(config, job)}\n  folder  {folder.path}", flush=True)
                return run_session(algorithm, config, folder, self.signals)

    def _failed(self, error: Exception, job: Job) -> dict[str, Any]:
        if job.folder is not None and not job.folder.exists():
            job.folder = None
        code, text = report_failure(error, job.folder, self.full_trace)
        return {"code": code, "message": text}

    def _tidy(self, job: Job) -> None:
        """Hydra makes `hydra.run.dir` before anything is checked; leave none empty."""
        if job.given is not None and job.folder is None:
            with suppress(OSError):
                job.given.rmdir()


def _title(config: RunConfig, job: Job) -> str:
    return title(config) + (f", tuned preset {job.tuned}" if job.tuned else "")
