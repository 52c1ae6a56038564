"""Where the rows of a buffer go when a run is saved: into segments, into the checkpoint, or nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from rlox.errors import CheckpointError

__all__ = ["DeferredStore", "InMemoryStore", "NullStore", "SegmentStore", "Storable", "Store"]


class Storable(Protocol):
    """A buffer of `rlox._core`."""

    @property
    def n_pushed(self) -> int:
        """Rows pushed so far."""

    def state(self) -> dict[str, Any]:
        """Return the whole state as arrays."""

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state()`."""

    def save(self, path: Path, name: str) -> int:
        """Write the rows pushed since the last save to `path`, and list the earlier ones."""

    def load(self, path: Path, name: str) -> None:
        """Continue from a save."""


class Store(Protocol):
    """Where a source saves its buffer."""

    def save(self, buffer: Storable) -> Any:
        """Store the buffer; the returned value becomes part of the checkpoint's state."""

    def load_into(self, buffer: Storable, saved: Any) -> bool:
        """Load what `save` stored; return False, with `buffer` still empty, if the rows were not kept."""


class InMemoryStore:
    """A copy of every row, in the checkpoint itself."""

    def save(self, buffer: Storable) -> Any:
        """Copy all rows."""
        return {"pushed": buffer.n_pushed, "rows": buffer.state()}

    def load_into(self, buffer: Storable, saved: Any) -> bool:
        """Load the rows in `saved`."""
        if saved is None:
            return False
        if "rows" not in saved:
            raise CheckpointError(
                "the checkpoint's rows are in the replay/ folder of its run, which is not there; "
                "put that folder back, or go on without the rows in Python: "
                "from_checkpoint(path, replay=False)"
            )
        buffer.restore(dict(saved["rows"]))
        _require_pushed(buffer, saved)
        return True


class SegmentStore:
    """A folder of immutable segments that a run's checkpoints share; each save has a `name`."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self.has_save = False  # whether a save of that name exists

    def save(self, buffer: Storable) -> Any:
        """Write the rows pushed since the last save."""
        self.folder.mkdir(parents=True, exist_ok=True)
        buffer.save(self.folder, self.name)
        self.has_save = True
        return {"pushed": buffer.n_pushed}

    def load_into(self, buffer: Storable, saved: Any) -> bool:
        """Read and check every row."""
        if saved is None or "rows" in saved:
            return InMemoryStore().load_into(buffer, saved)
        buffer.load(self.folder, self.name)
        _require_pushed(buffer, saved)
        return True


class DeferredStore:
    """Remembers a buffer that is saved outside a run; its rows are written once the folder exists."""

    def __init__(self) -> None:
        self.buffer: Storable | None = None

    def save(self, buffer: Storable) -> Any:
        """Remember the buffer."""
        self.buffer = buffer
        return {"pushed": buffer.n_pushed}

    def load_into(self, buffer: Storable, saved: Any) -> bool:
        """Load nothing: no rows are kept here."""
        return False


class NullStore:
    """Stores no rows: a resumed run fills a new buffer."""

    def save(self, buffer: Storable) -> Any:
        """Store nothing."""
        return None

    def load_into(self, buffer: Storable, saved: Any) -> bool:
        """Load nothing."""
        return False


def _require_pushed(buffer: Storable, saved: Mapping[str, Any]) -> None:
    if buffer.n_pushed != saved["pushed"]:
        raise CheckpointError(
            f"the saved buffer has received {buffer.n_pushed} rows, expected {saved['pushed']}: it "
            "belongs to another checkpoint"
        )
