"""Changed states of buffers: which states a buffer must refuse, and what it must hold after the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from helpers.callables.engine import Invalid, as_array
from rlox.errors import InternalError, RloxError

State = Mapping[str, Any]


def must_be_refused(state: Any, good: State) -> bool:
    """Return whether a state lacks a part, or has one that no buffer writes.

    Such a part is another layout or format, or an array that is not a row of integers.
    """
    if not isinstance(state, dict) or not good.keys() <= state.keys():
        return True
    for name, part in good.items():
        value = state[name]
        if isinstance(part, np.ndarray):
            if not integers(value):
                return True
        elif type(value) is not type(part) or value != part:
            return True
    return False


def integers(value: Any) -> bool:
    """Return whether a value is a row of integers, or empty."""
    try:
        array = as_array(value)
    except Invalid:
        return False
    return array.ndim == 1 and (array.dtype.kind in "iu" or not array.size)


def normalized_state(state: State, good: State) -> dict[str, np.ndarray]:
    """Return the numbers of a state in the types that a buffer writes; integers wrap around."""
    return {
        name: as_array(state[name] if np.size(state[name]) else []).astype(np.asarray(part).dtype).ravel()
        for name, part in good.items()
    }


def restore_changed(buffer: Any, state: State, good: State) -> bool:
    """Restore a state that passes `must_be_refused`; return whether the buffer accepts it.

    If it does, the buffer must hold every number of the state. It must accept a state equal to the good one.
    """
    expected = normalized_state(state, good)
    try:
        buffer.restore(state)
    except RloxError as error:
        assert not isinstance(error, InternalError), error
        # An empty array may have any type, so the buffer may refuse it.
        empty = any(not np.size(state[name]) for name in good)
        assert empty or not same(expected, normalized_state(good, good)), error
        return False
    assert same(expected, normalized_state(buffer.state(), good))
    return True


def same(one: State, other: State) -> bool:
    return all(np.array_equal(array, other[name]) for name, array in one.items())
