"""Hydra's launcher `workers`: run the jobs of a sweep in separate processes on this machine.

It replaces joblib's launcher: a worker that dies must not end the others, a signal must reach every run
so that it saves, and the output of workers must not mix.
"""

from __future__ import annotations

import os
import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig

from rlox._core import num_threads
from rlox_cli.config.verbatim import quote
from rlox_cli.runs import jobs, provenance
from rlox_cli.runs.identity import identity
from rlox_cli.runs.jobs import Job
from rlox_cli.runs.run_folder import KILLED, record_death, translate_os_errors
from rlox_cli.runs.signals import SignalInterrupt
from rlox_cli.shell.exit_codes import FAILED, OK
from rlox_cli.sweeps.display import Display, make_display
from rlox_cli.sweeps.job_titles import trial_of
from rlox_cli.sweeps.worker_pool import JobOutcome, Task, WorkerPool

if TYPE_CHECKING:
    from rlox_cli.runs.training import TrainTask

TARGET = "hydra_plugins.rlox.Workers"  # Hydra accepts launchers only under such a name
THREAD_COUNT_VARIABLES = (
    "RLOX_THREADS",
    "RAYON_NUM_THREADS",
)  # they set the number of threads of the data plane


class BaseLauncher(Launcher):
    """The base of rlox's launchers; a subclass defines how the jobs run."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Keep Hydra's task function and the sweep's folder."""
        self.task = cast("TrainTask", task_function)
        self.folder = Path(str(config.hydra.sweep.dir))

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Run the jobs and return the outcome of each."""
        with translate_os_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        tasks = [Task(n, list(job)) for n, job in enumerate(job_overrides, initial_job_idx)]
        signals = self.task.call.signals
        with make_display(self.task.total or len(tasks), self.task.common_overrides) as display:
            outcomes = {t.number: outcome for t in tasks if (outcome := self._finished_outcome(t, display))}
            self.task.outcomes += outcomes.values()
            if remaining := [task for task in tasks if task.number not in outcomes]:
                outcomes |= self.run_jobs(remaining, display)
        if signals.received_signal is not None:
            raise SignalInterrupt(signals.received_signal)
        return [
            JobReturn(t.overrides, status=JobStatus.COMPLETED, _return_value=outcomes[t.number])
            for t in tasks
        ]

    @abstractmethod
    def run_jobs(self, tasks: Sequence[Task], display: Display) -> Mapping[int, JobOutcome]:
        """Run the jobs; return the outcome of each and add it to `self.task.outcomes`."""

    def worker_init(self) -> dict[str, object]:
        """Return what a process needs before its first job."""
        call = self.task.call
        arguments = [arg for arg in self.task.args if not arg.startswith("hydra.sweep.dir=")]
        return {
            "path": sys.path,
            "command": call.command.name,
            "typed": call.args,
            "args": [*arguments, f"hydra.sweep.dir={quote(str(self.folder))}"],
            "common": sorted(self.task.common_overrides),
            "full_trace": call.full_trace,
        }

    def death_outcome(self, task: Task, reason: str) -> dict[str, object]:
        """Record and return the outcome of a job whose process ended without one."""
        job = self._job(task)
        # `earlier_dirs` has every folder of the job, the dead process's too
        started_dirs = [path for path in job.earlier_dirs() if (path / "status.json").exists()]
        for path in started_dirs:
            record_death(path, reason)
        folder = str(started_dirs[0]) if started_dirs else None
        outcome = {"status": KILLED, "code": FAILED, "message": reason, "folder": folder}
        return outcome | {"job": job.name, "identity": job.identity}

    def _finished_outcome(self, task: Task, display: Display) -> JobOutcome | None:
        """Return the outcome of a job that is done already and needs no process."""
        job = self._job(task)
        plan = self.task.plan
        folder = jobs.find_finished(job) if job.identity and plan and not plan.is_dry_run else None
        if folder is None:
            return None
        display.print_lines(task.number, f"done before: {folder}")
        outcome = {"status": "skipped", "code": OK, "message": "", "folder": str(folder)}
        return outcome | {"job": job.name, "identity": job.identity}

    def _job(self, task: Task) -> Job:
        job = Job(task.overrides, self.folder, task.number, None, common_overrides=self.task.common_overrides)
        job.trial = trial_of(task.overrides)
        plan = self.task.plan
        if plan is not None and plan.jobs is not None:
            job.identity = identity(plan.jobs[task.number].config)
        return job


class WorkersLauncher(BaseLauncher):
    """Runs the jobs in a pool of worker processes; each worker runs one job after another."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run_jobs(self, tasks: Sequence[Task], display: Display) -> Mapping[int, JobOutcome]:
        """Run the jobs and return the outcome of each."""
        workers = min(self.workers, len(tasks))
        self._warn_of_threads(workers)
        signals = self.task.call.signals
        environment = {**os.environ, **shared_thread_environment(workers)}
        pool = WorkerPool(workers, self.worker_init(), display, signals, self.death_outcome, environment)
        try:
            return pool.run(tasks)
        finally:
            self.task.outcomes += pool.outcomes.values()

    def _warn_of_threads(self, workers: int) -> None:
        """Warn in advance if torch has more threads than there are CPUs."""
        plan = self.task.plan
        configs = [job.config for job in (plan.jobs or () if plan else ())]
        threads_per_worker, cores = max((c.torch_threads for c in configs), default=1), provenance.cores()
        if workers * threads_per_worker > cores:
            remedy = f"sweep.workers={max(1, cores // threads_per_worker)}"
            if threads_per_worker > 1:
                remedy = f"torch_threads={max(1, cores // workers)} or {remedy}"
            print(
                f"rlox {self.task.call.command.name}: warning: {workers} workers with "
                f"torch_threads={threads_per_worker} are {workers * threads_per_worker} threads for {cores} "
                f"CPU{'s' * (cores != 1)}, which slows all of them down; give {remedy}",
                file=sys.stderr,
                flush=True,
            )


def register() -> None:
    """Register the launcher for `hydra/launcher=workers`."""
    Plugins.instance().class_name_to_class[TARGET] = WorkersLauncher
    node = {"_target_": TARGET, "workers": 1}
    ConfigStore.instance().store(group="hydra/launcher", name="workers", node=node, provider="rlox")


def shared_thread_environment(workers: int) -> dict[str, str]:
    """Return extra variables for workers: they share the CPUs unless the user has set a number of threads."""
    if any(name in os.environ for name in THREAD_COUNT_VARIABLES):
        return {}
    return {THREAD_COUNT_VARIABLES[0]: str(max(1, num_threads() // workers))}
