"""A dataset of any format as a folder of rlox's own."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlox.offline.foreign.kinds import Raw, format_of
from rlox.offline.foreign.receiving import received
from rlox.offline.foreign.transitions import transitions
from rlox.offline.foreign.writing import written
from rlox.sources.dataset_file import COLUMNS, Dataset, read_dataset, require_about
from rlox.sources.file_columns import blocks

__all__ = ["Conversion", "converted"]


@dataclass(frozen=True)
class Conversion:
    """What is known of a file beside what is in it.

    Attributes
    ----------
    env : the environment that it is of, as Gymnasium calls it
    time_limit : steps after which episodes were cut off; ends there are truncations
    """

    env: str | None = None
    time_limit: int | None = None


def converted(path: Path | str, folder: Path | str, how: Conversion | None = None) -> Dataset:
    """Write what is in `path` to `folder`, row by row; files larger than memory are no trouble."""
    path, folder, how = Path(path), Path(folder), how or Conversion()
    fresh = not folder.exists()
    kind, about = format_of(path), dict[str, Any]()
    raw = _own(path, about) if kind == "rlox" else received(kind, path, about)
    rows = _told(transitions(raw, str(path), how.time_limit, about), about, path, kind, how)
    try:
        with closing(raw):  # else its process lives as long as an error that refers to it
            return written(rows, about, folder)
    finally:
        if fresh:
            with suppress(OSError):  # something is in it: a dataset, if all went well
                folder.rmdir()


def _own(path: Path, about: dict[str, Any]) -> Generator[Raw]:
    dataset = read_dataset(path, most=0)
    about.update(dataset.about, digest=dataset.digest)
    columns = dataset.columns
    for _, rows in blocks(*(columns[name] for name in COLUMNS)):
        yield dict(zip(COLUMNS, rows, strict=True))


def _told(
    rows: Iterator[Raw], about: dict[str, Any], path: Path, kind: str, how: Conversion
) -> Iterator[Raw]:
    """The rows; when they are over `about` has what is known of them, where it is still so."""
    yield from rows
    if how.time_limit is not None:  # ends are others now, and with them returns
        for key in ("digest", "returns", "behaviour", "episodes", "terminations", "time_limits"):
            about.pop(key, None)
        about["time_limit"] = how.time_limit
    if how.env is not None:
        about["env"] = how.env
    about.setdefault("converted_from", {"format": kind, "file": path.name})
    require_about(about, str(path))
