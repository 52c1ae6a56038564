"""Gymnasium's own environments, and what there is to say of them: mostly nothing."""

from __future__ import annotations

import gymnasium as gym

from rlox.envs.optional import lacking

CLASSIC = (
    "CartPole-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    "Pendulum-v1",
    "Acrobot-v1",
    "Blackjack-v1",
    "FrozenLake-v1",
    "FrozenLake8x8-v1",
    "CliffWalking-v1",
    "CliffWalkingSlippery-v1",
    "Taxi-v4",
)
BOX2D = ("LunarLander-v3", "LunarLanderContinuous-v3", "BipedalWalker-v3")
MUJOCO = ("HalfCheetah-v5", "Hopper-v5", "Reacher-v5", "InvertedPendulum-v5")

PUBLISHED = {
    env_id: lacking(gym.spec(env_id).entry_point) for env_id in (*CLASSIC, *BOX2D, *MUJOCO)
}
# True advice about sound environments: a pedal goes from 0 to 1.
ADVISED = {"CarRacing-v3": ("actions-uneven",)}
