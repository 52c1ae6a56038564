"""Models token-level KL divergence, term by term in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from helpers.callables.engine import (
    Approximate,
    Arguments,
    Case,
    Draw,
    any_numeric,
    is_single,
    named,
    numeric,
    require,
)
from helpers.callables.groups import row_length
from rlox import _core

ESTIMATORS = ("exact", "k1", "k2", "k3")
REDUCTIONS = ("sum", "mean")


def terms(log_p: np.ndarray, log_q: np.ndarray, estimator: str) -> np.ndarray:
    """Return the contribution of each token, float64; the difference is rounded like the input."""
    single = log_p.dtype == np.float32
    lowest, highest = (-87, 88.5) if single else (-708, 709)
    difference = (log_q - log_p).astype(np.float64)
    if estimator == "k1":
        return -difference
    if estimator == "k2":
        return difference**2 / 2
    if estimator == "exact":
        p = np.where(log_p > highest, np.inf, np.exp(log_p.astype(np.float64)))
        return np.where(log_p < lowest, 0, p * -difference)
    near = np.abs(difference) < 1e-2
    small = np.where(near, difference, 0)
    series = small**2 / 2 * (1 + small / 3 * (1 + small / 4 * (1 + small / 5 * (1 + small / 6))))
    plain = np.expm1(difference) - difference
    return np.where(difference > highest, np.inf, np.where(near, series, plain))


def rows(
    log_p: np.ndarray, log_q: np.ndarray, mask: np.ndarray, estimator: str, reduction: str
) -> Approximate:
    """Return one value per row of `[B, T]` arrays."""
    with np.errstate(all="ignore"):
        token_terms = np.where(mask, terms(log_p, log_q, estimator), 0)
        token_terms = token_terms.astype(log_p.dtype).astype(np.float64)
        total = token_terms.sum(axis=1)
        counted = np.maximum(mask.sum(axis=1), 1) if reduction == "mean" else 1
        largest = np.abs(token_terms[np.isfinite(token_terms)]).sum()
        result = (total / counted).astype(log_p.dtype)
    finite = np.abs(result[np.isfinite(result)]).max(initial=1.0)
    # 16 units of rounding of each term, because terms may cancel.
    return Approximate(result, max(1e-12, 32 * np.finfo(log_p.dtype).eps * largest / finite))


def inputs(log_p: Any, log_q: Any, mask: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    kind = np.float32 if is_single(log_p, log_q) else np.float64
    p = any_numeric(log_p)
    q = numeric(log_q, *p.shape)
    mask_values = np.ones(p.shape, bool)
    if mask is not None:
        flags = numeric(mask, *p.shape)
        require(((flags == 0) | (flags == 1)).all())
        mask_values = flags != 0
    with np.errstate(all="ignore"):
        return p.astype(kind), q.astype(kind), mask_values


def batch(
    log_p: Any = None,
    log_q: Any = None,
    seq_len: Any = None,
    estimator: Any = "exact",
    mask: Any = None,
    reduction: Any = "sum",
) -> Approximate:
    names = named(estimator, *ESTIMATORS), named(reduction, *REDUCTIONS)
    p, q, mask_values = inputs(log_p, log_q, mask)
    length = row_length(p, seq_len)
    shape = (-1, length) if p.size else (0, 1)
    return rows(p.reshape(shape), q.reshape(shape), mask_values.reshape(shape), *names)


def one(
    log_p: Any = None,
    log_q: Any = None,
    estimator: Any = "exact",
    mask: Any = None,
    reduction: Any = "sum",
) -> Approximate:
    names = named(estimator, *ESTIMATORS), named(reduction, *REDUCTIONS)
    p, q, mask_values = inputs(log_p, log_q, mask)
    require(p.ndim == 1)
    values = rows(p[None], q[None], mask_values[None], *names)
    return Approximate(float(values.value[0]), max(values.tolerance, 1e-6 if p.dtype == np.float32 else 0))


def batch_schulman(**arguments: Any) -> Approximate:
    require("estimator" not in arguments)
    return batch(**arguments, estimator="k3")


def one_schulman(**arguments: Any) -> Approximate:
    require("estimator" not in arguments)
    return one(**arguments, estimator="k3")


def draw_tokens(draw: Draw, *shape: int) -> Arguments:
    width = draw.one_of(1e-6, 1e-3, 1.0, 30.0)
    log_p = -np.abs(draw.rng.normal(size=shape)) * 3
    log_q = log_p + draw.rng.normal(size=shape) * width
    arguments = {"log_p": log_p, "log_q": log_q}
    if draw.boolean():
        arguments = {name: array.astype(np.float32) for name, array in arguments.items()}
    arguments = {name: draw.layout(array, keep_dtype=True) for name, array in arguments.items()}
    if draw.boolean():
        arguments["mask"] = draw.flags(*shape, rate=0.7)
    return {**arguments, "reduction": draw.one_of(*REDUCTIONS)}


def draw_one(draw: Draw) -> Arguments:
    return draw_tokens(draw, draw.one_of(0, 1, 5, 16, 40, 300))


def draw_batch(draw: Draw) -> Arguments:
    batches, tokens = draw.integer(0, 6), draw.one_of(1, 5, 16, 40)
    if draw.boolean():
        return draw_tokens(draw, batches * tokens) | {"seq_len": tokens}
    # An empty list of rows has no second size.
    return draw_tokens(draw, max(batches, 1), tokens)


def with_estimator(arguments: Any) -> Any:
    return lambda draw: arguments(draw) | {"estimator": draw.one_of(*ESTIMATORS)}


CASES = {
    "compute_token_kl": Case(_core.compute_token_kl, with_estimator(draw_one), one),
    "compute_token_kl_schulman": Case(_core.compute_token_kl_schulman, draw_one, one_schulman),
    "compute_batch_token_kl": Case(_core.compute_batch_token_kl, with_estimator(draw_batch), batch),
    "compute_batch_token_kl_schulman": Case(
        _core.compute_batch_token_kl_schulman, draw_batch, batch_schulman
    ),
}
