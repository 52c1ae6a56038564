"""`sweep.*`: how a sweep runs its jobs; its jobs lack these keys, which change no result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rlox.configs import make
from rlox.configs.params import param
from rlox.errors import ConfigError

PREFIX = "sweep."
WORKERS = f"{PREFIX}workers"
LAUNCHER = "hydra/launcher"
# Hydra's keys that have no effect on a single job, and its keys for a single job.
MULTI_RUN_PREFIXES = (LAUNCHER, "hydra/sweeper", "hydra.launcher.", "hydra.sweeper.", "hydra.sweep.")
SINGLE_RUN_PREFIXES = ("hydra.run.dir",)


@dataclass(frozen=True)
class SweepOptions:
    """The keys of a sweep besides those of its jobs."""

    workers: int = param(1, "processes that run jobs in parallel on this machine", within="[1, 1024]")

    def launcher_overrides(self) -> list[str]:
        """Return the overrides that make Hydra use this number of workers."""
        if self.workers == 1:
            return []
        from rlox_cli.sweeps.launcher import register  # imported here because it imports Hydra

        register()
        return [f"{LAUNCHER}=workers", f"hydra.launcher.workers={self.workers}"]


def split_sweep_options(args: Sequence[str]) -> tuple[SweepOptions, list[str]]:
    """Return the sweep options of a command line, each with its last value, and the other arguments."""
    values = {key: value for key, value in map(_split_argument, args) if key == WORKERS}
    rest = [arg for arg in args if _split_argument(arg)[0] not in values]
    for arg in rest:
        if _split_argument(arg)[0].startswith(SINGLE_RUN_PREFIXES):
            raise ConfigError(f"{arg}: this is the folder of one run; for a sweep: hydra.sweep.dir=FOLDER")
        if values and _split_argument(arg)[0] == LAUNCHER:
            raise ConfigError(
                f"{WORKERS}={values[WORKERS]} and {arg} both say where jobs run; leave one of them out"
            )
    data = {key.removeprefix(PREFIX): _parse_number(value) for key, value in values.items()}
    return make(SweepOptions, data, PREFIX.rstrip(".")), rest


def refuse_sweep_options(args: Iterable[str]) -> None:
    """Raise `ConfigError` if a single run is given keys that only a sweep has."""
    for arg in args:
        if _split_argument(arg)[0] == WORKERS:
            raise ConfigError(
                f"{arg}: a single run has no workers; for several runs: rlox sweep, or rlox train -m"
            )
        if _split_argument(arg)[0].startswith(MULTI_RUN_PREFIXES):
            raise ConfigError(
                f"{arg}: this key is for several runs: rlox sweep, or rlox train -m; the folder of one "
                "run is hydra.run.dir=FOLDER"
            )


def _split_argument(arg: str) -> tuple[str, str]:
    key, _, value = arg.lstrip("+").partition("=")
    return key, value


def _parse_number(text: str) -> int | str | None:
    """Parse a whole number; for anything else `make` reports what was expected."""
    if text in ("", "null"):
        return None
    return int(text) if text.isdecimal() or (text[:1] == "-" and text[1:].isdecimal()) else text
