"""States of buffers that somebody changed: what has to be refused, and what the rest has to stand for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from helpers.callables.engine import Invalid, as_array
from rlox.errors import InternalError, RloxError

State = Mapping[str, Any]


def must_be_refused(state: Any, good: State) -> bool:
    """Whether a state lacks a part of a good one, or has one that no buffer writes: another layout or
    format, or what is no row of integers.
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
    """Whether it is a row of integers, or of nothing."""
    try:
        array = as_array(value)
    except Invalid:
        return False
    return array.ndim == 1 and (array.dtype.kind in "iu" or not array.size)


def normalized_state(state: State, good: State) -> dict[str, np.ndarray]:
    """The numbers of a state in the types in which a buffer writes them; integers wrap around."""
    return {
        name: as_array(state[name] if np.size(state[name]) else []).astype(np.asarray(part).dtype).ravel()
        for name, part in good.items()
    }


def restore_changed(buffer: Any, state: State, good: State) -> bool:
    """Have a buffer take a state that passes `must_be_refused`, and whether it did: if it did it holds
    what the state says, number by number, and one that says what the good one says is never refused.
    """
    expected = normalized_state(state, good)
    try:
        buffer.restore(state)
    except RloxError as error:
        assert not isinstance(error, InternalError), error
        empty = any(not np.size(state[name]) for name in good)  # of any type, which it may refuse
        assert empty or not same(expected, normalized_state(good, good)), error
        return False
    assert same(expected, normalized_state(buffer.state(), good))
    return True


def same(one: State, other: State) -> bool:
    return all(np.array_equal(array, other[name]) for name, array in one.items())
