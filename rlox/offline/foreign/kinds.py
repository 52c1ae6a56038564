"""Which format a file or folder is in, and what others call the columns of a dataset."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from rlox.errors import ConfigError
from rlox.sources.dataset_file import DOCUMENT

__all__ = ["ALIASES", "MINARI_FILES", "NOTE", "OPTIONAL", "Raw", "columns_in", "format_of"]

Raw = dict[str, Any]  # arrays by the names of `ALIASES`; `next_obs` may be missing

# Each column by the names that it has elsewhere; the first is what D4RL calls it, and what is written.
ALIASES = {
    "obs": ("observations", "obs", "observation", "states"),
    "next_obs": ("next_observations", "next_obs", "next_observation", "next_states"),
    "actions": ("actions", "action"),
    "rewards": ("rewards", "reward"),
    "terminated": ("terminals", "terminated", "terminations"),
    "truncated": ("timeouts", "truncated", "truncations"),
}
OPTIONAL = ("next_obs", "truncated")
NOTE = "rlox"  # under this name is what rlox said of a dataset that it wrote in a format of others
MINARI_FILES = ("metadata.json", "main_data.hdf5")  # all that is in the data/ of a folder of Minari

_BEGINNINGS = {
    b"\x89HDF\r\n\x1a\n": "d4rl",
    b"PK\x03\x04": "npz",
    b"PK\x05\x06": "npz",
    b"PAR1": "parquet",
}


def format_of(path: Path) -> str:
    """One of `rlox.configs.offline.FORMATS`, by what is there; `ConfigError` for anything else."""
    if not path.exists():
        raise ConfigError(f"{path} is not there, expected a dataset: a folder or a file")
    if path.is_dir():
        if (path / DOCUMENT).is_file():
            return "rlox"
        if minari_folder(path) is not None:
            return "minari"
        if (path / "checkpoints").is_dir():
            raise ConfigError(
                f"{path} is a run; rlox dataset make FOLDER policy={path} quality=full-replay makes a "
                "dataset of its replay buffer"
            )
        raise ConfigError(
            f"{path}: expected the folder of a dataset, with {DOCUMENT} as rlox dataset make writes one, or "
            "Minari's data/metadata.json"
        )
    with path.open("rb") as file:
        begin = file.read(8)
    found = next((kind for magic, kind in _BEGINNINGS.items() if begin.startswith(magic)), None)
    if found is None:
        raise ConfigError(
            f"{path} begins with {begin!r}, which is none of HDF5, npz and Parquet; pickled data is not read"
        )
    return found


def minari_folder(path: Path) -> Path | None:
    """The folder with Minari's metadata.json in `path`; None if there is none."""
    return next((p for p in (path / "data", path) if (p / MINARI_FILES[0]).is_file()), None)


def columns_in(there: Collection[str], where: str) -> dict[str, str]:
    """What each column is called among the names `there`; `ConfigError` for a missing or doubled one."""
    found = {}
    for column, names in ALIASES.items():
        known = [name for name in names if name in there]
        if len(known) > 1:
            raise ConfigError(f"{where} has {' and '.join(known)}, expected one of them")
        if known:
            found[column] = known[0]
        elif column not in OPTIONAL:
            listed = ", ".join(sorted(there)[:20]) or "nothing"
            raise ConfigError(f"{where} has no {names[0]} ({', '.join(names)}); it has {listed}")
    return found
