"""Gymnasium's own environments, and the few findings that the check reports for them."""

from __future__ import annotations

import gymnasium as gym

from rlox.envs.optional_packages import install_hint

CLASSIC = (
    "CartPole-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
    "Pendulum-v1",
    "Acrobot-v1",
    "Blackjack-v1",
    "FrozenLake-v1",
    "FrozenLake8x8-v1",
    "Taxi-v4",
)
BOX2D = ("LunarLander-v3", "LunarLanderContinuous-v3")
MUJOCO = ("HalfCheetah-v5", "Hopper-v5", "Reacher-v5", "InvertedPendulum-v5")

# The true findings: a cliff without a time limit, pedals from 0 to 1, and a walker whose reset with the same
# seed leads to another state, because its Box2D world persists.
ADVISED = {
    "CliffWalking-v1": "never-ends",
    "CliffWalkingSlippery-v1": "never-ends",
    "CarRacing-v3": "actions-uneven",
    "BipedalWalker-v3": "reset-keeps-state",
}
# The missing packages of each environment, if any.
LACKS = {
    env_id: install_hint(gym.spec(env_id).entry_point) for env_id in (*CLASSIC, *BOX2D, *MUJOCO, *ADVISED)
}
PUBLISHED = (*CLASSIC, *BOX2D, *MUJOCO)
