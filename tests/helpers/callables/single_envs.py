"""Models single native environments by Gymnasium's own."""

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
    named,
    real,
    require,
)
from helpers.callables.envs import (
    FACTS,
    LARGEST,
    after_model,
    numeric,
    place,
    saved_twins,
    some_actions,
    space,
)
from helpers.callables.twins import Twins, gymnasium_env
from helpers.native_envs import SPECS
from rlox import _core

CONTEXT = frozenset({"env_id", "start", "warm"})
NONE, RUNNING, OVER = range(3)
CLASSES = {spec.single.__name__: env_id for env_id, spec in SPECS.items()}


class Twin:
    """One Gymnasium environment and the state of its episode."""

    def __init__(self, env_id: str, seed: int) -> None:
        self.batch, self.episode = Twins(env_id, [(seed, 0)]), NONE

    def reset(self) -> np.ndarray:
        # At the end of an episode the batch has already drawn the next start.
        obs = self.batch.observe() if self.episode == OVER else self.batch.reset()
        self.episode = RUNNING
        return obs[0]

    def step(self, action: np.ndarray) -> dict[str, Any]:
        require(self.episode == RUNNING)
        step = self.batch.step(action)
        self.episode = OVER if step["final_mask"][0] else RUNNING
        return {
            "obs": step["final_obs"][0],
            "reward": float(step["rewards"][0]),
            "terminated": bool(step["terminated"][0]),
            "truncated": bool(step["truncated"][0]),
        }


def pair(env_id: str, start: int, warm: tuple[int, bool, bool]) -> tuple[Any, Twin]:
    """Return the same environment twice, after some steps; if drawn, in an episode's last step."""
    env, twin = _core.SingleEnv(env_id, start), Twin(env_id, start)
    key, has_begun, late = warm
    if not has_begun:
        return env, twin
    rng = np.random.default_rng(key)
    env.reset()
    twin.reset()
    elapsed = twin.batch.limit - 1 if late else 0
    twin.batch.elapsed[0] = elapsed
    env.set_state(twin.batch.state[0], elapsed)
    action = some_actions(env_id, 1, rng)
    env.step(action[0])
    twin.step(action)
    if twin.episode == RUNNING:
        # These tests ignore rounding errors, which a chaotic system amplifies.
        env.set_state(twin.batch.state[0])
    return env, twin


def after(env: Any, result: Any) -> Any:
    saved = env.snapshot()
    fields = ("state", "elapsed", "positions", "seeds", "indices")
    return (result, env.get_state(), saved["episode"]), {name: saved[name] for name in fields}


def after_twin(twin: Twin, result: Any) -> Any:
    return after_model(twin.batch, (result, twin.batch.state[0], twin.episode))


def draw_context(draw: Draw) -> Arguments:
    return {
        "env_id": draw.one_of(*sorted(SPECS)),
        "start": draw.integer(0, LARGEST),
        "warm": (draw.integer(0, 2**32 - 1), draw.integer(0, 9) > 0, draw.boolean()),
    }


def draw_step(draw: Draw) -> Arguments:
    context = draw_context(draw)
    context["warm"] = (context["warm"][0], True, context["warm"][2])
    action: Any = some_actions(context["env_id"], 1, draw.rng)[0]
    return context | {"action": draw.one_of(action, action.item())}


def step(action: Any, **context: Any) -> Any:
    env, twin = pair(**context)
    if twin.episode == OVER:
        env.reset()
        # Return to the twin's start, from which it may differ by rounding.
        env.set_state(twin.batch.state[0])
    return after(env, env.step(action))


def step_model(action: Any = None, **context: Any) -> Any:
    _, twin = pair(**context)
    if twin.episode == OVER:
        twin.reset()
    return after_twin(twin, twin.step(checked_action(action, context["env_id"])))


def checked_action(value: Any, env_id: str) -> np.ndarray:
    """Return an action `[1]` or `[1, 1]` in the form that the environment uses."""
    discrete = space(env_id)
    if isinstance(discrete, gym.spaces.Discrete):
        return np.array([as_integer(value, 0, int(discrete.n) - 1)])
    number = real(value) if isinstance(value, (int, float)) else any_numeric(value)
    with np.errstate(all="ignore"):
        single = np.asarray(number).astype(np.float32)
    require(single.size == 1 and np.isfinite(single).all())
    return single.reshape(1, 1)


