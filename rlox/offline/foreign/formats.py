"""Detection of dataset formats, and the names of dataset columns in other formats."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from rlox.errors import ConfigError
from rlox.sources.dataset_file import DOCUMENT_FILE

__all__ = [
    "ALIASES",
    "MINARI_FILES",
    "NOTE_KEY",
    "OPTIONAL_COLUMNS",
    "ColumnBlock",
    "detect_format",
    "match_columns",
]

ColumnBlock = dict[str, Any]  # arrays by the keys of `ALIASES`; `next_obs` may be missing

# Names of each column in other formats; the first is D4RL's, which exports use.
ALIASES = {
    "obs": ("observations", "obs", "observation", "states"),
    "next_obs": ("next_observations", "next_obs", "next_observation", "next_states"),
    "actions": ("actions", "action"),
    "rewards": ("rewards", "reward"),
    "terminated": ("terminals", "terminated", "terminations"),
    "truncated": ("timeouts", "truncated", "truncations"),
}
OPTIONAL_COLUMNS = ("next_obs", "truncated")
NOTE_KEY = "rlox"  # key of rlox's metadata in exported datasets
MINARI_FILES = ("metadata.json", "main_data.hdf5")  # the only files in data/ of a Minari folder

_MAGIC_BYTES = {
    b"\x89HDF\r\n\x1a\n": "d4rl",
    b"PK\x03\x04": "npz",
    b"PK\x05\x06": "npz",
    b"PAR1": "parquet",
}


def detect_format(path: Path) -> str:
    """Return the format of `path`, one of `rlox.configs.offline.FORMATS`; raise `ConfigError` if unknown."""
    if not path.exists():
        raise ConfigError(f"{path} is not there, expected a dataset: a folder or a file")
    if path.is_dir():
        if (path / DOCUMENT_FILE).is_file():
            return "rlox"
        if minari_folder(path) is not None:
            return "minari"
        if (path / "checkpoints").is_dir():
            raise ConfigError(
                f"{path} is a run; rlox dataset make FOLDER policy={path} quality=full-replay makes a "
                "dataset of its replay buffer"
            )
        raise ConfigError(
            f"{path}: expected the folder of a dataset, with {DOCUMENT_FILE} as rlox dataset make writes "
            "one, or Minari's data/metadata.json"
        )
    with path.open("rb") as file:
        magic_bytes = file.read(8)
    format_name = next(
        (name for prefix, name in _MAGIC_BYTES.items() if magic_bytes.startswith(prefix)), None
    )
    if format_name is None:
        raise ConfigError(
            f"{path} begins with {magic_bytes!r}, which is none of HDF5, npz and Parquet; pickled data is "
            "not read"
        )
    return format_name


def minari_folder(path: Path) -> Path | None:
    """Return the folder with Minari's metadata.json in `path`; None if there is none."""
    return next((p for p in (path / "data", path) if (p / MINARI_FILES[0]).is_file()), None)


def match_columns(available: Collection[str], source_name: str) -> dict[str, str]:
    """Return the available name of each column; raise `ConfigError` for a missing or ambiguous one."""
    names_by_column = {}
    for column, names in ALIASES.items():
        present = [name for name in names if name in available]
        if len(present) > 1:
            raise ConfigError(f"{source_name} has {' and '.join(present)}, expected one of them")
        if present:
            names_by_column[column] = present[0]
        elif column not in OPTIONAL_COLUMNS:
            available_text = ", ".join(sorted(available)[:20]) or "nothing"
            raise ConfigError(
                f"{source_name} has no {names[0]} ({', '.join(names)}); it has {available_text}"
            )
    return names_by_column
