"""Models running statistics by NumPy's moments of all samples, in extended precision."""

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
    numeric,
    real,
    require,
)
from rlox import _core

MOST_ROWS = 2**53
SEEN = frozenset({"seen", "theirs"})
PROPERTIES = ("count", "mean", "var", "std")


def make_stats(seen: np.ndarray) -> Any:
    """Return statistics of numbers `[n]` or vectors `[n, dim]`."""
    stats = _core.RunningStats() if seen.ndim == 1 else _core.RunningStatsVec(seen.shape[1])
    stats.batch_update(seen)
    return stats


def facts(stats: Any) -> dict[str, Any]:
    result = {name: getattr(stats, name) for name in PROPERTIES}
    if isinstance(stats, _core.RunningStatsVec):
        result["dim"] = stats.dim
    return result | {"state": stats.state()}


def moments(rows: np.ndarray) -> tuple[int, Any, Any]:
    """Return count, mean and sum of squared deviations of numbers `[n]` or vectors `[n, dim]`."""
    require(np.isfinite(rows).all())
    with np.errstate(all="ignore"):
        if not len(rows):
            return 0, plain(np.zeros(rows.shape[1:])), plain(np.zeros(rows.shape[1:]))
        wide = rows.astype(np.longdouble)
        mean = wide.mean(axis=0)
        squares = np.asarray(((wide - mean) ** 2).sum(axis=0), np.float64)
    require(np.isfinite(squares).all())
    return len(rows), plain(np.asarray(mean, np.float64)), plain(squares)


def plain(array: np.ndarray) -> Any:
    return array if array.ndim else float(array)


def facts_model(count: int, mean: Any, squares: Any) -> dict[str, Any]:
    var = squares / count if count else squares * 0 + 1.0
    result = {"count": count, "mean": mean, "var": var, "std": plain(np.sqrt(var))}
    if isinstance(mean, np.ndarray):
        result["dim"] = len(mean)
    return result | {"state": {"format": 1, "count": count, "mean": mean, "m2": squares}}


def merge_facts(seen: np.ndarray, rows: np.ndarray) -> dict[str, Any]:
    with np.errstate(all="ignore"):
        return facts_model(*moments(np.concatenate([seen, rows.astype(np.float64)])))


def row(x: Any, seen: np.ndarray) -> np.ndarray:
    """Return a number, or a vector `[dim]`."""
    return np.array(real(x)) if seen.ndim == 1 else numeric(x, seen.shape[1])


def update(seen: np.ndarray, x: Any) -> Any:
    stats = make_stats(seen)
    stats.update(x)
    return facts(stats)


def update_model(seen: np.ndarray, x: Any = None) -> Any:
    return merge_facts(seen, row(x, seen)[None])


def batch_update(seen: np.ndarray, xs: Any) -> Any:
    stats = make_stats(seen)
    stats.batch_update(xs)
    return facts(stats)


def batch_update_model(seen: np.ndarray, xs: Any = None) -> Any:
    return merge_facts(seen, numeric(xs, None, *seen.shape[1:]))


def merge(seen: np.ndarray, theirs: np.ndarray, other: Any) -> Any:
    stats = make_stats(seen)
    stats.merge(other)
    return facts(stats)


def merge_model(seen: np.ndarray, theirs: np.ndarray, other: Any = None) -> Any:
    require(isinstance(other, (_core.RunningStats, _core.RunningStatsVec)))
    return merge_facts(seen, theirs)


def normalize(seen: np.ndarray, **arguments: Any) -> Any:
    return make_stats(seen).normalize(**arguments)


def normalize_batch(seen: np.ndarray, **arguments: Any) -> Any:
    return make_stats(seen).normalize_batch(**arguments)


def normal(seen: np.ndarray, rows: np.ndarray, clip: Any, eps: Any) -> np.ndarray:
    eps = real(eps)
    require(np.isfinite(eps) and eps > 0)
    limit = np.inf if clip is None else real(clip)
    require(limit >= 0)
    rows = rows.astype(np.float64)
    require(np.isfinite(rows).all())
    expected = facts_model(*moments(seen))
    with np.errstate(all="ignore"):
        return np.clip((rows - expected["mean"]) / np.sqrt(expected["var"] + eps), -limit, limit)


