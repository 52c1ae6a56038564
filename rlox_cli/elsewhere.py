"""`hydra/launcher=joblib|ray|submitit_local|submitit_slurm`: the jobs of a sweep where a library runs them.

The options have the names of Hydra's published launchers, and those of their settings that make sense where
each job is accounted for; what goes on with the jobs is rlox's, over the same libraries.
"""

from __future__ import annotations

import importlib
import os
import shutil
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from omegaconf import DictConfig, OmegaConf

from rlox.configs import nearest
from rlox.errors import ConfigError, MissingExtraError
from rlox_cli import provenance
from rlox_cli.crew import Outcome, Task
from rlox_cli.desk import Desk, Engine, mailbox
from rlox_cli.engines import Loky, Ray, Submitit
from rlox_cli.errand import Errand, here
from rlox_cli.launcher import SIZES, Own, shared_cpus
from rlox_cli.sweep_display import Display

TARGET = "hydra_plugins.rlox"  # Hydra takes launchers only under such a name

# What can be set of a job in a queue, with the names of submitit; null: as submitit or Slurm has it.
QUEUE: Mapping[str, Any] = {
    "submitit_folder": "${hydra.sweep.dir}/.submitit/%j",
    "timeout_min": 1440,  # an hour, which the published launcher gives, ends most trainings
    "cpus_per_task": None,
    "gpus_per_node": None,
    "tasks_per_node": 1,
    "mem_gb": None,
    "nodes": 1,
    "name": "${hydra.job.name}",
    "stderr_to_stdout": False,
}
SLURM: Mapping[str, Any] = {
    **dict.fromkeys(("partition", "qos", "comment", "constraint", "exclude", "gres", "account")),
    **dict.fromkeys(("cpus_per_gpu", "gpus_per_task", "mem_per_gpu", "mem_per_cpu", "setup")),
    "signal_delay_s": 120,  # before time is up the job is told, and saves
    "max_num_timeout": 3,  # how often it then goes on in a job of its own
    "additional_parameters": {},
    "array_parallelism": 256,
}
COUNTS = {
    "n_jobs": "1 or more, or -1 for all CPUs",
    **dict.fromkeys(
        ("timeout_min", "cpus_per_task", "gpus_per_node", "mem_gb", "array_parallelism"),
        "1 or more",
    ),
}
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "joblib": {"n_jobs": -1},
    "ray": {
        "ray": {
            "init": {"address": None, "num_cpus": None, "num_gpus": None},
            "remote": {"num_cpus": 1, "num_gpus": 0},
        }
    },
    "submitit_local": QUEUE,
    "submitit_slurm": {**QUEUE, **SLURM},
}


class Elsewhere(Own):
    """Hands the jobs to an engine."""

    extra: str  # which brings the library
    module: str  # of the library
    alone = False  # jobs go on without the sweep

    def do(self, tasks: Sequence[Task], shown: Display) -> Mapping[int, Outcome]:
        """Do the jobs; how each ended."""
        engine, environment = self.engine(len(tasks)), self.environment(len(tasks))
        with mailbox(self.folder.absolute()) as box:
            greeting = {**self.greeting(), "runner": here(), "folder": str(Path.cwd())}
            errands = [
                Errand(n, overrides, str(box.path), greeting, environment, self.alone)
                for n, overrides in tasks
            ]
            desk = Desk(engine, box, shown, self.task.call.signals, self.died)
            try:
                return desk.work(tasks, errands)
            finally:
                self.task.outcomes += desk.outcomes.values()

    @abstractmethod
    def engine(self, jobs: int) -> Engine:
        """What does so many jobs."""

    def environment(self, jobs: int) -> dict[str, str]:
        """What is set for each job: how many threads the data plane has, where jobs share a machine."""
        return {}

    def require(self) -> None:
        """`ConfigError` for settings that cannot be kept, before anything is made."""


class Joblib(Elsewhere):
    """Processes of joblib's on this machine."""

    extra, module = "joblib", "joblib"

    def __init__(self, n_jobs: int) -> None:
        self.n_jobs = n_jobs

    def engine(self, jobs: int) -> Engine:
        """As many processes as `n_jobs` says, as joblib counts."""
        return Loky(self._size(jobs), {})

    def environment(self, jobs: int) -> dict[str, str]:
        """They share the CPUs."""
        return shared_cpus(self._size(jobs))

    def _size(self, jobs: int) -> int:
        import joblib

        library: Any = joblib
        return min(jobs, int(library.effective_n_jobs(self.n_jobs)))


