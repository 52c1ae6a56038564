"""Models V-trace, n-step and lambda-returns by their definitions in plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from helpers.callables.advantages import doubles, draw_ends, ends, rounded
from helpers.callables.engine import (
    Approximate,
    Arguments,
    Case,
    Draw,
    any_numeric,
    as_integer,
    is_single,
    largest,
    numeric,
    real,
    require,
    within,
)
from rlox import _core

INFINITE = float("inf")


def rollout_shape(rewards: Any) -> tuple[int, ...]:
    shape = any_numeric(rewards).shape
    require(len(shape) in (1, 2))
    return shape


def n_step(
    rewards: Any = None,
    next_values: Any = None,
    n: Any = None,
    gamma: Any = 0.99,
    **flags: Any,
) -> Approximate:
    """Return the n-step return of each window, computed separately."""
    shape, n = rollout_shape(rewards), as_integer(n, 1, 2**64 - 1)
    single, gamma = is_single(rewards, next_values), within(gamma, 0, 1)
    r, following = doubles(rewards, shape, single), doubles(next_values, shape, single)
    terminated, ended = ends(shape, {**flags, "next_values": next_values})
    result = np.zeros(shape)
    with np.errstate(all="ignore"):
        for t in range(shape[0]):
            running, total = np.ones(shape[1:], bool), np.zeros(shape[1:])
            for m in range(min(n, shape[0] - t)):
                total = np.where(running, total + gamma**m * r[t + m], total)
                final = running & (ended[t + m] | (m + 1 == min(n, shape[0] - t)))
                last = np.where(terminated[t + m], 0, gamma ** (m + 1) * following[t + m])
                total = np.where(final, total + last, total)
                running = running & ~ended[t + m]
            result[t] = total
    return Approximate(rounded((result, result), single)[0], 1e-10, largest(r, following))


def lambda_returns(
    rewards: Any = None,
    next_values: Any = None,
    gamma: Any = 0.99,
    lam: Any = 0.95,
    **flags: Any,
) -> Approximate:
    shape, gamma, lam = rollout_shape(rewards), within(gamma, 0, 1), within(lam, 0, 1)
    single = is_single(rewards, next_values)
    r, following = doubles(rewards, shape, single), doubles(next_values, shape, single)
    terminated, ended = ends(shape, {**flags, "next_values": next_values})
    result = np.zeros(shape)
    with np.errstate(all="ignore"):
        for t in reversed(range(shape[0])):
            after = result[t + 1] if t + 1 < shape[0] else following[t]
            after = np.where(ended[t], following[t], after)
            rest = gamma * ((1 - lam) * following[t] + lam * after)
            result[t] = r[t] + np.where(terminated[t], 0, rest)
    return Approximate(rounded((result, result), single)[0], 1e-10, largest(r, following))


def vtrace(
    log_rhos: Any = None,
    rewards: Any = None,
    values: Any = None,
    dones: Any = None,
    bootstrap_value: Any = None,
    gamma: Any = 0.99,
    rho_bar: Any = 1.0,
    c_bar: Any = 1.0,
    lam: Any = 1.0,
    **exact: Any,
) -> Approximate:
    shape, single = rollout_shape(rewards), is_single(log_rhos, rewards, values)
    logs, r, v = (doubles(part, shape, single) for part in (log_rhos, rewards, values))
    nexts = exact.get("next_values")
    require((nexts is None) != (bootstrap_value is None))
    terminated, ended = ends(shape, {"dones": dones, **exact})
    gamma, lam = within(gamma, 0, 1), within(lam, 0, 1)
    rho_bar, c_bar = within(rho_bar, 0, INFINITE), within(c_bar, 0, INFINITE)
    if nexts is None:
        last = bootstrap(bootstrap_value, shape, single)
        following = np.concatenate([v, last])[1:]
    else:
        following = doubles(nexts, shape, single)
    with np.errstate(all="ignore"):
        ratio = np.exp(logs.astype(np.float32 if single else np.float64)).astype(np.float64)
        rho, c = np.minimum(ratio, rho_bar), np.minimum(ratio, c_bar)
        following = np.where(terminated, 0, following)
        delta = rho * (r + gamma * following - v)
        vs, pg, after = np.zeros(shape), np.zeros(shape), np.zeros(shape[1:])
        for t in reversed(range(shape[0])):
            after = np.where(ended[t], 0, after)
            pg[t] = rho[t] * (r[t] + gamma * (following[t] + after) - v[t])
            after = delta[t] + gamma * lam * c[t] * after
            vs[t] = v[t] + after
    # An infinite ratio times 0 is NaN or 0, depending on the order of multiplication.
    tolerance = 1e-10 if np.isfinite(np.where(np.isnan(logs), 0, rho + c)).all() else np.inf
    scale = largest(r, v, following) * max(1.0, float(np.nanmax(rho, initial=1.0)))
    return Approximate(rounded((vs, pg), single), tolerance, scale)


def bootstrap(value: Any, shape: tuple[int, ...], single: bool) -> np.ndarray:
    """Return the bootstrap values in the form `[1]` or `[1, N]`."""
    envs = shape[1] if len(shape) == 2 else 1
    if len(shape) == 1 and (isinstance(value, (int, float)) or any_numeric(value).ndim == 0):
        value = [real(value)]
    return doubles(numeric(value, envs), (envs,), single).reshape(1, *shape[1:])


def draw_shape(draw: Draw) -> tuple[int, ...]:
    steps = draw.integer(1, 20)
    return (steps,) if draw.boolean() else (steps, draw.integer(1, 5))


def draw_flags(draw: Draw, shape: tuple[int, ...]) -> Arguments:
    forms = ("dones",), ("terminated",), ("truncated",), ("terminated", "truncated")
    return {name: draw.flags(*shape) for name in draw.one_of(*forms)}


def draw_returns(draw: Draw) -> Arguments:
    shape = draw_shape(draw)
    arguments = {name: draw.numbers(*shape) for name in ("rewards", "next_values")}
    return arguments | {"gamma": draw.unit(), **draw_flags(draw, shape)}


def draw_vtrace(draw: Draw) -> Arguments:
    shape = draw_shape(draw)
    arguments = {name: draw.numbers(*shape) for name in ("log_rhos", "rewards", "values")}
    arguments |= draw_ends(draw, shape)
    if "next_values" not in arguments:
        last = draw.numbers(*shape[1:]) if len(shape) == 2 else draw.number()
        arguments["bootstrap_value"] = last
    bars = {name: draw.one_of(0.0, 0.5, 1.0, 3.0, INFINITE) for name in ("rho_bar", "c_bar")}
    return arguments | bars | {"gamma": draw.unit(), "lam": draw.unit()}


CASES = {
    "compute_n_step_returns": Case(
        _core.compute_n_step_returns,
        lambda draw: draw_returns(draw) | {"n": draw.integer(1, 25)},
        n_step,
    ),
    "compute_lambda_returns": Case(
        _core.compute_lambda_returns,
        lambda draw: draw_returns(draw) | {"lam": draw.unit()},
        lambda_returns,
    ),
    "compute_vtrace": Case(_core.compute_vtrace, draw_vtrace, vtrace),
}
