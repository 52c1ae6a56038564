"""Models of buffer constructors, and of hindsight goals."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from helpers.callables.engine import Arguments, Draw, Invalid, as_integer, require, within
from helpers.callables.rings import Draws
from rlox import _core

LARGEST = 2**64 - 1
DTYPES = (
    "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float32", "float64",
    "bool",
)  # fmt: skip
ROWS = 12
ENDS = (3, 4, 9)


def known_dtype(value: Any) -> str:
    """Return the name of a known dtype, float32 for None."""
    try:
        name = np.dtype("float32" if value is None else value).name
    except (TypeError, ValueError, OverflowError, SyntaxError) as error:
        raise Invalid from error
    require(name in DTYPES)
    return str(name)


def row_bytes(shape: tuple[int, ...], dtype: str) -> None:
    require(1 <= int(np.prod([*shape, np.dtype(dtype).itemsize], dtype=object)) <= 2**32)


def draw_settings(draw: Draw) -> Arguments:
    return {
        "obs_dim": draw.integer(1, 4), "act_dim": draw.integer(1, 3), "n_envs": draw.integer(1, 3),
        "seed": draw.integer(0, LARGEST), "obs_dtype": draw.one_of(*DTYPES),
        "reward_dtype": draw.one_of("float32", "float64"),
    }  # fmt: skip


def check_settings(
    obs_dim: Any = None, act_dim: Any = None, n_envs: Any = 1, seed: Any = 0, obs_dtype: Any = None,
    reward_dtype: Any = None,
) -> int:  # fmt: skip
    """Return the number of environments."""
    row_bytes((as_integer(obs_dim, 0, LARGEST),), known_dtype(obs_dtype))
    row_bytes((as_integer(act_dim, 0, LARGEST),), "float32")
    require(known_dtype(reward_dtype) in ("float32", "float64"))
    as_integer(seed, 0, LARGEST)
    return as_integer(n_envs, 1, 2**20)


def spaces(draw: Draw) -> Arguments:
    vector, image = gym.spaces.Box(-1, 1, (2,)), gym.spaces.Box(0, 255, (2, 2), np.uint8)
    both = gym.spaces.Dict({"vector": vector, "image": image})
    return {
        "observation_space": draw.one_of(
            vector, image, both, gym.spaces.Discrete(3), gym.spaces.MultiBinary(3)
        ),
        "action_space": draw.one_of(
            vector,
            gym.spaces.Discrete(3),
            gym.spaces.MultiDiscrete([2, 3]),
            gym.spaces.MultiBinary(2),
        ),
        "capacity": draw.integer(1, 20),
    }


def of_space(space: Any) -> tuple[str, tuple[int, ...]]:
    """Return dtype and shape of the elements of a space."""
    dtype, shape = getattr(space, "dtype", None), getattr(space, "shape", None)
    require(dtype is not None and shape is not None)
    name, shape = known_dtype(dtype), tuple(shape)
    row_bytes(shape, name)
    return name, shape


def columns_of(observation_space: Any = None, action_space: Any = None) -> Any:
    """Return dtype and shape of observations and actions."""
    if isinstance(observation_space, gym.spaces.Dict):
        obs: Any = {name: of_space(part) for name, part in observation_space.spaces.items()}
    else:
        obs = of_space(observation_space)
    dtype, shape = of_space(action_space)
    return {"obs": obs, "actions": (dtype, shape or (1,))}


def stored_columns(buffer: Any, columns: Any, *more: int) -> Any:
    """Return dtypes and shapes of sampled arrays after a push of zeros of `columns`."""
    if isinstance(columns["obs"], dict):
        obs: Any = {name: np.zeros(shape, dtype) for name, (dtype, shape) in columns["obs"].items()}
    else:
        obs = np.zeros(columns["obs"][1], columns["obs"][0])
    dtype, shape = columns["actions"]
    buffer.push(obs, np.zeros(shape, dtype), 0.0, False, False, obs)
    batch = buffer.sample(1, *more)
    lead = 1 + len(more)
    arrays: Any = (batch["obs"], batch["actions"])
    kind = lambda array: (array.dtype.name, array.shape[lead:])  # noqa: E731
    obs = {k: kind(a) for k, a in arrays[0].items()} if isinstance(arrays[0], dict) else kind(arrays[0])
    return {"obs": obs, "actions": kind(arrays[1])}


def goal_rows() -> _core.ReplayBuffer:
    """Return a buffer of rows whose goals are their numbers."""
    spaces = {name: ("float64", (1,)) for name in ("achieved_goal", "desired_goal")}
    buffer = _core.ReplayBuffer(ROWS, act_dim=1, obs_spaces=spaces, reward_dtype="float64")
    for t in range(ROWS):
        obs = {"achieved_goal": [float(t)], "desired_goal": [-1.0]}
        after = {"achieved_goal": [t + 0.5], "desired_goal": [-1.0]}
        buffer.push(obs, 0, -1.0, t in ENDS, False, after)
    return buffer


def draw_hindsight(draw: Draw) -> Arguments:
    arguments: Arguments = {"strategy": draw.one_of("future", "final", "episode")}
    arguments["k"] = draw.integer(0, 6)
    if draw.boolean():
        arguments["ratio"] = draw.unit()
    return arguments


def goal_reward(achieved: Any, desired: Any, info: Any) -> Any:
    """Return a reward that depends on both goals in different ways."""
    return (10 * achieved - desired)[:, 0]


def relabel(model: Any, draws: Draws, rows: list[Any], batch: Any, config: Any) -> None:
    """Replace goals and rewards of a drawn batch by the definition.

    A reward that is not finite is refused.
    """
    for place, (env, t) in enumerate(rows):
        if draws.uniform() >= config.ratio:
            continue
        first, last = model.episode(env, t)
        goal = last - 1
        if config.strategy == "future":
            goal = t + draws.below(last - t)
        elif config.strategy == "episode":
            goal = first + draws.below(last - first)
        new_goal = model.after(env, goal)["achieved_goal"]
        for name in ("obs", "next_obs"):
            batch[name]["desired_goal"][place] = new_goal
        achieved = batch["next_obs"]["achieved_goal"][place]
        with np.errstate(all="ignore"):
            reward = goal_reward(achieved[None], new_goal[None], {})[0]
        require(np.isfinite(reward))
        batch["rewards"][place] = reward


def hindsight(seed: int, **arguments: Any) -> Any:
    config = _core.HindsightConfig(lambda a, d, _: (10 * a - d)[:, 0], **arguments)
    batch = goal_rows().sample(8, seed, her=config)
    goals = batch["obs"]["desired_goal"], batch["next_obs"]["desired_goal"]
    return {
        "strategy": config.strategy, "ratio": config.ratio, "goals": goals,
        "rewards": batch["rewards"], "indices": batch["indices"],
    }  # fmt: skip


def hindsight_model(seed: int, strategy: Any = "future", k: Any = 4, ratio: Any = None) -> Any:
    require(isinstance(strategy, str) and strategy in ("future", "final", "episode"))
    k = as_integer(k, 0, LARGEST)
    ratio = k / (k + 1) if ratio is None else within(ratio, 0, 1)
    draws = Draws(seed, 0)
    rows = [draws.below(ROWS) for _ in range(8)]
    goals, rewards = np.full((8, 1), -1.0), np.full(8, -1.0)
    for place, row in enumerate(rows):
        first = max((end + 1 for end in ENDS if end < row), default=0)
        last = min((end for end in ENDS if end >= row), default=ROWS - 1)
        if draws.uniform() < ratio:
            if strategy == "future":
                first, last = row, row + draws.below(last + 1 - row)
            elif strategy == "episode":
                last = first + draws.below(last + 1 - first)
            goals[place] = last + 0.5
            rewards[place] = 10 * (row + 0.5) - goals[place, 0]
    indices = np.array(rows, np.uint64)
    return {
        "strategy": strategy, "ratio": float(ratio), "goals": (goals, goals), "rewards": rewards,
        "indices": indices,
    }  # fmt: skip