class OnRay(Elsewhere):
    """Tasks of Ray's, on this machine or a cluster."""

    extra, module = "ray", "ray"

    def __init__(self, ray: Any) -> None:
        self.settings = _plain(ray)

    def engine(self, jobs: int) -> Engine:
        """Started as `ray.init` says, tasks as `ray.remote` says."""
        return Ray(self.settings.get("init") or {}, self.settings.get("remote") or {})

    def environment(self, jobs: int) -> dict[str, str]:
        """A task has one CPU unless it asks for more."""
        cpus = (self.settings.get("remote") or {}).get("num_cpus")
        return _own_threads(max(1, int(cpus or 1)))


class OnSubmitit(Elsewhere):
    """Jobs of submitit's."""

    extra, module = "submitit", "submitit"
    cluster = "local"

    def __init__(self, **settings: Any) -> None:
        self.settings = {key: _plain(value) for key, value in settings.items()}

    def require(self) -> None:
        """Several processes of one job would do it several times over."""
        for key in ("nodes", "tasks_per_node"):
            if self.settings.get(key, 1) != 1:
                raise ConfigError(
                    f"hydra.launcher.{key}={self.settings[key]}: a job is one process; leave {key} out"
                )

    def engine(self, jobs: int) -> Engine:
        """An executor with these settings."""
        return Submitit(self._executor(), self._size(), self.cluster == "slurm")

    def environment(self, jobs: int) -> dict[str, str]:
        """A job has the CPUs that it asks for."""
        return _own_threads(int(self.settings.get("cpus_per_task") or 1))

    def _size(self) -> int:
        return max(1, provenance.cores() // int(self.settings.get("cpus_per_task") or 1))

    def _executor(self) -> Any:
        import submitit

        settings = {key: value for key, value in self.settings.items() if value is not None}
        folder = Path(str(settings.pop("submitit_folder"))).absolute()
        named = {k if k in QUEUE else f"{self.cluster}_{k}": v for k, v in settings.items()}
        retries = f"{self.cluster}_max_num_timeout"
        first = {retries: named.pop(retries)} if retries in named else {}
        executor = submitit.AutoExecutor(folder=folder, cluster=self.cluster, **first)
        executor.update_parameters(**named)
        return executor


class OnSlurm(OnSubmitit):
    """Jobs of Slurm's, which go on without the sweep that submitted them."""

    cluster, alone = "slurm", True

    def require(self) -> None:
        """Slurm's commands have to be there."""
        super().require()
        missing = [name for name in ("sbatch", "srun", "sacct") if shutil.which(name) is None]
        if missing:
            raise ConfigError(
                f"hydra/launcher=submitit_slurm: there is no {missing[0]} here; call it on a machine "
                "that submits to Slurm, or use hydra/launcher=submitit_local"
            )


LAUNCHERS: Mapping[str, type[Elsewhere]] = {
    "joblib": Joblib,
    "ray": OnRay,
    "submitit_local": OnSubmitit,
    "submitit_slurm": OnSlurm,
}


def register() -> None:
    """Let `hydra/launcher=` choose them, whatever else of their names is installed."""
    plugins = Plugins.instance()  # first: it registers what is installed
    for name, kind in LAUNCHERS.items():
        plugins.class_name_to_class[f"{TARGET}.{name}"] = kind
        node = {"_target_": f"{TARGET}.{name}", **SETTINGS[name]}
        ConfigStore.instance().store(group="hydra/launcher", name=name, node=node, provider="rlox")


def require(node: DictConfig) -> None:
    """`ConfigError` where the launcher that is configured so cannot launch."""
    name = str(node._target_).removeprefix(f"{TARGET}.")
    found = LAUNCHERS.get(name)
    if found is None:
        return
    try:
        importlib.import_module(found.module)
    except ImportError as error:
        raise MissingExtraError(
            f"hydra/launcher={name} needs the package {found.module}, which is not installed: "
            f"pip install 'rlox[{found.extra}]'"
        ) from error
    settings = {key: value for key, value in _plain(node).items() if key != "_target_"}
    for key, value in settings.items():
        if key not in SETTINGS[name]:
            raise ConfigError(
                f"hydra.launcher.{key}: hydra/launcher={name} has no such setting"
                f"{nearest(key, SETTINGS[name])}"
            )
        if key in COUNTS and value is not None and not _counts(key, value):
            raise ConfigError(f"hydra.launcher.{key}={value}: expected {COUNTS[key]}")
    found(**settings).require()


def _counts(key: str, value: Any) -> bool:
    number = isinstance(value, int) and not isinstance(value, bool)
    return number and (value > 0 or (key == "n_jobs" and value < 0))


def _plain(value: Any) -> Any:
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


def _own_threads(count: int) -> dict[str, str]:
    """The environment of a job that has so many CPUs, unless somebody has chosen."""
    return {} if any(name in os.environ for name in SIZES) else {SIZES[0]: str(count)}
