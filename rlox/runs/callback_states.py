"""States of callbacks in a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rlox.callbacks import Callback, name_errors
from rlox.errors import CheckpointError
from rlox.state_tree import from_state_tree, to_state_tree

__all__ = ["get_callback_states", "restore_callbacks"]


def get_callback_states(callbacks: Iterable[Callback]) -> list[dict[str, Any]]:
    """Return copies of the callbacks' states, each with the name of its class; empty ones are left out.

    Raises `CheckpointError` for a value that could not be restored; the message names its place.
    """
    states = []
    for callback in callbacks:
        if not isinstance(callback, Callback):
            continue
        with name_errors(callback):
            state = callback.state()
        label = f"the callback {type(callback).__name__}:"
        if not isinstance(state, Mapping):
            raise CheckpointError(f"{label} state() returned a {type(state).__name__}, expected a dict")
        if state:
            states.append(
                {"name": _class_name(callback), "state": to_state_tree(state, f"{label} its state")}
            )
    return states


def restore_callbacks(callbacks: Iterable[Callback], states: Iterable[Mapping[str, Any]]) -> None:
    """Restore each callback from the next state of its class; a callback without a state starts anew."""
    remaining = list(states)
    for callback in callbacks:
        entry = next(
            (candidate for candidate in remaining if candidate["name"] == _class_name(callback)), None
        )
        if entry is not None:
            remaining.remove(entry)
            with name_errors(callback):
                callback.restore(from_state_tree(entry["state"]))


def _class_name(callback: Callback) -> str:
    return f"{type(callback).__module__}:{type(callback).__qualname__}"
