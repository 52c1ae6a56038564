"""`hydra/launcher=joblib|ray|submitit_local|submitit_slurm`: run the jobs of a sweep through a library.

The options have the names of Hydra's launcher plugins (hydra-joblib-launcher and others); rlox itself
manages the jobs, on top of the same libraries.
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
from rlox.extras import install_command
from rlox_cli.runs import provenance
from rlox_cli.sweeps import launcher_settings
from rlox_cli.sweeps.display import Display
from rlox_cli.sweeps.executors import LokyExecutor, RayExecutor, SubmititExecutor
from rlox_cli.sweeps.launcher import THREAD_COUNT_VARIABLES, BaseLauncher, shared_thread_environment
from rlox_cli.sweeps.launcher_settings import QUEUE, SETTINGS
from rlox_cli.sweeps.remote_job import RemoteJob, process_identity
from rlox_cli.sweeps.remote_job_runner import JobExecutor, RemoteJobRunner, open_event_dir
from rlox_cli.sweeps.worker_pool import JobOutcome, Task

TARGET = "hydra_plugins.rlox"  # Hydra accepts launchers only under such a name


class ExternalLauncher(BaseLauncher):
    """A launcher that runs the jobs in an executor."""

    extra: str  # the extra that installs the library
    module: str  # the library's module
    is_detached = False  # jobs go on without the sweep

    def run_jobs(self, tasks: Sequence[Task], display: Display) -> Mapping[int, JobOutcome]:
        """Run the jobs and return the outcome of each."""
        executor, variables = self.make_executor(len(tasks)), self.job_environment(len(tasks))
        with open_event_dir(self.folder.absolute()) as event_dir:
            worker_init = {**self.worker_init(), "runner": process_identity(), "folder": str(Path.cwd())}
            remote_jobs = [
                RemoteJob(n, overrides, str(event_dir.path), worker_init, variables, self.is_detached)
                for n, overrides in tasks
            ]
            runner = RemoteJobRunner(executor, event_dir, display, self.task.call.signals, self.death_outcome)
            try:
                return runner.run(tasks, remote_jobs)
            finally:
                self.task.outcomes += runner.outcomes.values()

    @abstractmethod
    def make_executor(self, jobs: int) -> JobExecutor:
        """Return the executor for `jobs` jobs."""

    def job_environment(self, jobs: int) -> dict[str, str]:
        """Return the variables that set a job's number of data plane threads, where jobs share a machine."""
        return {}

    def require_valid(self) -> None:
        """Raise `ConfigError` for settings that cannot work, before anything is created."""


class JoblibLauncher(ExternalLauncher):
    """Joblib processes on this machine."""

    extra, module = "joblib", "joblib"

    def __init__(self, n_jobs: int) -> None:
        self.n_jobs = n_jobs

    def make_executor(self, jobs: int) -> JobExecutor:
        """Return an executor with `n_jobs` processes, as joblib counts them."""
        return LokyExecutor(self._worker_count(jobs), {})

    def job_environment(self, jobs: int) -> dict[str, str]:
        """Return the variables by which the processes share the CPUs."""
        return shared_thread_environment(self._worker_count(jobs))

    def _worker_count(self, jobs: int) -> int:
        import joblib

        library: Any = joblib
        return min(jobs, int(library.effective_n_jobs(self.n_jobs)))


class RayLauncher(ExternalLauncher):
    """Ray tasks, on this machine or a cluster."""

    extra, module = "ray", "ray"

    def __init__(self, ray: Any) -> None:
        options = _plain(ray) or {}
        self.init, self.remote = (
            {key: value for key, value in (options.get(part) or {}).items() if value is not None}
            for part in ("init", "remote")
        )

    def make_executor(self, jobs: int) -> JobExecutor:
        """Return an executor that starts Ray by `ray.init` and tasks by `ray.remote`."""
        return RayExecutor(self.init, self.remote)

    def job_environment(self, jobs: int) -> dict[str, str]:
        """Return the variables for as many threads as a task requests CPUs, by default 1."""
        return _thread_environment(max(1, int(self.remote.get("num_cpus", 1))))


