"""Models the number of threads: a set number is returned until the default is requested again."""

from __future__ import annotations

from typing import Any

from helpers.callables.engine import Arguments, Case, Draw, as_integer
from rlox import _core

DEFAULT = _core.num_threads()


def after_choice(n: Any = None) -> tuple[int, int]:
    """Return the number after a choice, and after a reset to the default."""
    try:
        _core.set_num_threads(n)
        return _core.num_threads(), (_core.set_num_threads(), _core.num_threads())[1]
    finally:
        _core.set_num_threads()


def model(n: Any = None) -> tuple[int, int]:
    return DEFAULT if n is None else as_integer(n, 1, 1024), DEFAULT


def draw(draw: Draw) -> Arguments:
    return {"n": draw.one_of(None, 1, 2, 7, 1024)}


CASES = {"set_num_threads": Case(after_choice, draw, model, covers=frozenset({"num_threads"}))}
