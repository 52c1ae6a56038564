"""What callbacks remember, in a checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rlox.callbacks import Callback, named
from rlox.errors import CheckpointError
from rlox.kinds import back, kept

__all__ = ["restore_callbacks", "states_of"]


def states_of(callbacks: Iterable[Callback]) -> list[dict[str, Any]]:
    """Copies of the states of those that have one, with the name of each one's class.

    Raises `CheckpointError` for what would not come back, with its place.
    """
    found = []
    for callback in callbacks:
        if not isinstance(callback, Callback):
            continue
        with named(callback):
            state = callback.state()
        whose = f"the callback {type(callback).__name__}:"
        if not isinstance(state, Mapping):
            raise CheckpointError(
                f"{whose} state() returned a {type(state).__name__}, expected a dict"
            )
        if state:
            found.append({"name": _name(callback), "state": kept(state, f"{whose} its state")})
    return found


def restore_callbacks(callbacks: Iterable[Callback], saved: Iterable[Mapping[str, Any]]) -> None:
    """Give each callback the next state that one of its class left; those of other classes begin anew."""
    left = list(saved)
    for callback in callbacks:
        found = next((one for one in left if one["name"] == _name(callback)), None)
        if found is not None:
            left.remove(found)
            with named(callback):
                callback.restore(back(found["state"]))


def _name(callback: Callback) -> str:
    return f"{type(callback).__module__}:{type(callback).__qualname__}"
