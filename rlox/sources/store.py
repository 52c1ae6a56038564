"""Where the rows of a buffer go when a run is saved: segments on disk, memory, or nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from rlox.errors import CheckpointError

__all__ = ["DeferredStore", "InMemoryStore", "NullStore", "Segments", "Storable", "Store"]


class Storable(Protocol):
    """A buffer of `rlox._core`."""

    @property
    def n_pushed(self) -> int:
        """Rows pushed so far."""

    def state(self) -> dict[str, Any]:
        """Everything, as arrays."""

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state()`."""

    def save(self, path: Path, name: str) -> int:
        """Write what came since the last save in `path` and list the rest."""

    def load(self, path: Path, name: str) -> None:
        """Continue from a save."""


class Store(Protocol):
    """Where a source puts its buffer."""

    def save(self, buffer: Storable) -> Any:
        """Store the buffer as it is; what is returned goes into the checkpoint's state."""

    def load_into(self, buffer: Storable, saved: Any) -> bool:
        """Bring back what `save` returned; False if it was not kept, and `buffer` stays empty."""


class InMemoryStore:
    """A copy of every row in the checkpoint itself."""

    def save(self, buffer: Storable) -> Any:
        """All rows."""
        return {"pushed": buffer.n_pushed, "rows": buffer.state()}

    def load_into(self, buffer: Storable, saved: Any) -> bool:
        """From the rows in `saved`."""
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


class Segments:
    """A folder of immutable segments that the checkpoints of a run share; one save has `name`."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self.has_save = False  # whether there is a save of that name

    def save(self, buffer: Storable) -> Any:
        """Write what came since the last save."""
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
    """For a checkpoint apart from a run, which writes the rows once it has its folder."""

    def __init__(self) -> None:
        self.buffer: Storable | None = None

    def save(self, buffer: Storable) -> Any:
        """Remember which buffer it is."""
        self.buffer = buffer
        return {"pushed": buffer.n_pushed}

    def load_into(self, buffer: Storable, saved: Any) -> bool:
        """Nothing is kept here."""
        return False


class NullStore:
    """Without the rows: a run that goes on from there fills a new buffer."""

    def save(self, buffer: Storable) -> Any:
        """Nothing."""
        return None

    def load_into(self, buffer: Storable, saved: Any) -> bool:
        """Nothing."""
        return False


def _require_pushed(buffer: Storable, saved: Mapping[str, Any]) -> None:
    if buffer.n_pushed != saved["pushed"]:
        raise CheckpointError(
            f"the replay of the checkpoint has {buffer.n_pushed} rows pushed, expected {saved['pushed']}: "
            "it belongs to another checkpoint"
        )
