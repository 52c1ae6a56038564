"""Hydra's launcher `workers`: the jobs of a sweep in processes of their own on this machine.

Written here and not joblib's: a worker that dies must take nobody with it, a signal must reach every
run so that it saves, and what workers print must not run into one another.
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
from rlox_cli import jobs, provenance
from rlox_cli.crew import Crew, Outcome, Task
from rlox_cli.exit_codes import FAILED, OK
from rlox_cli.identity import identity
from rlox_cli.job_titles import trial_of
from rlox_cli.jobs import Job
from rlox_cli.run_folder import KILLED, note_death, writing
from rlox_cli.signals import Interrupted
from rlox_cli.sweep_display import Display, display
from rlox_cli.verbatim import in_quotes

if TYPE_CHECKING:
    from rlox_cli.training import TrainTask

TARGET = "hydra_plugins.rlox.Workers"  # Hydra takes launchers only under such a name
SIZES = ("RLOX_THREADS", "RAYON_NUM_THREADS")  # what says how many threads the data plane has


class Own(Launcher):
    """What launchers of rlox have in common; each has the jobs done in its own way."""

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Know what to launch."""
        self.task = cast("TrainTask", task_function)
        self.folder = Path(str(config.hydra.sweep.dir))

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Do the jobs; how each ended."""
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        tasks = [Task(n, list(job)) for n, job in enumerate(job_overrides, initial_job_idx)]
        signals = self.task.call.signals
        with display(self.task.total or len(tasks), self.task.common) as shown:
            ended = {t.number: done for t in tasks if (done := self._done_before(t, shown))}
            self.task.outcomes += ended.values()
            if left := [task for task in tasks if task.number not in ended]:
                ended |= self.do(left, shown)
        if signals.received is not None:
            raise Interrupted(signals.received)
        return [
            JobReturn(t.overrides, status=JobStatus.COMPLETED, _return_value=ended[t.number])
            for t in tasks
        ]

    @abstractmethod
    def do(self, tasks: Sequence[Task], shown: Display) -> Mapping[int, Outcome]:
        """Do the jobs; how each ended, also in the task's outcomes."""

    def greeting(self) -> dict[str, object]:
        """What a process has to know before its first job."""
        call = self.task.call
        kept = [arg for arg in self.task.args if not arg.startswith("hydra.sweep.dir=")]
        return {
            "path": sys.path,
            "command": call.command.name,
            "typed": call.args,
            "args": [*kept, f"hydra.sweep.dir={in_quotes(str(self.folder))}"],
            "common": sorted(self.task.common),
            "full_trace": call.full_trace,
        }

    def died(self, task: Task, how: str) -> dict[str, object]:
        """The outcome of a job whose process ended without one."""
        job = self._job(task)
        begun = [path for path in job.earlier() if (path / "status.json").exists()]
        for path in begun:
            note_death(path, how)
        folder = str(begun[0]) if begun else None
        ended = {"status": KILLED, "code": FAILED, "message": how, "folder": folder}
        return ended | {"job": job.name, "identity": job.identity}

    def _done_before(self, task: Task, shown: Display) -> Outcome | None:
        """The outcome of a job that no process has to begin for: it is known that it is done."""
        job = self._job(task)
        plan = self.task.plan
        folder = jobs.finished(job) if job.identity and plan and not plan.dry else None
        if folder is None:
            return None
        shown.line(task.number, f"done before: {folder}")
        ended = {"status": "skipped", "code": OK, "message": "", "folder": str(folder)}
        return ended | {"job": job.name, "identity": job.identity}

    def _job(self, task: Task) -> Job:
        job = Job(task.overrides, self.folder, task.number, None, common=self.task.common)
        job.trial = trial_of(task.overrides)
        plan = self.task.plan
        if plan is not None and plan.jobs is not None:
            job.identity = identity(plan.jobs[task.number].config)
        return job


class Workers(Own):
    """Hands the jobs to a crew of processes, each of which does one after another."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def do(self, tasks: Sequence[Task], shown: Display) -> Mapping[int, Outcome]:
        """Do the jobs; how each ended."""
        workers = min(self.workers, len(tasks))
        self._warn(workers)
        signals = self.task.call.signals
        environment = {**os.environ, **shared_cpus(workers)}
        crew = Crew(workers, self.greeting(), shown, signals, self.died, environment)
        try:
            return crew.work(tasks)
        finally:
            self.task.outcomes += crew.outcomes.values()

    def _warn(self, workers: int) -> None:
        """Say so when torch has more threads than there are CPUs, before it costs time."""
        plan = self.task.plan
        configs = [job.config for job in (plan.jobs or () if plan else ())]
        each, cores = max((c.torch_threads for c in configs), default=1), provenance.cores()
        if workers * each > cores:
            remedy = f"sweep.workers={max(1, cores // each)}"
            if each > 1:
                remedy = f"torch_threads={max(1, cores // workers)} or {remedy}"
            print(
                f"rlox {self.task.call.command.name}: warning: {workers} workers with "
                f"torch_threads={each} are {workers * each} threads for {cores} "
                f"CPU{'s' * (cores != 1)}, which slows all of them down; give {remedy}",
                file=sys.stderr,
                flush=True,
            )


def register() -> None:
    """Let `hydra/launcher=workers` choose it."""
    Plugins.instance().class_name_to_class[TARGET] = Workers
    node = {"_target_": TARGET, "workers": 1}
    ConfigStore.instance().store(group="hydra/launcher", name="workers", node=node, provider="rlox")


def shared_cpus(workers: int) -> dict[str, str]:
    """What the environment of a worker has besides: unless somebody has chosen, they share the CPUs."""
    if any(name in os.environ for name in SIZES):
        return {}
    return {SIZES[0]: str(max(1, num_threads() // workers))}
