"""CartPole: a push to the side to which the pole falls."""

from __future__ import annotations

import numpy as np

import rlox

from . import NativeSpec


def scripted_policy(obs: np.ndarray) -> np.ndarray:
    x, x_dot, angle, angle_dot = obs
    return (angle + 0.3 * angle_dot + 0.02 * x + 0.06 * x_dot > 0).astype(np.int64)


SPEC = NativeSpec(
    env_id="CartPole-v1",
    single=rlox.CartPole,
    starts=[(-0.05, 0.05)] * 4,
    observe=list,
    scripted_policy=scripted_policy,
    solved_return=450,
    deviation=3e-7,
)
