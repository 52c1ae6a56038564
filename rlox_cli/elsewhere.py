"""`hydra/launcher=joblib|ray|submitit_local|submitit_slurm`: the jobs of a sweep where a library runs them.

The options have the names of Hydra's published launchers; what goes on with the jobs is rlox's, over the
same libraries.
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

from rlox.errors import ConfigError, MissingExtraError
from rlox.extras import install
from rlox_cli import launcher_settings, provenance
from rlox_cli.crew import Outcome, Task
from rlox_cli.desk import Desk, Engine, mailbox
from rlox_cli.engines import Loky, Ray, Submitit
from rlox_cli.errand import Errand, here
from rlox_cli.launcher import SIZES, Own, shared_cpus
from rlox_cli.launcher_settings import QUEUE, SETTINGS
from rlox_cli.sweep_display import Display

TARGET = "hydra_plugins.rlox"  # Hydra takes launchers only under such a name


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
        every = _plain(ray) or {}
        self.init, self.remote = (
            {key: value for key, value in (every.get(part) or {}).items() if value is not None}
            for part in ("init", "remote")
        )

    def engine(self, jobs: int) -> Engine:
        """Started as `ray.init` says, tasks as `ray.remote` says."""
        return Ray(self.init, self.remote)

    def environment(self, jobs: int) -> dict[str, str]:
        """A task has one CPU unless it asks for more."""
        return _own_threads(max(1, int(self.remote.get("num_cpus", 1))))


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
            f"{install(found.extra)}"
        ) from error
    settings = {key: value for key, value in _plain(node).items() if key != "_target_"}
    launcher_settings.require(name, settings)
    found(**settings).require()


def _plain(value: Any) -> Any:
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


def _own_threads(count: int) -> dict[str, str]:
    """The environment of a job that has so many CPUs, unless somebody has chosen."""
    return {} if any(name in os.environ for name in SIZES) else {SIZES[0]: str(count)}
