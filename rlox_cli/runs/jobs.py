"""Jobs and their folders: under run_root, in a sweep, or at a path that the user names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from rlox.disk import lock_file
from rlox.errors import StorageError
from rlox_cli.config.options import conf_folders, group_options, read_option_file
from rlox_cli.config.run_schema import ALGO, BUFFER
from rlox_cli.config.variants import left_out_of_preset, resolve_variant
from rlox_cli.runs.identity import SHORT_ID_LENGTH, job_folders, job_slug, saved_identity
from rlox_cli.runs.run_folder import (
    DONE,
    KILLED,
    PRUNED,
    RUNNING,
    UNREADABLE,
    RunFolder,
    is_locked,
    read_result_or_none,
    read_state,
    translate_os_errors,
)
from rlox_cli.sweeps.job_titles import parse_trial_name

BUSY_MESSAGE = "running in another process"
STOPPED_STATES = (KILLED, RUNNING)  # stopped by a signal; or killed while status.json said running


@dataclass
class Job:
    """One run as Hydra launches it."""

    overrides: list[str]
    sweep: Path | None
    number: int
    requested_dir: Path | None
    tuned: str | None = None
    not_tuned: tuple[str, ...] = ()  # fields of that preset which the algorithm of a plugin leaves out
    preset_keys: frozenset[str] = frozenset()  # keys of the tuned preset that were not typed
    common_overrides: frozenset[str] = frozenset()  # overrides that every job of the sweep has
    trial: int | None = None  # number in a search; a pruned run of it may be resumed
    identity: str = ""  # set once its configuration is known
    folder: Path | None = None  # set once it has been created
    run: RunFolder | None = None  # set once this process may write to it
    variant: str = ""  # the user's own options in it, e.g. `algo=ppo_big exp=mine`

    @property
    def name(self) -> str:
        """The folder name inside a sweep; for a trial its number in the search and the seed."""
        seed = [override for override in self.overrides if override.startswith("seed=")]
        slug = job_slug(seed if self.trial else self.overrides, self.common_overrides)
        number = self.trial or self.number
        return "_".join(filter(None, [str(number), slug, self.identity[:SHORT_ID_LENGTH]]))

    def run_dirs(self) -> list[Path]:
        """Return the runs of this configuration in the sweep, whatever their names."""
        return [path for path in job_folders(self.sweep) if self._has_identity(path)] if self.sweep else []

    def earlier_dirs(self) -> list[Path]:
        """Return `run_dirs()` and any folder that has the job's name, from an early kill or another job."""
        run_dirs = self.run_dirs()
        own_dir = self.sweep / self.name if self.sweep else None
        return [*run_dirs, own_dir] if own_dir and own_dir.exists() and own_dir not in run_dirs else run_dirs

    def prepare_dir(self) -> Path | None:
        """Set earlier attempts aside and return the folder to create; `None`: a new one under run_root."""
        if self.sweep is None:
            return self.requested_dir
        for folder in self.earlier_dirs():
            _set_aside(folder)
        return self.sweep / self.name

    def _has_identity(self, folder: Path) -> bool:
        return saved_identity(folder) == self.identity


def current_job(common_overrides: frozenset[str] = frozenset()) -> Job:
    """Return the job that Hydra is running now."""
    node = HydraConfig.get()
    is_swept = node.mode == RunMode.MULTIRUN
    # `.` is the user's choice, or what Hydra has for a run that has no folder of its own
    has_run_dir = any(str(o).lstrip("+").startswith("hydra.run.dir=") for o in node.overrides.hydra)
    has_own_dir = not is_swept and (has_run_dir or str(node.run.dir) != ".")
    overrides = _task_overrides(node)
    sources = [Path(s.path) for s in node.runtime.config_sources if s.schema == "file"]
    folders = [*conf_folders(), *sources]
    tuned = _used_preset(str(node.runtime.choices.get("tuned")), folders)
    return Job(
        overrides=overrides,
        sweep=Path(node.sweep.dir) if is_swept else None,
        number=int(node.job.num) if is_swept else 0,
        requested_dir=Path(node.run.dir) if has_own_dir else None,
        tuned=tuned,
        not_tuned=_left_out_of_preset(str(node.runtime.choices.get(ALGO.name)), tuned, folders),
        preset_keys=_preset_env_keys(tuned, folders) - {o.lstrip("+~").partition("=")[0] for o in overrides},
        common_overrides=common_overrides,
        trial=parse_trial_name(str(node.job.name)) if is_swept else None,
        variant=_variant(node.runtime.choices),
    )


