"""States of many environments as one tree of columns, stored as arrays instead of JSON text.

A CartPole's state takes 580 bytes of JSON, most of it the digits of its random generator; thousands of them
exceed the size limit of a checkpoint. Trees of the same structure are joined leaf by leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["stack_states", "unstack_states"]

_WORD = 1 << 64
_PLAIN = (type(None), bool, int, str)  # equal values of these types are alike; floats are not: 0.0 == -0.0


def stack_states(trees: Sequence[Any]) -> dict[str, Any]:
    """Join trees into one whose leaves are columns; parts that differ in structure stay a list."""
    first = trees[0]
    if _all_match(trees, lambda t: isinstance(t, Mapping) and list(t) == list(first)):
        return {"dict": {key: stack_states([tree[key] for tree in trees]) for key in first}}
    if _all_match(trees, lambda t: isinstance(t, list) and len(t) == len(first)):
        return {"list": [stack_states(subtrees) for subtrees in zip(*trees, strict=True)]}
    if _all_match(
        trees, lambda t: isinstance(t, np.ndarray) and _dtype_and_shape(t) == _dtype_and_shape(first)
    ):
        return {"array": np.stack(trees)}
    if type(first) in _PLAIN and _all_match(trees, lambda t: type(t) is type(first) and t == first):
        return {"same": first}
    if _all_match(trees, lambda t: type(t) is bool):
        return {"numbers": np.array(trees, np.bool_)}
    if _all_match(trees, lambda t: type(t) is float):
        return {"numbers": np.array(trees, np.float64)}
    if _all_match(trees, lambda t: type(t) is int and -(_WORD // 2) <= t < _WORD // 2):
        return {"numbers": np.array(trees, np.int64)}
    if _all_match(trees, lambda t: type(t) is int and 0 <= t < _WORD**2):
        return {"wide": np.array([divmod(tree, _WORD) for tree in trees], np.uint64)}
    return {"each": list(trees)}


def unstack_states(columns: Mapping[str, Any], n: int) -> list[Any]:
    """Return the `n` trees that `stack_states` joined."""
    ((kind, content),) = columns.items()
    if kind == "dict":
        subtrees = {key: unstack_states(column, n) for key, column in content.items()}
        return [{key: part[i] for key, part in subtrees.items()} for i in range(n)]
    if kind == "list":
        rows = [unstack_states(column, n) for column in content]
        return [[row[i] for row in rows] for i in range(n)]
    if kind == "same":
        return [content] * n
    if len(content) != n:
        raise ValueError(f"the state of {len(content)} environments, expected {n}")
    if kind == "numbers":
        return list(content.tolist())
    if kind == "wide":
        return [int(high) * _WORD + int(low) for high, low in content]
    if kind == "array":
        return [np.asarray(content[i]) for i in range(n)]  # also arrays without dimensions
    return list(content) if kind == "each" else _reject_kind(kind)


def _all_match(trees: Sequence[Any], test: Callable[[Any], bool]) -> bool:
    return all(map(test, trees))


def _dtype_and_shape(array: NDArray[Any]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    return array.dtype, array.shape


def _reject_kind(kind: str) -> list[Any]:
    raise ValueError(f"a column of kind {kind!r}")
