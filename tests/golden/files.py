"""Golden files, their index, and the differences between two of them."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
INDEX = HERE / "index.json"
NOT_GOLDEN = (".py", ".pyc", "README.md", INDEX.name)
Arrays = dict[str, NDArray[Any]]
Change = float | str | None
"""The largest absolute change of an array, or words if it has none; `None` if every bit is equal."""


class UnknownCase(ValueError):
    """No golden case has that name."""


def golden_files(here: Path = HERE) -> list[str]:
    """Return the paths of all files but code, README.md and the index, as the index has them."""
    found = []
    for folder, _, names in os.walk(here):  # follows no links: `last` is a second name of a checkpoint
        below = Path(folder).relative_to(here)
        found += [(below / name).as_posix() for name in names if not name.endswith(NOT_GOLDEN)]
    return sorted(found)


def read(path: Path) -> Arrays:
    """Return the arrays of an npz file."""
    with np.load(path) as file:
        return {key: file[key] for key in file.files}


def write(path: Path, arrays: Arrays) -> None:
    """Write an npz file and create the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **arrays)  # type: ignore[arg-type]  # whose keys are no options


def sha256(path: Path) -> str:
    """Return the digest of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def format_of(path: Path) -> str:
    """Return the name of a file's format and its version, if the file has one."""
    if path.suffix in (".seg", ".manifest"):
        (version,) = struct.unpack_from("<I", path.read_bytes(), 8)
        return f"{path.suffix[1:]} {version}"
    if path.suffix == ".npz":
        return _format_of_arrays(read(path))
    for folder in path.parents:  # a checkpoint or dataset has one version for all its files
        for name, kind in (("manifest.json", "checkpoint"), ("dataset.json", "dataset")):
            if (folder / name).is_file():
                said = json.loads((folder / name).read_text(encoding="utf-8"))
                return f"{kind} {said.get('schema_version', said.get('format', '?'))}"
        if folder == HERE:
            break
    return path.suffix[1:] or path.name


def _format_of_arrays(arrays: Arrays) -> str:
    for key, kind in (("format", "state"), ("snapshot/format", "snapshot")):
        if key in arrays:
            return f"{kind} {arrays[key]}"
    return "arrays"


def largest_change(before: NDArray[Any], after: NDArray[Any]) -> Change:
    """Return the largest absolute difference, a text if types or shapes differ, or `None`.

    It is 0 if only signs of zeros or bits of NaN differ, and infinite if one of two numbers is NaN.
    """
    if (before.dtype, before.shape) != (after.dtype, after.shape):
        return f"{before.dtype}{list(before.shape)} -> {after.dtype}{list(after.shape)}"
    if before.tobytes() == after.tobytes():
        return None
    if before.dtype.kind not in "fiub":
        return "other text"
    same = np.equal(before, after) | (_is_nan(before) & _is_nan(after))
    with np.errstate(invalid="ignore"):  # infinity minus infinity, where both are equal
        apart = np.where(same, 0, np.abs(after.astype(np.float64) - before.astype(np.float64)))
    return float(np.nan_to_num(apart, nan=np.inf).max())


def _is_nan(array: NDArray[Any]) -> NDArray[np.bool_]:
    return np.isnan(array) if array.dtype.kind == "f" else np.zeros(array.shape, bool)


def changes(before: Arrays, after: Arrays) -> Iterator[tuple[str, Change]]:
    """Yield each array's name and its largest change, or `gone` or `new`."""
    for key in before | after:
        if key not in after or key not in before:
            yield key, "gone" if key in before else "new"
        else:
            yield key, largest_change(before[key], after[key])


def in_words(found: Mapping[str, Change]) -> str:
    """Return how many arrays changed, by how much at most, and how many are new, gone or of another shape."""
    changed = [change for change in found.values() if change is not None]
    numbers = [change for change in changed if not isinstance(change, str)]
    texts = Counter(change for change in changed if isinstance(change, str))
    said = [f"arrays: {len(found) - len(changed)} equal"]
    if numbers:
        said.append(f"{len(numbers)} changed by at most {max(numbers):.3g}")
    return ", ".join(said + [f"{count} {text}" for text, count in texts.items()])


def load_index() -> dict[str, Any]:
    """Return the index.

    `made` has commit, CPU and versions by key; `files` has format, key and digest by path.
    """
    found: dict[str, Any] = json.loads(INDEX.read_text(encoding="utf-8"))
    return found


def save_index(index: dict[str, Any]) -> None:
    """Write the index, one line for each entry, sorted by name."""
    parts = []
    for part in ("made", "files"):
        rows = (f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(index[part].items()))
        parts.append(f' "{part}": {{\n' + ",\n".join(rows) + "\n }")
    INDEX.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def entry(name: str, made: str) -> dict[str, str]:
    """Return the index entry of a file."""
    return {"format": format_of(HERE / name), "made": made, "sha256": sha256(HERE / name)}
