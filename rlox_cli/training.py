"""Jobs of training: from a composed config to a finished run folder, once or many times."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import asdict, replace
from typing import Any

from omegaconf import DictConfig

from rlox.configs import RunConfig
from rlox.envs.engines.put_around import preset_named
from rlox.loggers import check_loggers
from rlox_cli import compose, jobs, provenance, sweep_backend, sweep_options, together, validate
from rlox_cli.command import Call
from rlox_cli.exit_codes import OK
from rlox_cli.identity import identity
from rlox_cli.job_titles import job_title
from rlox_cli.jobs import Job
from rlox_cli.resume import go_on
from rlox_cli.run_folder import FAILED, BusyError, RunFolder
from rlox_cli.run_training import report_failure, run_training, title, warn
from rlox_cli.search import options as search_options
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
    together.require_one_run()
    options, rest = sweep_options.read(search_options.of_line(call))
    asked = set(MULTIRUN) & set(rest)
    args = rest if asked else [MULTIRUN[1], *rest]
    return compose.run_sweep(call, [*args, *options.launcher()], TrainTask(call, args))


class TrainTask:
    """What Hydra calls once per job; it never raises an error, so that a sweep goes on."""

    def __init__(self, call: Call, args: Sequence[str] = ()) -> None:
        self.call = call
        self.args = list(args)  # of a sweep: what every job of it is composed from
        self.code = OK
        self.plan: SweepPlan | None = None
        self.outcomes: list[dict[str, Any]] = []
        self.common: frozenset[str] = frozenset()  # overrides that all jobs share
        self.total = 0  # jobs of the sweep, where that is known

    def prepare(self, plan: SweepPlan) -> None:
        """Know the sweep that the jobs belong to."""
        self.plan, self.common, self.total = plan, plan.common, len(plan.jobs or ())

    def __call__(self, config: DictConfig) -> dict[str, Any]:
        """Train one job; the result says how it ended."""
        job = jobs.current_job(self.common)
        if job.sweep is not None:
            total = f"/{self.total}" if self.total else ""
            title = job_title(job.overrides, self.common, job.trial)
            self.call.voice.say("job", f"[{job.number + 1}{total}] {title}".rstrip())
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
        stopped = self.call.signals.received  # perhaps too late for this job, but not for the next
        last = job.sweep is not None and stopped is not None
        self.call.voice.outcome(ended, last)
        if last:
            raise Interrupted(stopped or 0)
        return ended

    def _train(self, composed: DictConfig, job: Job) -> dict[str, Any]:
        config = validate.run_config(composed)
        if job.sweep is None:  # those of a sweep are seen together
            validate.require_rule_used([config], job.overrides)
        if job.variant and config.run.variant is None:
            config = replace(config, run=replace(config.run, variant=job.variant))
        if job.sweep is not None:
            config = sweep_backend.applied(config, sweep_backend.recorded(job.sweep))
        job.identity = identity(config)
        check_loggers(config.logger)
        if job.sweep is None or config.dry_run:
            return self._afresh(composed, config, job)
        with jobs.claimed(job) as ours:
            return self._of_sweep(composed, config, job) if ours else self._busy(job)

    def _of_sweep(self, composed: DictConfig, config: RunConfig, job: Job) -> dict[str, Any]:
        if (done := jobs.finished(job)) is not None:
            job.folder = done
            self.call.voice.say("skipped", f"  done before: {done}")
            return {"status": "skipped"}
        if jobs.busy_folder(job) is not None:
            return self._busy(job)
        if (left := jobs.interrupted(job)) is not None:
            try:
                job.run = RunFolder.reopen(left)
            except BusyError:  # by rlox resume, just now
                return self._busy(job)
            job.folder = left
            with job.run:
                return go_on(job.run, self.call, config)
        return self._afresh(composed, config, job)

    def _busy(self, job: Job) -> dict[str, Any]:
        """Whoever does it may be about to make its folder."""
        job.folder = jobs.busy_folder(job)
        place = f": {job.folder}" if job.folder else ""
        self.call.voice.say("skipped", f"  {jobs.BUSY}{place}")
        return {"status": "skipped", "message": jobs.BUSY}

    def _afresh(self, composed: DictConfig, config: RunConfig, job: Job) -> dict[str, Any]:
        together.require_shared(config)
        with preset_named(job.tuned, "leave it out with tuned=null", job.theirs):
            validate.try_environment(config)
        validate.try_origin(config)
        warn(config, self.call.name)
        # late: they bring torch, which wrong use should not wait for
        from rlox.build import build
        from rlox.training.evaluate import Evaluator

        with closing(build(config)) as algorithm:
            self.call.signals.settle()
            if config.dry_run:
                if isinstance(algorithm.parts.evaluate, Evaluator):
                    algorithm.parts.evaluate.require_room()
                fits = f"dry run: {_title(config, job)}: everything fits, nothing was trained"
                self.call.voice.say(
                    "checked", fits + algorithm.parts.backend.line + algorithm.device.line
                )
                return {"status": "checked"}
            with RunFolder.create(config, job.place()) as folder:
                job.folder = folder.path
                backend = algorithm.parts.backend
                told: dict[str, Any] = {"resume_grade": algorithm.source.resume_grade}
                told["backend"] = asdict(backend)
                if (device := algorithm.device).reason:
                    told["device"] = {"name": device.name, "reason": device.reason}
                if algorithm.parts.images:
                    told["images"] = list(algorithm.parts.images)
                if algorithm.origin:
                    told["init_from"] = algorithm.origin
                folder.start(config, provenance.collect(config, self.call.line) | told)
                jobs.save_hydra(folder.path, composed)
                begun = f"{_title(config, job)}\n  folder  {folder.path}"
                begun += backend.line + algorithm.device.line
                begun += _origin(algorithm.origin)
                begun += "".join(f"\n  image   {line}" for line in algorithm.parts.images)
                self.call.voice.say("begun", begun)
                return run_training(algorithm, config, folder, self.call)

    def _failed(self, error: Exception, job: Job) -> dict[str, Any]:
        if job.folder is not None and not job.folder.exists():
            job.folder = None
        begun = job.run is None or job.run.begun
        code, text = report_failure(error, job.folder if begun else None, self.call)
        return {"code": code, "message": text}

    def _tidy(self, job: Job) -> None:
        """Hydra makes `hydra.run.dir` before anything is checked; leave none empty."""
        if job.given is not None and job.folder is None:
            with suppress(OSError):
                job.given.rmdir()


def _title(config: RunConfig, job: Job) -> str:
    return title(config) + (f", tuned preset {job.tuned}" if job.tuned else "")


def _origin(origin: dict[str, Any] | None) -> str:
    """Whose weights the run begins with; empty where they are new."""
    if origin is None:
        return ""
    of = f"({origin['algo']} on {origin['env']})"
    return f"\n  init    weights of {origin['checkpoint']} in {origin['path']} {of}"
