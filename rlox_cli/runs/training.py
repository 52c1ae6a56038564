"""Training jobs: from a composed configuration to a finished run folder, once or many times."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import asdict, replace
from typing import Any

from omegaconf import DictConfig

from rlox.configs import RunConfig
from rlox.envs.engines.factories import name_preset_in_errors
from rlox.loggers import check_loggers
from rlox_cli.config import compose, validate
from rlox_cli.runs import distributed_run, jobs, provenance
from rlox_cli.runs.identity import identity
from rlox_cli.runs.jobs import Job
from rlox_cli.runs.resume import resume_job
from rlox_cli.runs.run_folder import FAILED, BusyError, RunFolder
from rlox_cli.runs.run_training import print_warnings, report_failure, run_title, run_training
from rlox_cli.runs.signals import SignalInterrupt
from rlox_cli.search import options as search_options
from rlox_cli.shell.command import Call
from rlox_cli.shell.exit_codes import OK
from rlox_cli.sweeps import backend as sweep_backend
from rlox_cli.sweeps import options as sweep_options
from rlox_cli.sweeps.job_titles import job_title
from rlox_cli.sweeps.sweep import SweepPlan

MULTIRUN_FLAGS = ("-m", "--multirun")


def train(call: Call) -> int:
    """Train once, or with `--multirun` once per combination of values; return the exit code."""
    if set(MULTIRUN_FLAGS) & set(call.args):
        return train_many(call)
    task = TrainTask(call)
    compose.run(call, task)
    return task.code


def train_many(call: Call) -> int:
    """Train once per combination of values; return the exit code of the sweep."""
    distributed_run.reject_sweep()
    options, arguments = sweep_options.split_sweep_options(search_options.expand_call(call))
    has_multirun = set(MULTIRUN_FLAGS) & set(arguments)
    sweep_arguments = arguments if has_multirun else [MULTIRUN_FLAGS[1], *arguments]
    return compose.run_sweep(
        call, [*sweep_arguments, *options.launcher_overrides()], TrainTask(call, sweep_arguments)
    )


class TrainTask:
    """The task that Hydra calls once per job; it records errors and raises none, so that a sweep goes on."""

    def __init__(self, call: Call, args: Sequence[str] = ()) -> None:
        self.call = call
        self.args = list(args)  # in a sweep: the arguments from which each job is composed
        self.code = OK
        self.plan: SweepPlan | None = None
        self.outcomes: list[dict[str, Any]] = []
        self.common_overrides: frozenset[str] = frozenset()  # overrides that all jobs share
        self.total = 0  # jobs of the sweep, if known

    def prepare(self, plan: SweepPlan) -> None:
        """Keep the plan of the sweep that the jobs belong to."""
        self.plan, self.common_overrides, self.total = plan, plan.common_overrides, len(plan.jobs or ())

    def __call__(self, config: DictConfig) -> dict[str, Any]:
        """Train one job and return its outcome."""
        job = jobs.current_job(self.common_overrides)
        if job.sweep is not None:
            total = f"/{self.total}" if self.total else ""
            title = job_title(job.overrides, self.common_overrides, job.trial)
            self.call.reporter.message("job", f"[{job.number + 1}{total}] {title}".rstrip())
        # `_train` sets the status; if it raises, `FAILED` stays and `_report_failure` sets the code
        outcome: dict[str, Any] = {"status": FAILED, "code": OK, "message": ""}
        try:
            outcome |= self._train(config, job)
        except Exception as error:
            self.call.signals.raise_pending()
            outcome |= self._report_failure(error, job)
        finally:
            self._remove_empty_dir(job)
        self.code = outcome["code"]
        outcome |= {"job": job.name, "identity": job.identity}
        outcome["folder"] = str(job.folder) if job.folder else None
        self.outcomes.append(outcome)
        # the signal may have come after this job's last check for signals; it still ends the sweep
        signum = self.call.signals.received_signal
        is_interrupted = job.sweep is not None and signum is not None
        self.call.reporter.report_outcome(outcome, is_interrupted)
        if is_interrupted:
            raise SignalInterrupt(signum or 0)
        return outcome

    def _train(self, composed: DictConfig, job: Job) -> dict[str, Any]:
        config = validate.run_config(composed)
        if job.sweep is None:  # a sweep checks its jobs together
            validate.require_normalize_rule_used([config], job.overrides)
        if job.variant and config.run.variant is None:
            config = replace(config, run=replace(config.run, variant=job.variant))
        if job.sweep is not None:
            config = sweep_backend.apply_backend(config, sweep_backend.read_backends(job.sweep))
        job.identity = identity(config)
        check_loggers(config.logger)
        if job.sweep is None or config.dry_run:
            return self._train_new(composed, config, job)
        with jobs.claim(job) as is_claimed:
            return self._train_sweep_job(composed, config, job) if is_claimed else self._skip_busy(job)

    def _train_sweep_job(self, composed: DictConfig, config: RunConfig, job: Job) -> dict[str, Any]:
        if (finished_dir := jobs.find_finished(job)) is not None:
            job.folder = finished_dir
            self.call.reporter.message("skipped", f"  done before: {finished_dir}")
            return {"status": "skipped"}
        if jobs.find_busy_dir(job) is not None:
            return self._skip_busy(job)
        if (interrupted_dir := jobs.find_interrupted(job)) is not None:
            try:
                job.run = RunFolder.reopen(interrupted_dir)
            except BusyError:  # rlox resume has just locked it
                return self._skip_busy(job)
            job.folder = interrupted_dir
            with job.run:
                return resume_job(job.run, self.call, config)
        return self._train_new(composed, config, job)

    def _skip_busy(self, job: Job) -> dict[str, Any]:
        """Skip a job that another process runs; that process may not have created the folder yet."""
        job.folder = jobs.find_busy_dir(job)
        location_text = f": {job.folder}" if job.folder else ""
        self.call.reporter.message("skipped", f"  {jobs.BUSY_MESSAGE}{location_text}")
        return {"status": "skipped", "message": jobs.BUSY_MESSAGE}

    def _train_new(self, composed: DictConfig, config: RunConfig, job: Job) -> dict[str, Any]:
        distributed_run.require_shareable(config)
        with name_preset_in_errors(job.tuned, "leave it out with tuned=null", job.preset_keys):
            validate.try_environment(config)
        validate.require_init_from(config)
        print_warnings(config, self.call.name)
        # imported here because these modules import torch: wrong use is reported before that
        from rlox.build import build
        from rlox.training.evaluate import Evaluator

        with closing(build(config)) as algorithm:
            self.call.signals.raise_pending()
            if config.dry_run:
                if isinstance(algorithm.components.evaluate, Evaluator):
                    algorithm.components.evaluate.require_envs_fit()
                message = f"dry run: {_run_title(config, job)}: everything fits, nothing was trained"
                self.call.reporter.message(
                    "checked", message + algorithm.components.backend.message + algorithm.device.message
                )
                return {"status": "checked"}
            with RunFolder.create(config, job.prepare_dir()) as folder:
                job.folder = folder.path
                backend = algorithm.components.backend
                metadata: dict[str, Any] = {"resume_grade": algorithm.source.resume_grade}
                metadata["backend"] = asdict(backend)
                if (device := algorithm.device).reason:
                    metadata["device"] = {"name": device.name, "reason": device.reason}
                if algorithm.components.image_descriptions:
                    metadata["images"] = list(algorithm.components.image_descriptions)
                if algorithm.origin:
                    metadata["init_from"] = algorithm.origin
                folder.start(config, provenance.collect(config, self.call.command_line) | metadata)
                jobs.save_hydra(folder.path, composed)
                start_message = f"{_run_title(config, job)}\n  folder  {folder.path}"
                start_message += backend.message + algorithm.device.message
                start_message += _init_from_text(algorithm.origin)
                start_message += "".join(
                    f"\n  image   {line}" for line in algorithm.components.image_descriptions
                )
                self.call.reporter.message("begun", start_message)
                return run_training(algorithm, config, folder, self.call)

    def _report_failure(self, error: Exception, job: Job) -> dict[str, Any]:
        if job.folder is not None and not job.folder.exists():
            job.folder = None
        # no message about the run's folder if a reopened run failed before it went on
        keeps_folder = job.run is None or job.run.has_started
        code, text = report_failure(error, job.folder if keeps_folder else None, self.call)
        return {"code": code, "message": text}

    def _remove_empty_dir(self, job: Job) -> None:
        """Remove `hydra.run.dir` if it is empty: Hydra creates it before anything is checked."""
        if job.requested_dir is not None and job.folder is None:
            with suppress(OSError):
                job.requested_dir.rmdir()


def _run_title(config: RunConfig, job: Job) -> str:
    without = f" without {', '.join(job.not_tuned)}" if job.not_tuned else ""
    return run_title(config) + (f", tuned preset {job.tuned}{without}" if job.tuned else "")


def _init_from_text(init_from: dict[str, Any] | None) -> str:
    """Return the origin of the run's initial weights; empty if they are new."""
    if init_from is None:
        return ""
    source_text = f"({init_from['algo']} on {init_from['env']})"
    return f"\n  init    weights of {init_from['checkpoint']} in {init_from['path']} {source_text}"