class SubmititLauncher(ExternalLauncher):
    """Submitit jobs."""

    extra, module = "submitit", "submitit"
    cluster = "local"

    def __init__(self, **settings: Any) -> None:
        self.settings = {key: _plain(value) for key, value in settings.items()}

    def require_valid(self) -> None:
        """Require one process per job: each process would repeat the whole job."""
        for key in ("nodes", "tasks_per_node"):
            if self.settings.get(key, 1) != 1:
                raise ConfigError(
                    f"hydra.launcher.{key}={self.settings[key]}: a job is one process; leave {key} out"
                )

    def make_executor(self, jobs: int) -> JobExecutor:
        """Return an executor with these settings."""
        return SubmititExecutor(self._executor(), self._worker_count(), self.cluster == "slurm")

    def job_environment(self, jobs: int) -> dict[str, str]:
        """Return the variables for as many threads as a job requests CPUs, by default 1."""
        return _thread_environment(int(self.settings.get("cpus_per_task") or 1))

    def _worker_count(self) -> int:
        return max(1, provenance.cores() // int(self.settings.get("cpus_per_task") or 1))

    def _executor(self) -> Any:
        import submitit

        settings = {key: value for key, value in self.settings.items() if value is not None}
        folder = Path(str(settings.pop("submitit_folder"))).absolute()
        parameters = {k if k in QUEUE else f"{self.cluster}_{k}": v for k, v in settings.items()}
        retries = f"{self.cluster}_max_num_timeout"
        constructor_options = {retries: parameters.pop(retries)} if retries in parameters else {}
        executor = submitit.AutoExecutor(folder=folder, cluster=self.cluster, **constructor_options)
        executor.update_parameters(**parameters)
        return executor


class SlurmLauncher(SubmititLauncher):
    """Slurm jobs, which go on without the sweep that submitted them."""

    cluster, is_detached = "slurm", True

    def require_valid(self) -> None:
        """Require Slurm's commands on this machine."""
        super().require_valid()
        missing = [name for name in ("sbatch", "srun", "sacct") if shutil.which(name) is None]
        if missing:
            raise ConfigError(
                f"hydra/launcher=submitit_slurm: {missing[0]} is not installed here; start the sweep on a "
                "machine that submits to Slurm, or use hydra/launcher=submitit_local"
            )


LAUNCHERS: Mapping[str, type[ExternalLauncher]] = {
    "joblib": JoblibLauncher,
    "ray": RayLauncher,
    "submitit_local": SubmititLauncher,
    "submitit_slurm": SlurmLauncher,
}


def register() -> None:
    """Register the launchers for `hydra/launcher=`, in place of installed launchers of the same names."""
    plugins = Plugins.instance()  # first, because this registers the installed launchers
    for name, launcher_class in LAUNCHERS.items():
        plugins.class_name_to_class[f"{TARGET}.{name}"] = launcher_class
        node = {"_target_": f"{TARGET}.{name}", **SETTINGS[name]}
        ConfigStore.instance().store(group="hydra/launcher", name=name, node=node, provider="rlox")


def require_launchable(node: DictConfig) -> None:
    """Raise `ConfigError` if the configured launcher cannot launch."""
    name = str(node._target_).removeprefix(f"{TARGET}.")
    launcher_class = LAUNCHERS.get(name)
    if launcher_class is None:
        return
    try:
        importlib.import_module(launcher_class.module)
    except ImportError as error:
        raise MissingExtraError(
            f"hydra/launcher={name} needs the package {launcher_class.module}, which is not installed: "
            f"{install_command(launcher_class.extra)}"
        ) from error
    settings = {key: value for key, value in _plain(node).items() if key != "_target_"}
    launcher_settings.require_settings(name, settings)
    launcher_class(**settings).require_valid()


def _plain(value: Any) -> Any:
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


def _thread_environment(count: int) -> dict[str, str]:
    """Return the environment of a job with `count` CPUs; empty if the user has set a number of threads."""
    return (
        {}
        if any(name in os.environ for name in THREAD_COUNT_VARIABLES)
        else {THREAD_COUNT_VARIABLES[0]: str(count)}
    )
