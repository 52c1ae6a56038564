"""Models native environments by Gymnasium's own."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from helpers.callables.engine import (
    Arguments,
    Case,
    Draw,
    any_numeric,
    as_integer,
    is_output,
    named,
    numeric,
    require,
)
from helpers.callables.twins import Twins, gymnasium_env
from helpers.native_envs import SPECS
from rlox import _core

LARGEST = 2**64 - 1
MAX_SIZE = 2**24
STREAM_FIELDS = ("seeds", "indices", "positions")
FACTS = (
    "env_id", "obs_dim", "state_dim", "max_episode_steps", "n_actions", "action_dim", "action_low",
    "action_high", "observation_low", "observation_high",
)  # fmt: skip
CONTEXT = frozenset({"env_id", "precision", "n", "seed", "warm"})


def space(env_id: str) -> Any:
    return gymnasium_env(env_id).action_space


def some_actions(env_id: str, n: int, rng: np.random.Generator) -> np.ndarray:
    if isinstance(space(env_id), gym.spaces.Discrete):
        return rng.integers(0, space(env_id).n, n)
    return (rng.uniform(-1.5, 1.5, (n, 1)) * space(env_id).high).astype(np.float32)


def draw_context(draw: Draw) -> Arguments:
    env_id = draw.one_of(*sorted(SPECS))
    return {
        "env_id": env_id,
        "precision": draw.one_of("f64", "f32"),
        "n": draw.integer(1, 4),
        "seed": draw.integer(0, LARGEST),
        "warm": (draw.integer(0, 2), draw.integer(0, 2**32 - 1), draw.boolean()),
    }


def pair(
    env_id: str, precision: str, n: int, seed: int, warm: tuple[int, int, bool]
) -> tuple[_core.VecEnv, Twins]:
    """Return the same batch twice, after some steps; if drawn, late in its episodes."""
    vec = _core.VecEnv(n, seed, env_id, precision=precision)
    twins = Twins(env_id, [(seed, i) for i in range(n)], precision)
    steps, key, late = warm
    rng = np.random.default_rng(key)
    for _ in range(steps):
        actions = some_actions(env_id, n, rng)
        vec.step_all(actions)
        twins.step(actions)
        # These tests ignore rounding errors, which a chaotic system amplifies.
        vec.set_state(twins.state)
    if late:
        twins.elapsed = rng.integers(0, twins.limit, n)
        vec.set_state(twins.state, twins.elapsed)
    return vec, twins


def make(context: Arguments) -> _core.VecEnv:
    return pair(**context)[0]


def twin(context: Arguments) -> Twins:
    return pair(**context)[1]


def after(vec: _core.VecEnv, result: Any) -> Any:
    """Return the result and all state that determines the next steps."""
    saved = vec.snapshot()
    return result, {k: saved[k] for k in ("state", "elapsed", "positions", "seeds", "indices")}


def after_model(twins: Twins, result: Any) -> Any:
    saved = {
        "state": twins.state.copy(),
        "elapsed": twins.elapsed.copy(),
        "positions": twins.positions.copy(),
        "seeds": np.array([seed for seed, _ in twins.keys], np.uint64),
        "indices": np.array([index for _, index in twins.keys], np.uint64),
    }
    return twins.near((result, saved))


def checked_actions(value: Any, env_id: str, n: int) -> np.ndarray:
    """Return actions `[n]` or `[n, 1]` in the form that the environment uses."""
    array = any_numeric(value)
    require(array.shape in ((n,), (n, 1)))
    if isinstance(space(env_id), gym.spaces.Discrete):
        require(array.dtype.kind in "iub")
        require(((array >= 0) & (array < space(env_id).n)).all())
        return array.reshape(n)
    with np.errstate(all="ignore"):
        single = array.astype(np.float32).reshape(n, 1)
    require(np.isfinite(single).all())
    return single


def draw_step(draw: Draw) -> Arguments:
    context = draw_context(draw)
    actions = some_actions(context["env_id"], context["n"], draw.rng)
    return context | {"actions": draw.layout(actions, keep_dtype=True)}


def step_all(actions: Any, **context: Any) -> Any:
    vec = make(context)
    return after(vec, vec.step_all(actions))


def step_all_model(actions: Any = None, **context: Any) -> Any:
    twins = twin(context)
    return after_model(twins, twins.step(checked_actions(actions, context["env_id"], twins.n)))


def outputs(vec: _core.VecEnv) -> dict[str, np.ndarray]:
    return {
        "obs": np.full((vec.n_envs, vec.obs_dim), 9, np.float32),
        "rewards": np.full(vec.n_envs, 9.0),
        "terminated": np.ones(vec.n_envs, bool),
        "truncated": np.ones(vec.n_envs, bool),
    }


def draw_step_into(draw: Draw) -> Arguments:
    arguments = draw_step(draw)
    vec = make({name: arguments[name] for name in CONTEXT})
    return arguments | outputs(vec)


def step_into(actions: Any, obs: Any, rewards: Any, terminated: Any, truncated: Any, **context: Any) -> Any:
    vec = make(context)
    ended = vec.step_into(actions, obs, rewards, terminated, truncated)
    arrays = {"obs": obs, "rewards": rewards, "terminated": terminated, "truncated": truncated}
    return after(vec, (arrays, ended))


def step_into_model(actions: Any = None, **arguments: Any) -> Any:
    context = {name: arguments.pop(name) for name in CONTEXT}
    twins = twin(context)
    expected = twins.step(checked_actions(actions, context["env_id"], twins.n))
    arrays = {name: expected[name] for name in ("obs", "rewards", "terminated", "truncated")}
    require(arguments.keys() == arrays.keys())
    for name, array in arrays.items():
        require(is_output(arguments[name], array))
    rows = np.flatnonzero(expected["final_mask"])
    ended = (rows, expected["final_obs"][rows]) if len(rows) else None
    return after_model(twins, (arrays, ended))


def observe_into(obs: Any, **context: Any) -> Any:
    vec = make(context)
    vec.observe_into(obs)
    return after(vec, obs)


def observe_into_model(obs: Any = None, **context: Any) -> Any:
    twins = twin(context)
    require(is_output(obs, twins.observe()))
    return after_model(twins, twins.observe())


def draw_observe_into(draw: Draw) -> Arguments:
    context = draw_context(draw)
    return context | {"obs": outputs(make(context))["obs"]}


def reset_all(**context: Any) -> Any:
    vec = make(context)
    return after(vec, vec.reset_all())


def reset_all_model(**context: Any) -> Any:
    twins = twin(context)
    return after_model(twins, twins.reset())


def draw_state(draw: Draw) -> Arguments:
    context = draw_context(draw)
    twins = twin(context)
    arguments = context | {"state": draw.layout(twins.state + draw.rng.normal(size=twins.state.shape))}
    if draw.boolean():
        arguments["elapsed"] = draw.layout(draw.rng.integers(0, twins.limit, twins.n), keep_dtype=True)
    return arguments


def set_state(state: Any, elapsed: Any = None, **context: Any) -> Any:
    vec = make(context)
    vec.set_state(state, elapsed)
    return after(vec, vec.get_state())


def set_state_model(state: Any = None, elapsed: Any = None, **context: Any) -> Any:
    twins = twin(context)
    place(twins, state, elapsed)
    return after_model(twins, twins.state)


def place(twins: Twins, state: Any, elapsed: Any) -> None:
    """Put the environments into a state, and into a step of their episodes unless `elapsed` is None."""
    with np.errstate(all="ignore"):
        numbers = numeric(state, *twins.state.shape).astype(np.float64)
        require(np.isfinite(numbers).all())
        twins.state = twins.round_state(numbers)
    if elapsed is not None:
        steps = numeric(elapsed, twins.n)
        require(steps.dtype.kind in "iu")
        require(((steps >= 0) & (steps < twins.limit)).all())
        twins.elapsed = steps.astype(np.int64)


def after_construction(**arguments: Any) -> Any:
    vec = _core.VecEnv(**arguments)
    facts = {name: getattr(vec, name) for name in ("n_envs", "precision", *FACTS)}
    return after(vec, facts)


def construction_model(
    n: Any = None,
    seed: Any = 0,
    env_id: Any = "CartPole-v1",
    seeds: Any = None,
    shard: Any = 1,
    parallel_from: Any = 1,
    precision: Any = "f64",
) -> Any:
    env_id, precision = named(env_id, *SPECS), named(precision, "f64", "f32")
    n, seed = as_integer(n, 1, MAX_SIZE), as_integer(seed, 0, LARGEST)
    as_integer(shard, 1, LARGEST)
    as_integer(parallel_from, 0, LARGEST)
    keys = [(seed, i) for i in range(n)]
    require(seeds is None or seed == 0)
    if seeds is not None:
        require(isinstance(seeds, (list, tuple, np.ndarray)) and len(seeds) == n)
        keys = [(as_integer(one, 0, LARGEST), 0) for one in seeds]
    twins, env = Twins(env_id, keys, precision), gymnasium_env(env_id)
    discrete = isinstance(env.action_space, gym.spaces.Discrete)
    facts = {
        "n_envs": n,
        "env_id": env_id,
        "obs_dim": env.observation_space.shape[0],
        "state_dim": twins.state.shape[1],
        "max_episode_steps": twins.limit,
        "n_actions": int(env.action_space.n) if discrete else None,
        "action_dim": 1,
        "action_low": None if discrete else env.action_space.low,
        "action_high": None if discrete else env.action_space.high,
        "observation_low": env.observation_space.low,
        "observation_high": env.observation_space.high,
        "precision": precision,
    }
    return after_model(twins, facts)


def draw_made(draw: Draw) -> Arguments:
    n = draw.integer(1, 4)
    arguments: Arguments = {"n": n, "env_id": draw.one_of(*sorted(SPECS))}
    if draw.boolean():
        arguments["seed"] = draw.integer(0, LARGEST)
    else:
        arguments["seeds"] = [draw.integer(0, LARGEST) for _ in range(n)]
    if draw.boolean():
        arguments |= {"shard": draw.integer(1, 3), "parallel_from": draw.integer(0, 3)}
    if draw.boolean():
        arguments["precision"] = draw.one_of("f64", "f32")
    return arguments


def draw_restore(draw: Draw) -> Arguments:
    context = draw_context(draw)
    other = {**context, "seed": draw.integer(0, LARGEST), "warm": (draw.integer(0, 2), 1, False)}
    return context | {"snapshot": make(other).snapshot()}


def restore(snapshot: Any, **context: Any) -> Any:
    vec = make(context)
    vec.restore(snapshot)
    return after(vec, vec.reset_all())


def saved_twins(snapshot: Any, env_id: str, precision: str, n: int) -> Twins:
    """Return the batch that a snapshot describes."""
    fields = ("format", "env_id", "precision", "n_envs", "state", "elapsed", *STREAM_FIELDS)
    require(isinstance(snapshot, dict) and snapshot.keys() >= set(fields))
    as_integer(snapshot["format"], 2, 2)
    as_integer(snapshot["n_envs"], n, n)
    named(snapshot["env_id"], env_id)
    named(snapshot["precision"], precision)
    for name in ("elapsed", *STREAM_FIELDS):
        counts = numeric(snapshot[name], n)
        require(counts.dtype.kind in "iu" and (counts >= 0).all())
    seeds, indices, positions = (np.asarray(snapshot[name]).astype(np.uint64) for name in STREAM_FIELDS)
    keys = [(int(seed), int(index)) for seed, index in zip(seeds, indices, strict=True)]
    twins = Twins(env_id, keys, precision)
    twins.positions = positions
    place(twins, snapshot["state"], snapshot["elapsed"])
    return twins


def restore_model(snapshot: Any = None, **context: Any) -> Any:
    twins = saved_twins(snapshot, context["env_id"], context["precision"], context["n"])
    return after_model(twins, twins.reset())


COVERED = frozenset(
    {"NativeEnv", "VecEnv.n_envs", "VecEnv.precision"} | {f"NativeEnv.{name}" for name in FACTS}
)

CASES = {
    "VecEnv": Case(after_construction, draw_made, construction_model, covers=COVERED),
    "VecEnv.step_all": Case(step_all, draw_step, step_all_model, fixed=CONTEXT),
    "VecEnv.step_into": Case(step_into, draw_step_into, step_into_model, fixed=CONTEXT),
    "VecEnv.observe_into": Case(observe_into, draw_observe_into, observe_into_model, fixed=CONTEXT),
    "VecEnv.reset_all": Case(reset_all, draw_context, reset_all_model, fixed=CONTEXT),
    "VecEnv.set_state": Case(
        set_state,
        draw_state,
        set_state_model,
        fixed=CONTEXT,
        covers=frozenset({"VecEnv.get_state"}),
    ),
    "VecEnv.restore": Case(
        restore,
        draw_restore,
        restore_model,
        fixed=CONTEXT,
        covers=frozenset({"VecEnv.snapshot"}),
    ),
    "native_env_ids": Case(_core.native_env_ids, lambda draw: {}, lambda: sorted(SPECS)),
}
