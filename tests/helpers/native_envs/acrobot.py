"""Acrobot: a torque in the direction of the second link's rotation."""

from __future__ import annotations

import numpy as np

import rlox

from . import NativeSpec


def observe(state: np.ndarray) -> list[np.ndarray]:
    first, second, *speeds = state
    return [np.cos(first), np.sin(first), np.cos(second), np.sin(second), *speeds]


SPEC = NativeSpec(
    env_id="Acrobot-v1",
    single=rlox.Acrobot,
    starts=[(-0.1, 0.1)] * 4,
    observe=observe,
    scripted_policy=lambda obs: np.where(obs[5] > 0, 2, 0),
    solved_return=-110,
    deviation=1e-5,
    float32_start=True,
    angles=(0, 1),
    episodes=2,
    full_episodes=300,
    free_steps=40,  # a rounding error doubles every few steps
)