def reset(seed: Any = None, **context: Any) -> Any:
    env, _ = pair(**context)
    return after(env, env.reset(seed))


def reset_model(seed: Any = None, **context: Any) -> Any:
    _, twin = pair(**context)
    if seed is not None:
        twin = Twin(context["env_id"], as_integer(seed, 0, LARGEST))
    return after_twin(twin, twin.reset())


def set_state(state: Any, elapsed: Any = None, **context: Any) -> Any:
    env, _ = pair(**context)
    env.set_state(state, elapsed)
    return after(env, None)


def set_state_model(state: Any = None, elapsed: Any = None, **context: Any) -> Any:
    _, twin = pair(**context)
    steps = None if elapsed is None else [as_integer(elapsed, 0, twin.batch.limit - 1)]
    place(twin.batch, numeric(state, twin.batch.state.shape[1])[None], steps)
    twin.episode = RUNNING
    return after_twin(twin, None)


def draw_state(draw: Draw) -> Arguments:
    context = draw_context(draw)
    batch = Twins(context["env_id"], [(0, 0)])
    arguments = {"state": draw.numbers(batch.state.shape[1])}
    return context | arguments | ({"elapsed": draw.integer(0, 199)} if draw.boolean() else {})


def restore(snapshot: Any, **context: Any) -> Any:
    env, _ = pair(**context)
    env.restore(snapshot)
    return after(env, None), after(env, env.reset())


def restore_model(snapshot: Any = None, **context: Any) -> Any:
    twin = Twin(context["env_id"], 0)
    twin.batch = saved_twins(snapshot, context["env_id"], "f64", 1)
    require("episode" in snapshot)
    twin.episode = as_integer(snapshot["episode"], NONE, OVER)
    restored = after_twin(twin, None)
    return restored, after_twin(twin, twin.reset())


def draw_restore(draw: Draw) -> Arguments:
    context = draw_context(draw)
    other = pair(**{**draw_context(draw), "env_id": context["env_id"]})[0]
    return context | {"snapshot": other.snapshot()}


def after_construction(env: Any) -> Any:
    return after(env, {name: getattr(env, name) for name in FACTS})


def construction_model(env_id: Any = None, seed: Any = 0) -> Any:
    env_id = named(env_id, *SPECS)
    twin, env = Twin(env_id, as_integer(seed, 0, LARGEST)), gymnasium_env(env_id)
    spaces: tuple[Any, Any] = env.observation_space, env.action_space
    discrete = isinstance(env.action_space, gym.spaces.Discrete)
    facts = {
        "env_id": env_id,
        "obs_dim": spaces[0].shape[0],
        "state_dim": twin.batch.state.shape[1],
        "max_episode_steps": twin.batch.limit,
        "n_actions": int(spaces[1].n) if discrete else None,
        "action_dim": 1,
        "action_low": None if discrete else spaces[1].low,
        "action_high": None if discrete else spaces[1].high,
        "observation_low": spaces[0].low,
        "observation_high": spaces[0].high,
    }
    return after_twin(twin, facts)


def draw_seed(draw: Draw) -> Arguments:
    return {"seed": draw.integer(0, LARGEST)} if draw.boolean() else {}


def named_case(name: str, env_id: str) -> Case:
    """Return the case of one environment's class."""
    kind = getattr(_core, name)
    return Case(
        lambda **given: after_construction(kind(**given)),
        draw_seed,
        lambda **given: construction_model(env_id, **given),
    )


CASES = {
    "SingleEnv": Case(
        lambda **given: after_construction(_core.SingleEnv(**given)),
        lambda draw: draw_seed(draw) | {"env_id": draw.one_of(*sorted(SPECS))},
        construction_model,
        covers=frozenset({"SingleEnv.get_state", "SingleEnv.snapshot"}),
    ),
    **{name: named_case(name, env_id) for name, env_id in CLASSES.items()},
    "SingleEnv.step": Case(step, draw_step, step_model, fixed=CONTEXT),
    "SingleEnv.reset": Case(
        reset, lambda draw: draw_context(draw) | draw_seed(draw), reset_model, fixed=CONTEXT
    ),
    "SingleEnv.set_state": Case(set_state, draw_state, set_state_model, fixed=CONTEXT),
    "SingleEnv.restore": Case(restore, draw_restore, restore_model, fixed=CONTEXT),
}
