"""`hydra/launcher=joblib|ray|submitit_local|submitit_slurm`: the jobs of a sweep where a library runs them.

The packages of these launchers bring their settings, which stay as they are documented there; what goes on
with the jobs is rlox's, so that each of them is accounted for.
"""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.plugins import Plugins
from omegaconf import DictConfig, OmegaConf

from rlox.errors import ConfigError, MissingExtraError
from rlox_cli import provenance
from rlox_cli.crew import Outcome, Task
from rlox_cli.desk import Desk, Engine, mailbox
from rlox_cli.engines import Loky, Ray, Submitit
from rlox_cli.errand import Errand, here
from rlox_cli.launcher import SIZES, Own, shared_cpus
from rlox_cli.sweep_display import Display

PUBLISHED = "hydra_plugins"


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

    def engine(self, jobs: int) -> Engine:
        """What does so many jobs."""
        raise NotImplementedError

    def environment(self, jobs: int) -> dict[str, str]:
        """What is set for each job: how many threads the data plane has, where jobs share a machine."""
        return {}

    def require(self) -> None:
        """`ConfigError` for settings that cannot be kept, before anything is made."""


class Joblib(Elsewhere):
    """Processes of joblib's on this machine."""

    extra, module = "joblib", "joblib"

    def __init__(self, n_jobs: int = -1, **settings: Any) -> None:
        self.n_jobs, self.settings = n_jobs, settings

    def require(self) -> None:
        """The other settings are about handing out batches of calls."""
        usual = vars(_published("hydra_joblib_launcher", "JobLibLauncherConf"))
        for key, value in self.settings.items():
            if value != usual.get(key):
                raise ConfigError(
                    f"hydra.launcher.{key}={value}: each job has a process of its own, for which "
                    f"there is only hydra.launcher.n_jobs; leave {key} out"
                )
        if self.n_jobs == 0:
            raise ConfigError("hydra.launcher.n_jobs=0: expected 1 or more, or -1 for all CPUs")

    def engine(self, jobs: int) -> Engine:
        """As many processes as `n_jobs` says, as joblib counts."""
        return Loky(self._size(jobs), {})

    def environment(self, jobs: int) -> dict[str, str]:
        """They share the CPUs."""
        return shared_cpus(self._size(jobs))

    def _size(self, jobs: int) -> int:
        from joblib import effective_n_jobs  # type: ignore[import-untyped]

        return min(jobs, int(effective_n_jobs(self.n_jobs)))


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
        shared = vars(_published("hydra_submitit_launcher", "BaseQueueConf"))
        named = {k if k in shared else f"{self.cluster}_{k}": v for k, v in settings.items()}
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
    f"{PUBLISHED}.hydra_joblib_launcher.joblib_launcher.JoblibLauncher": Joblib,
    f"{PUBLISHED}.hydra_ray_launcher.ray_launcher.RayLauncher": OnRay,
    f"{PUBLISHED}.hydra_submitit_launcher.submitit_launcher.LocalLauncher": OnSubmitit,
    f"{PUBLISHED}.hydra_submitit_launcher.submitit_launcher.SlurmLauncher": OnSlurm,
}


def register() -> None:
    """Take the place of the published launchers, whose settings stay."""
    Plugins.instance().class_name_to_class.update(LAUNCHERS)


def require(node: DictConfig) -> None:
    """`ConfigError` where the launcher that is configured so cannot launch."""
    found = LAUNCHERS.get(str(node._target_))
    if found is None:
        return
    try:
        importlib.import_module(found.module)
    except ImportError as error:
        raise MissingExtraError(
            f"hydra/launcher needs the package {found.module}, which is not installed: "
            f"pip install 'rlox[{found.extra}]'"
        ) from error
    settings = {key: value for key, value in _plain(node).items() if key != "_target_"}
    found(**settings).require()


def _published(package: str, name: str) -> Any:
    """The usual settings of a published launcher."""
    return getattr(importlib.import_module(f"{PUBLISHED}.{package}.config"), name)()


def _plain(value: Any) -> Any:
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


def _own_threads(count: int) -> dict[str, str]:
    """The environment of a job that has so many CPUs, unless somebody has chosen."""
    return {} if any(name in os.environ for name in SIZES) else {SIZES[0]: str(count)}
