"""Models advantage estimation by its recursion in plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from helpers.callables.engine import (
    Approximate,
    Arguments,
    Case,
    Draw,
    as_integer,
    is_output,
    is_single,
    largest,
    numeric,
    real,
    require,
    within,
)
from rlox import _core


def recursion(
    rewards: np.ndarray,
    values: np.ndarray,
    following: np.ndarray,
    terminated: np.ndarray,
    ended: np.ndarray,
    gamma: float,
    lam: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return GAE along the first axis."""
    advantages, after = np.zeros(rewards.shape), np.zeros(rewards.shape[1:])
    with np.errstate(all="ignore"):
        for t in reversed(range(len(rewards))):
            following_value = np.where(terminated[t], 0.0, following[t])
            delta = rewards[t] + gamma * following_value - values[t]
            after = delta + gamma * lam * np.where(ended[t], 0.0, after)
            advantages[t] = after
        return advantages, advantages + values


def set_in(flags: np.ndarray) -> np.ndarray:
    """Return which flags are set; refuse NaN."""
    require(not np.isnan(flags).any())
    return flags != 0


def ends(shape: tuple[int, ...], flags: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return (terminated, ended) from dones, or from terminated and truncated."""
    dones, terminated, truncated = (flags.get(k) for k in ("dones", "terminated", "truncated"))
    require(any(flag is not None for flag in (dones, terminated, truncated)))
    require(dones is None or (terminated is None and truncated is None))
    require(truncated is None or flags.get("next_values") is not None)
    flag = {
        name: set_in(numeric(value, *shape)) if value is not None else np.zeros(shape, bool)
        for name, value in (("d", dones), ("t", terminated), ("c", truncated))
    }
    return flag["d"] | flag["t"], flag["d"] | flag["t"] | flag["c"]


def rounded(result: tuple[np.ndarray, np.ndarray], single: bool) -> tuple[np.ndarray, ...]:
    with np.errstate(all="ignore"):
        return tuple(part.astype(np.float32 if single else np.float64) for part in result)


def doubles(value: Any, shape: tuple[int, ...], single: bool) -> np.ndarray:
    with np.errstate(all="ignore"):
        array = numeric(value, *shape)
        return (array.astype(np.float32) if single else array).astype(np.float64)


def gae(
    rewards: Any = None,
    values: Any = None,
    dones: Any = None,
    last_value: Any = 0.0,
    gamma: Any = 0.99,
    lam: Any = 0.95,
    **exact: Any,
) -> Approximate:
    steps = numeric(rewards, None).shape
    single, last = is_single(rewards, values), real(last_value)
    r, v = doubles(rewards, steps, single), doubles(values, steps, single)
    nexts = exact.get("next_values")
    require(nexts is None or last == 0.0)
    terminated, ended = ends(steps, {"dones": dones, **exact})
    gamma, lam = within(gamma, 0, 1), within(lam, 0, 1)
    last = float(np.float32(last)) if single else last
    following = np.append(v[1:], last)[: len(r)] if nexts is None else doubles(nexts, steps, single)
    result = recursion(r, v, following, terminated, ended, gamma, lam)
    return Approximate(rounded(result, single), 1e-10, largest(r, v, following))


def gae_batched(
    rewards: Any = None,
    values: Any = None,
    dones: Any = None,
    last_values: Any = None,
    n_steps: Any = None,
    gamma: Any = 0.99,
    lam: Any = 0.95,
    single: bool | None = None,
    **exact: Any,
) -> Approximate:
    shape = numeric(rewards, None).shape
    single = is_single(rewards, values) if single is None else single
    r, v = doubles(rewards, shape, single), doubles(values, shape, single)
    nexts = exact.get("next_values")
    require(nexts is None or last_values is None)
    envs = None if last_values is None else len(numeric(last_values, None))
    if n_steps is None:
        require(envs)
        steps = len(r) // envs
        require(steps * envs == len(r))
        require(steps > 0 or len(r) == 0)
    else:
        steps = as_integer(n_steps, 1, 2**64 - 1)
        require(len(r) % steps == 0)
        require(envs is None or envs * steps == len(r))
    terminated, ended = ends(shape, {"dones": dones, **exact})
    gamma, lam = within(gamma, 0, 1), within(lam, 0, 1)
    if len(r) == 0:
        return Approximate(rounded((r, r), single), 0.0)
    n = len(r) // steps
    grid = [part.reshape(n, steps).T for part in (r, v, terminated, ended)]
    if nexts is None:
        last = np.zeros(n) if last_values is None else doubles(last_values, (n,), single)
        following = np.concatenate([grid[1][1:], last[None]])
    else:
        following = doubles(nexts, shape, single).reshape(n, steps).T
    result = recursion(grid[0], grid[1], following, grid[2], grid[3], gamma, lam)
    flat = rounded((result[0].T.ravel(), result[1].T.ravel()), single)
    return Approximate(flat, 1e-10, largest(r, v, following))


def gae_batched_f32(**arguments: Any) -> Approximate:
    return gae_batched(**arguments, single=True)


def gae_time_major(
    rewards: Any = None,
    values: Any = None,
    gamma: Any = 0.99,
    lam: Any = 0.95,
    last_values: Any = None,
    advantages: Any = None,
    returns: Any = None,
    **exact: Any,
) -> Approximate:
    shape = numeric(rewards, None, None).shape
    single = is_single(rewards, values)
    r, v = doubles(rewards, shape, single), doubles(values, shape, single)
    nexts = exact.get("next_values")
    require((nexts is None) != (last_values is None))
    terminated, ended = ends(shape, exact)
    gamma, lam = within(gamma, 0, 1), within(lam, 0, 1)
    if nexts is None:
        last = doubles(last_values, shape[1:], single)
        following = np.concatenate([v, last[None]])[1:]
    else:
        following = doubles(nexts, shape, single)
    result = rounded(recursion(r, v, following, terminated, ended, gamma, lam), single)
    for output, part in zip((advantages, returns), result, strict=True):
        require(output is None or is_output(output, part))
    return Approximate(result, 1e-10, largest(r, v, following))


def draw_ends(draw: Draw, shape: tuple[int, ...]) -> Arguments:
    """Return flags in one of the two forms."""
    if draw.boolean():
        return {"dones": draw.flags(*shape)}
    exact = {"terminated": draw.flags(*shape), "next_values": draw.numbers(*shape)}
    return exact | ({"truncated": draw.flags(*shape)} if draw.boolean() else {})


def draw_gae(draw: Draw) -> Arguments:
    steps = draw.integer(1, 40)
    arguments = draw_ends(draw, (steps,))
    last = {} if "next_values" in arguments else {"last_value": draw.number()}
    return {
        "rewards": draw.numbers(steps),
        "values": draw.numbers(steps),
        "gamma": draw.unit(),
        "lam": draw.unit(),
        **arguments,
        **last,
    }


def draw_gae_batched(draw: Draw) -> Arguments:
    envs, steps = draw.integer(1, 6), draw.integer(1, 20)
    arguments = draw_ends(draw, (envs * steps,))
    if "next_values" in arguments or draw.boolean():
        arguments["n_steps"] = steps
    if "next_values" not in arguments:
        arguments["last_values"] = draw.numbers(envs)
    rewards, values = draw.numbers(envs * steps), draw.numbers(envs * steps)
    return {
        "rewards": rewards,
        "values": values,
        "gamma": draw.unit(),
        "lam": draw.unit(),
        **arguments,
    }


def draw_gae_time_major(draw: Draw) -> Arguments:
    shape = draw.integer(1, 20), draw.integer(1, 6)
    arguments = {name: draw.numbers(*shape) for name in ("rewards", "values")}
    kind = np.float32 if is_single(*arguments.values()) else np.float64
    arguments |= draw_ends(draw, shape)
    if "next_values" not in arguments:
        arguments["last_values"] = draw.numbers(shape[1])
    if draw.boolean():
        arguments |= {name: np.empty(shape, kind) for name in ("advantages", "returns")}
    return arguments | {"gamma": draw.unit(), "lam": draw.unit()}


CASES = {
    "compute_gae": Case(_core.compute_gae, draw_gae, gae),
    "compute_gae_batched": Case(_core.compute_gae_batched, draw_gae_batched, gae_batched),
    "compute_gae_batched_f32": Case(_core.compute_gae_batched_f32, draw_gae_batched, gae_batched_f32),
    "compute_gae_time_major": Case(_core.compute_gae_time_major, draw_gae_time_major, gae_time_major),
}
