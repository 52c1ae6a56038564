"""Tests scores of several environments on one scale, and the returns of random play."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import scales
from classic_control import EPISODES, EVAL_SEED
from helpers.selection import FULL


@pytest.mark.parametrize("env", list(scales.SCALES))
def test_random_play_is_0_and_the_published_score_1(env):
    scale = scales.SCALES[env]
    found = scale(np.array([scale.random, scale.reference, (scale.random + scale.reference) / 2]))
    np.testing.assert_allclose(found, [0.0, 1.0, 0.5])
    assert scale.random < scale.reference
    assert "rl-zoo3" in scale.source


LONG = ("Acrobot-v1", "Pendulum-v1")


@pytest.mark.parametrize("env", scales.SCALES)
def test_random_play_is_what_random_actions_return_in_the_common_episodes(env):
    if env in LONG and not FULL:
        pytest.skip("a thousand long episodes, a minute; set RLOX_FULL=1")
    found = scales.random_play(env, EPISODES, EVAL_SEED)
    assert round(found, 1) == scales.SCALES[env].random


@pytest.mark.parametrize("env", LONG)
def test_random_play_of_each_common_episode_once_is_near_0(env):
    found = scales.random_play(env, EPISODES, EVAL_SEED, times=1)
    assert abs(scales.SCALES[env](np.array([found]))) <= 0.05


def test_random_play_counts_whole_episodes_from_the_seeds_that_it_is_given():
    one = gym.make("CartPole-v1")
    lengths = []
    for draw in range(3):
        one.action_space.seed(draw)
        for seed in (7, 8):
            one.reset(seed=seed)
            lengths.append(0)
            ended = False
            while not ended:
                lengths[-1] += 1
                _, _, terminated, truncated, _ = one.step(one.action_space.sample())
                ended = terminated or truncated
    assert scales.random_play("CartPole-v1", 2, 7, times=3) == np.mean(lengths)
