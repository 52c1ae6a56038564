"""Models explained variance by NumPy's variances."""

from __future__ import annotations

from typing import Any

import numpy as np

from helpers.callables.engine import Approximate, Arguments, Case, Draw, numeric
from rlox import _core

INFINITE = float("inf")


def model(values: Any = None, returns: Any = None) -> Approximate:
    """Compare only types if rounding decides, for nearly equal or nearly too large numbers."""
    v = numeric(values, None)
    r = numeric(returns, v.size).astype(np.float64)
    with np.errstate(all="ignore"):
        v = v.astype(np.float64)
        if not r.size or (r == r[0]).all():
            return Approximate(0.0, 0.0)
        smallest_deviation, largest = (
            np.abs(r - r.mean()).max(),
            max(np.abs(r).max(), np.abs(v).max()),
        )
        if np.isfinite(largest) and not 1e-6 * largest < smallest_deviation < 1e100:
            return Approximate(0.0, INFINITE)
        all_, residual_variance = np.var(r), np.var(r - v)
        explained = float(1.0 - residual_variance / all_)
        return Approximate(
            explained,
            1e-9,
            max(1.0, float(residual_variance / all_) if np.isfinite(residual_variance) else 1.0),
        )


def draw(draw: Draw) -> Arguments:
    n = draw.integer(0, 30)
    returns = draw.rng.normal(size=n) * draw.one_of(0.0, 1e-3, 1.0, 1e3) + draw.one_of(0.0, 5.0)
    values = returns * draw.one_of(0.0, 0.5, 1.0) + 0.1 * draw.rng.normal(size=n)
    return {"values": draw.layout(values), "returns": draw.layout(returns)}


CASES = {"explained_variance": Case(_core.explained_variance, draw, model)}
