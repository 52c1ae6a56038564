"""Tests that `hide_velocities` keeps positions, as Gymnasium's documentation defines them."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from rlox.configs import EnvConfig
from rlox.envs.builtin_wrappers import HideVelocities
from rlox.envs.make import make_vec
from rlox.errors import ConfigError

KEPT = {
    "CartPole-v1": [0, 2],  # cart's place, pole's angle
    "MountainCar-v0": [0],
    "MountainCarContinuous-v0": [0],
    "Pendulum-v1": [0, 1],  # cosine and sine
    "Acrobot-v1": [0, 1, 2, 3],
}


@pytest.mark.parametrize("env_id", KEPT)
def test_hide_velocities_keeps_the_positions_and_changes_nothing_else(env_id: str) -> None:
    hidden, plain = HideVelocities(gym.make(env_id)), gym.make(env_id)
    seen, whole = hidden.reset(seed=3)[0], plain.reset(seed=3)[0]
    plain.action_space.seed(0)
    for _ in range(5):
        assert np.array_equal(seen, whole[KEPT[env_id]])
        assert hidden.observation_space.contains(seen)
        action = plain.action_space.sample()
        (seen, *told), (whole, *expected) = hidden.step(action), plain.step(action)
        assert told[:3] == expected[:3]


def test_make_vec_accepts_hide_velocities_as_a_named_wrapper() -> None:
    env = make_vec(EnvConfig(id="CartPole-v1", n_envs=2, wrappers=("hide_velocities",)), 0, None)
    assert env.observations.dim == 2
    assert env.resume_grade == "exact"  # the wrapper keeps no state between observations
    env.close()


def test_an_environment_whose_velocities_are_not_known_is_refused() -> None:
    with pytest.raises(ConfigError, match="hide_velocities knows the velocities of Acrobot, CartPole"):
        HideVelocities(gym.make("Blackjack-v1"))
