"""Definitions, computed directly and slowly in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def advantages_by_definition(
    rewards: Array,
    values: Array,
    next_values: Array,
    terminated: Array,
    truncated: Array,
    gamma: float,
    lam: float,
) -> Array:
    """A_t = sum_l (gamma lam)^l delta_{t+l} until the episode of t ends; all `[T, N]`, O(T^2).

    delta_t = r_t + gamma (1 - terminated_t) V(s_{t+1}) - V(s_t).
    """
    rewards, values, next_values = (np.asarray(a, np.float64) for a in (rewards, values, next_values))
    delta = rewards + gamma * np.where(terminated, 0.0, next_values) - values
    ended = np.asarray(terminated) | np.asarray(truncated)
    result = np.zeros_like(delta)
    for t in range(len(delta)):
        alive = np.ones(delta.shape[1])
        for at in range(t, len(delta)):
            result[t] += alive * (gamma * lam) ** (at - t) * delta[at]
            alive = alive * ~ended[at]
    return result


def numeric_leaves(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of every number, array and tensor of a state tree of dicts and lists."""
    if isinstance(tree, dict):
        return [leaf for k, v in tree.items() for leaf in numeric_leaves(v, (*path, k))]
    if isinstance(tree, (list, tuple)):
        return [leaf for i, v in enumerate(tree) for leaf in numeric_leaves(v, (*path, i))]
    return [] if tree is None or isinstance(tree, str) else [path]