def _variant(choices: Mapping[str, Any]) -> str:
    """Return the user's own options: the experiment, and the variants of an algorithm or a buffer."""
    options = {group: str(choices.get(group)) for group in ("exp", ALGO.name, BUFFER.name)}
    known = {"None", "null", *ALGO.registry, *BUFFER.registry}
    return " ".join(f"{group}={option}" for group, option in options.items() if option not in known)


def _preset_env_keys(tuned: str | None, folders: Sequence[Path]) -> frozenset[str]:
    """Return the keys that a preset sets for the environment."""
    env = read_option_file("tuned", tuned, folders).get("env") if tuned else None
    return frozenset(f"env.{name}" for name in env) if isinstance(env, dict) else frozenset()


def _left_out_of_preset(algo: str, tuned: str | None, folders: Sequence[Path]) -> tuple[str, ...]:
    return tuple(left_out_of_preset(ALGO.tag(algo, folders), tuned, folders)) if tuned else ()


def _used_preset(name: str, folders: Sequence[Path]) -> str | None:
    """Return the tuned preset in use, if any; Hydra names a preset even if it does not exist."""
    if name in group_options("tuned", folders):
        return name
    variant_path = resolve_variant(f"tuned/{name}", folders)
    return variant_path.removeprefix("tuned/") if variant_path else None


def find_finished(job: Job) -> Path | None:
    """Return the folder in which this job is done already, if any."""
    for folder in job.run_dirs():
        if read_state(folder) == DONE and read_result_or_none(folder) is not None:
            return folder
    return None


def find_interrupted(job: Job) -> Path | None:
    """Return the folder in which this job was stopped and left a whole checkpoint, if any.

    A run whose status or result is lost or damaged is resumed too, so that its training is not lost.
    """
    for folder in job.run_dirs():
        resumable_states = (
            *STOPPED_STATES,
            UNREADABLE,
            DONE,
            *[PRUNED] * bool(job.trial),
        )  # DONE: `find_finished` found no result
        if read_state(folder) in resumable_states and any(folder.glob("checkpoints/step-*")):
            from rlox.runs.checkpoint import newest_checkpoint  # imported here because it imports torch

            if newest_checkpoint(folder) is not None:
                return folder
    return None


@contextmanager
def claim(job: Job) -> Iterator[bool]:
    """Let no other process start this job in this sweep; yield False if another process runs it already.

    The lock of a run folder is not enough: the folder is searched, moved and created before it has a lock.
    """
    assert job.sweep is not None
    path = job.sweep / f".claim-{job.identity[:16]}"
    try:
        descriptor = _lock_file(path)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            path.unlink(missing_ok=True)
            os.close(descriptor)


def find_busy_dir(job: Job) -> Path | None:
    """Return the folder in which another process runs this job now, if any."""
    return next((folder for folder in job.earlier_dirs() if is_locked(folder)), None)


def save_hydra(folder: Path, config: DictConfig) -> None:
    """Write `.hydra/`: the composed configuration and its overrides, for people to read."""
    node, hydra_dir = HydraConfig.get(), folder / ".hydra"
    with translate_os_errors(hydra_dir):
        hydra_dir.mkdir()
        OmegaConf.save(config, hydra_dir / "config.yaml")
        OmegaConf.save(OmegaConf.create({"hydra": node}), hydra_dir / "hydra.yaml")
        OmegaConf.save(node.overrides.task, hydra_dir / "overrides.yaml")


def _task_overrides(node: Any) -> list[str]:
    # Unresolved: an override may hold an interpolation, which belongs to the job's config.
    task_overrides = OmegaConf.to_container(node.overrides.task, resolve=False)
    return [str(override) for override in cast(list[str], task_overrides)]


def _lock_file(path: Path) -> int | None:
    """Create and lock the file and return its descriptor; `None` if another process has the lock."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            lock_file(descriptor)
        except BlockingIOError:
            os.close(descriptor)
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        os.close(descriptor)  # the last holder removed the file just before this process got the lock


def _set_aside(folder: Path) -> None:
    attempt = 1
    while (target := folder.with_name(f"{folder.name}.attempt{attempt}")).exists():
        attempt += 1
    with translate_os_errors(target):
        folder.rename(target)