def normalize_model(seen: np.ndarray, x: Any = None, clip: Any = None, eps: Any = 1e-8) -> Any:
    result = normal(seen, row(x, seen), clip, eps)
    return match_precision(x, result) if seen.ndim == 2 else float(result)


def normalize_batch_model(seen: np.ndarray, xs: Any = None, clip: Any = None, eps: Any = 1e-8) -> Any:
    return match_precision(xs, normal(seen, numeric(xs, None, *seen.shape[1:]), clip, eps))


def match_precision(arguments: Any, result: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return result.astype(np.float32 if is_single(arguments) else np.float64)


def restore(seen: np.ndarray, state: Any) -> Any:
    stats = make_stats(seen)
    stats.restore(state)
    restored = facts(stats)
    stats.reset()
    return restored, facts(stats)


def restore_model(seen: np.ndarray, state: Any = None) -> Any:
    require(isinstance(state, dict) and state.keys() >= {"format", "count", "mean", "m2"})
    as_integer(state["format"], 1, 1)
    count = as_integer(state["count"], 0, MOST_ROWS)
    if seen.ndim == 1:
        mean, squares = real(state["mean"]), real(state["m2"])
    else:
        mean, squares = (
            any_numeric(numeric(state[name], seen.shape[1])).astype(np.float64) for name in ("mean", "m2")
        )
    require(np.isfinite(mean).all() and np.isfinite(squares).all() and np.all(squares >= 0))
    require(count or not (np.any(mean) or np.any(squares)))
    return facts_model(count, mean, squares), facts_model(*moments(seen[:0]))


def draw_seen(draw: Draw, dim: int | None) -> np.ndarray:
    shape = (draw.integer(0, 12),) if dim is None else (draw.integer(0, 12), dim)
    return draw.rng.normal(size=shape) + draw.one_of(0.0, 100.0)


def draw_limits(draw: Draw) -> Arguments:
    clip = {"clip": draw.one_of(None, 0.0, 1.5, float("inf"))} if draw.boolean() else {}
    return clip | ({"eps": draw.one_of(1e-8, 1e-3, 1)} if draw.boolean() else {})


def cases(name: str, dim: int | None) -> dict[str, Case]:
    """Return the cases of `RunningStats` or `RunningStatsVec`."""

    def seen(draw: Draw) -> Arguments:
        return {"seen": draw_seen(draw, dim)}

    def one(draw: Draw) -> Arguments:
        return seen(draw) | {"x": draw.number() if dim is None else draw.numbers(dim)}

    def several(draw: Draw) -> Arguments:
        return seen(draw) | {"xs": draw.numbers(draw.integer(1, 9), *([dim] if dim else []))}

    def two(draw: Draw) -> Arguments:
        theirs = draw_seen(draw, dim)
        return seen(draw) | {"theirs": theirs, "other": make_stats(theirs)}

    def saved(draw: Draw) -> Arguments:
        return seen(draw) | {"state": make_stats(draw_seen(draw, dim)).state()}

    def limited(arguments: Any) -> Any:
        return lambda draw: arguments(draw) | draw_limits(draw)

    covers = {f"{name}.{member}" for member in (*PROPERTIES, "state", "reset")}
    methods = {
        "update": Case(update, one, update_model, fixed=SEEN),
        "batch_update": Case(batch_update, several, batch_update_model, fixed=SEEN),
        "merge": Case(merge, two, merge_model, fixed=SEEN),
        "normalize": Case(normalize, limited(one), normalize_model, fixed=SEEN),
        "normalize_batch": Case(normalize_batch, limited(several), normalize_batch_model, fixed=SEEN),
        "restore": Case(restore, saved, restore_model, fixed=SEEN, covers=frozenset(covers)),
    }
    return {f"{name}.{method}": case for method, case in methods.items()}


CASES = {
    "RunningStats": Case(
        lambda: facts(_core.RunningStats()),
        lambda draw: {},
        lambda: facts_model(*moments(np.zeros(0))),
    ),
    "RunningStatsVec": Case(
        lambda dim: facts(_core.RunningStatsVec(dim)),
        lambda draw: {"dim": draw.integer(1, 40)},
        lambda dim=None: facts_model(*moments(np.zeros((0, as_integer(dim, 1, 2**28 - 1))))),
        covers=frozenset({"RunningStatsVec.dim"}),
    ),
    **cases("RunningStats", None),
    **cases("RunningStatsVec", 3),
}
