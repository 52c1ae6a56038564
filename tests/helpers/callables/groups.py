"""Models advantages of completions relative to their group, in extended precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from helpers.callables.engine import (
    Arguments,
    Case,
    Draw,
    any_numeric,
    as_integer,
    is_single,
    named,
    numeric,
    real,
    require,
)
from rlox import _core

LARGEST = 2**64 - 1
SCALES = ("group", "batch", "none")


def relative(rewards: np.ndarray, scale: str, ddof: int, eps: float, unit: float) -> np.ndarray:
    """Return (r - mean) / (std + eps) of groups `[n, G]`, and 0 for a group without spread."""
    from_first = rewards.astype(np.longdouble) - rewards[:, :1]
    centred = from_first - from_first.mean(axis=1, keepdims=True)
    spread = np.sqrt((centred**2).mean(axis=1))
    divisor = np.ones(len(rewards), np.longdouble)
    if scale == "group":
        divisor = deviation(centred, spread, ddof) + eps
    elif scale == "batch":
        everything = (rewards.astype(np.longdouble) - rewards[0, 0]).reshape(1, -1)
        everything -= everything.mean()
        divisor[:] = deviation(everything, np.sqrt((everything**2).mean(axis=1)), ddof) + eps
    noise = spread <= 4 * unit * np.abs(rewards[:, 0])
    return np.where(noise[:, None], 0, centred / divisor[:, None])


def deviation(centred: np.ndarray, spread: np.ndarray, ddof: int) -> np.ndarray:
    """Return standard deviations of rows from their root mean squares; infinite if undefined."""
    count = centred.shape[1]
    if ddof >= count:
        return np.full(len(centred), np.inf)
    return spread * np.sqrt(np.longdouble(count) / (count - ddof))


def group(rewards: Any = None, scale: Any = "group", ddof: Any = 0, eps: Any = 0.0) -> np.ndarray:
    size = max(len(numeric(rewards, None)), 1)
    return batch(rewards, size, scale, ddof, eps)


def batch(
    rewards: Any = None,
    group_size: Any = None,
    scale: Any = "group",
    ddof: Any = 0,
    eps: Any = 0.0,
) -> np.ndarray:
    scale, ddof, eps = named(scale, *SCALES), as_integer(ddof, 0, LARGEST), real(eps)
    require(np.isfinite(eps) and eps >= 0)
    single = is_single(rewards)
    array = any_numeric(rewards)
    size = row_length(array, group_size)
    with np.errstate(all="ignore"):
        numbers = array.astype(np.float64)
        require(np.isfinite(numbers).all())
        if not numbers.size:
            return numbers.astype(np.float32 if single else np.float64)
        unit = float(np.finfo(np.float32 if single else np.float64).eps)
        result = relative(numbers.reshape(-1, size), scale, ddof, eps, unit)
        return result.reshape(array.shape).astype(np.float32 if single else np.float64)


def row_length(array: np.ndarray, length: Any) -> int:
    """Return the length of rows: the argument for a flat array, else the second size."""
    require(array.ndim in (1, 2))
    if length is not None:
        length = as_integer(length, 1, LARGEST)
        require(array.ndim == 1 or array.shape[1] == length)
    else:
        require(array.ndim == 2)
        length = array.shape[1]
    require(length >= 1 and array.size % length == 0)
    return int(length)


def draw_settings(draw: Draw) -> Arguments:
    return {
        "scale": draw.one_of(*SCALES),
        "ddof": draw.integer(0, 2),
        "eps": draw.one_of(0.0, 1e-4, 1.0),
    }


def draw_rewards(draw: Draw, *shape: int) -> Any:
    if draw.boolean():
        numbers = draw.rng.normal(size=shape) * draw.one_of(1e-200, 1e-3, 1.0, 1e3, 1e200)
        return draw.layout(numbers, keep_dtype=np.abs(numbers).max(initial=0.0) > 1e30)
    return draw.layout(draw.rng.integers(0, 3, shape) * 0.5)


def draw_group(draw: Draw) -> Arguments:
    return {"rewards": draw_rewards(draw, draw.integer(0, 20)), **draw_settings(draw)}


def draw_batch(draw: Draw) -> Arguments:
    shape = draw.integer(1, 20), draw.integer(1, 9)
    if draw.boolean():
        rewards, arguments = draw_rewards(draw, shape[0] * shape[1]), {"group_size": shape[1]}
    else:
        rewards, arguments = draw_rewards(draw, *shape), {}
    return {"rewards": rewards, **arguments, **draw_settings(draw)}


CASES = {
    "compute_group_advantages": Case(_core.compute_group_advantages, draw_group, group),
    "compute_batch_group_advantages": Case(_core.compute_batch_group_advantages, draw_batch, batch),
}
