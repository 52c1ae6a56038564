"""What objects of users remember, as trees of JSON and arrays that come back with their kinds."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np

from rlox.devices import loaded_torch
from rlox.errors import CheckpointError

__all__ = ["back", "kept"]

# In place of a dict whose keys JSON would change, or of which arrays could not be named by; of a tuple; of
# a number of NumPy.
PAIRS, TUPLE, NUMBER = "$pairs", "$tuple", "$number"
DEEPEST = 100  # levels of a state: one that holds itself has no end
SHOWN = 120  # characters of a place, where it is deep


def kept(value: Any, at: str, level: int = 0, numpy: bool = False) -> Any:
    """A copy that a checkpoint takes; `CheckpointError` for what would not come back, with its place.

    `OrderedDict`s, which torch's `state_dict()` gives, are dicts afterwards. Numbers of NumPy are Python's,
    or with `numpy` themselves: their kind decides the arithmetic that goes on with them.
    """
    if level > DEEPEST:
        raise CheckpointError(
            f"{at[:SHOWN]}... holds itself, or has more than {DEEPEST} levels; leave out what refers back"
        )

    def part(of: Any, where: str) -> Any:
        return kept(of, where, level + 1, numpy)

    if isinstance(value, np.generic):
        if numpy and value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
            return {NUMBER: [value.dtype.str, value.item()]}
        value = value.item()
    kind = type(value)  # a subclass would come back as its base
    if value is None or kind in (bool, int, float, str):
        return value
    if kind in (dict, OrderedDict):
        if all(type(key) is str and key[:1] != "$" and "/" not in key for key in value):
            return {key: part(of, f"{at}[{key!r}]") for key, of in value.items()}
        return {
            PAIRS: [
                [part(key, f"{at}, a key,"), part(of, f"{at}[{key!r}]")]
                for key, of in value.items()
            ]
        }
    if kind in (list, tuple):
        parts = [part(of, f"{at}[{i}]") for i, of in enumerate(value)]
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


def back(value: Any) -> Any:
    """What `kept` was given."""
    if isinstance(value, list):
        return [back(of) for of in value]
    if not isinstance(value, dict):
        return value
    if PAIRS in value:
        return {back(key): back(of) for key, of in value[PAIRS]}
    if NUMBER in value:
        name, number = value[NUMBER]
        kind = np.dtype(name)
        if kind.kind not in "biuf" or type(number) not in (bool, int, float):
            raise CheckpointError(  # np.void(10**12) would take as many bytes
                f"{type(number).__name__} of {kind} in a saved state, expected a number"
            )
        return kind.type(number)
    if TUPLE in value:
        return tuple(back(of) for of in value[TUPLE])
    return {key: back(of) for key, of in value.items()}
