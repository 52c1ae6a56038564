"""Tests that restored Gymnasium environments continue bit for bit, and which ones cannot be saved."""

from __future__ import annotations

from collections import Counter
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers.native_envs import SPECS
from helpers.play_record import play, through_json

from rlox.configs import EnvConfig
from rlox.envs.make import make_vec
from rlox.envs.snapshot import can_save, restore_env, save_env
from rlox.errors import CheckpointError

SAVABLE: list[tuple[str, dict[str, Any]]] = [
    *((env_id, {}) for env_id in SPECS),
    ("CartPole-v1", {"sutton_barto_reward": True}),
    ("Blackjack-v1", {"natural": True}),
    ("CliffWalking-v1", {"is_slippery": True}),
    ("FrozenLake-v1", {}),
    ("Taxi-v4", {}),
    ("Taxi-v4", {"is_rainy": True, "fickle_passenger": True, "fickle_probability": 0.9}),
]
# A step changes these fields, and only rendering uses them.
RENDER_KEYS = {"taxi_orientation", "last_u", "dealer_top_card_suit", "dealer_top_card_value_str"}


@pytest.mark.parametrize(("env_id", "options"), SAVABLE)
def test_a_restored_environment_goes_on_bit_for_bit(env_id: str, options: dict[str, Any]) -> None:
    env, other = gym.make(env_id, **options), gym.make(env_id, **options)
    assert can_save(env)
    env.reset(seed=3)
    for steps in (0, 1, 2, 5, 37, 300):
        play(env, steps, seed=steps)
        saved = through_json(save_env(env))
        other.reset(seed=99)
        restore_env(other, saved)
        assert play(env, 300, seed=2) == play(other, 300, seed=2)


@pytest.mark.parametrize(("env_id", "options"), SAVABLE)
def test_everything_that_steps_and_resets_change_is_saved(env_id: str, options: dict[str, Any]) -> None:
    env = gym.make(env_id, **options).unwrapped
    env.reset(seed=0)
    before = {name: repr(value) for name, value in vars(env).items()}
    play(env, 500, seed=1)
    changed = {name for name, value in vars(env).items() if before.get(name) != repr(value)}
    saved = set(save_env(env)["fields"]) | {"_np_random", "_np_random_seed"}
    assert changed <= saved | RENDER_KEYS


@pytest.mark.parametrize(("env_id", "options"), SAVABLE)
def test_a_saved_state_does_not_change_when_environments_go_on(env_id: str, options: dict[str, Any]) -> None:
    env, other = gym.make(env_id, **options), gym.make(env_id, **options)
    env.reset(seed=0)
    play(env, 7, seed=1)
    saved = save_env(env)
    kept = repr(saved)
    expected = play(env, 50, seed=2)
    assert repr(saved) == kept
    for _ in range(2):  # the second time from the same saved object
        other.reset(seed=1)
        restore_env(other, saved)
        assert play(other, 50, seed=2) == expected
        assert repr(saved) == kept


class CountingEnv(gym.Env[Any, Any]):
    """Counts its steps from a random start."""

    observation_space = gym.spaces.Box(-1e6, 1e6, (1,))
    action_space = gym.spaces.Discrete(2)
    count = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = int(self.np_random.integers(10))
        return np.array([self.count], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1 + int(action)
        return np.array([self.count], np.float32), float(self.count), self.count > 20, False, {}


class SavableEnv(CountingEnv):
    def save_state(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


def test_an_environment_with_save_state_and_load_state_is_exact() -> None:
    env, other = SavableEnv(), SavableEnv()
    assert can_save(env)
    env.reset(seed=0)
    play(env, 5, seed=0)
    saved = through_json(save_env(env))
    other.reset(seed=5)
    restore_env(other, saved)
    assert play(env, 60, seed=1) == play(other, 60, seed=1)


class SavesAnyState(SavableEnv):
    """Saves the state that its constructor receives."""

    def __init__(self, saved_state: Any = None) -> None:
        super().__init__()
        self.saved_state = saved_state

    def save_state(self) -> Any:
        return self.saved_state

    def load_state(self, state: Any) -> None:
        self.saved_state = state


SAVED_STATES: dict[str, Any] = {
    "whole numbers as keys": {"visits": {0: 3, 7: 1}},
    "pairs as keys": {(0, 1): "wall", (2, 2): "goal"},
    "keys with a slash": {"a/b": np.arange(2), "a": {"b": np.ones(3)}},
    "keys that checkpoints use": {"$array": "x", "$pairs": 1},
    "a tuple": {"position": (1, 2)},
    "numbers of NumPy": [np.float32(0.1), np.int8(-3), np.bool_(True), np.float64("inf")],
    "no dict": (1, [2.5, None], "text"),
    "arrays": {"grid": np.eye(2, dtype=np.uint8), "none": np.zeros((0, 3)), "one": np.array(2.5)},
}


@pytest.mark.parametrize("kind", SAVED_STATES)
def test_a_checkpoint_restores_the_types_in_an_environments_state(kind: str) -> None:
    env, other = SavesAnyState(SAVED_STATES[kind]), SavesAnyState()
    restore_env(other, through_json(save_env(env)))
    assert repr(other.saved_state) == repr(SAVED_STATES[kind])


@pytest.mark.parametrize(
    ("memory", "said"),
    [
        ({"visits": Counter("ab")}, r"the state of SavesAnyState\['visits'\] is a Counter, expected"),
        ([np.array(["a"], object)], r"SavesAnyState\[0\] is an array of object"),
        ({"rng": np.random.default_rng(0)}, r"SavesAnyState\['rng'\] is a Generator"),
    ],
)
def test_save_env_refuses_a_state_that_a_checkpoint_cannot_restore(memory: Any, said: str) -> None:
    with pytest.raises(CheckpointError, match=said):
        save_env(SavesAnyState(memory))


def test_an_environment_without_save_methods_is_not_exact() -> None:
    assert not can_save(CountingEnv())


def test_an_unknown_wrapper_makes_an_environment_inexact() -> None:
    class Hidden(gym.Wrapper[Any, Any, Any, Any]):
        pass

    assert not can_save(Hidden(gym.make("CartPole-v1")))


def test_box2d_resumes_at_the_start_of_an_episode() -> None:
    pytest.importorskip("Box2D", reason="box2d is optional")
    vec = make_vec(EnvConfig(id="LunarLander-v3", n_envs=1), seed=0)
    assert vec.resume_grade == "episode_start"
    vec.close()
