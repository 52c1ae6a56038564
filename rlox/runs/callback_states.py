"""What callbacks remember, in a checkpoint: it comes back with its kinds, which JSON does not have all of."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from rlox.callbacks import Callback, named
from rlox.devices import loaded_torch
from rlox.errors import CheckpointError

__all__ = ["restore_callbacks", "states_of"]

# In place of a dict whose keys JSON would change, or of which arrays could not be named by; of a tuple.
PAIRS, TUPLE = "$pairs", "$tuple"
DEEPEST = 100  # levels of a state: one that holds itself has no end
SHOWN = 120  # characters of a place, where it is deep


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
            found.append({"name": _name(callback), "state": _kept(state, f"{whose} its state")})
    return found


def restore_callbacks(callbacks: Iterable[Callback], kept: Iterable[Mapping[str, Any]]) -> None:
    """Give each callback the next state that one of its class left; those of other classes begin anew."""
    left = list(kept)
    for callback in callbacks:
        found = next((saved for saved in left if saved["name"] == _name(callback)), None)
        if found is not None:
            left.remove(found)
            with named(callback):
                callback.restore(_back(found["state"]))


def _name(callback: Callback) -> str:
    return f"{type(callback).__module__}:{type(callback).__qualname__}"


def _kept(value: Any, at: str, level: int = 0) -> Any:
    """A copy that a checkpoint takes; numbers of NumPy are Python's, and `OrderedDict`s, which torch's
    `state_dict()` gives, are dicts.
    """
    if level > DEEPEST:
        raise CheckpointError(
            f"{at[:SHOWN]}... holds itself, or has more than {DEEPEST} levels; leave out what refers back"
        )
    below = level + 1
    if isinstance(value, np.generic):
        value = value.item()
    kind = type(value)  # a subclass would come back as its base
    if value is None or kind in (bool, int, float, str):
        return value
    if kind in (dict, OrderedDict):
        if all(type(key) is str and key[:1] != "$" and "/" not in key for key in value):
            return {key: _kept(of, f"{at}[{key!r}]", below) for key, of in value.items()}
        return {
            PAIRS: [
                [_kept(key, f"{at}, a key,", below), _kept(of, f"{at}[{key!r}]", below)]
                for key, of in value.items()
            ]
        }
    if kind in (list, tuple):
        parts = [_kept(of, f"{at}[{i}]", below) for i, of in enumerate(value)]
        return {TUPLE: parts} if kind is tuple else parts
    told = f"a {kind.__name__}"
    if kind is np.ndarray:
        if value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
            return value.copy()
        told = f"an array of {value.dtype.str if value.dtype.kind == 'U' else value.dtype}"
    torch = loaded_torch()
    if torch is not None and isinstance(value, torch.Tensor):
        try:
            value.new_empty(0, device="cpu").detach().numpy()
            return value.detach().cpu().clone()
        except (RuntimeError, TypeError):
            told = f"a tensor of {value.dtype}, {value.layout}"
    raise CheckpointError(
        f"{at} is {told}, expected None, a number, text, a list, a tuple, a dict, or an array or dense "
        "tensor of numbers that NumPy has"
    )


def _back(value: Any) -> Any:
    """What `_kept` was given."""
    if isinstance(value, list):
        return [_back(of) for of in value]
    if not isinstance(value, dict):
        return value
    if PAIRS in value:
        return {_back(key): _back(of) for key, of in value[PAIRS]}
    if TUPLE in value:
        return tuple(_back(of) for of in value[TUPLE])
    return {key: _back(of) for key, of in value.items()}
