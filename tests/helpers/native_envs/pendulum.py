"""Pendulum: swing up by adding energy, then balance."""

from __future__ import annotations

import numpy as np

import rlox

from . import NativeSpec


def scripted_policy(obs: np.ndarray) -> np.ndarray:
    cos, sin, speed = obs
    energy = 0.5 * speed**2 + 15.0 * (cos - 1.0)
    pump = np.where(energy < 0.0, 2.0, -2.0) * np.sign(speed + 1e-9)
    balance = -10.0 * np.arctan2(sin, cos) - 2.0 * speed
    return np.where(cos > 0.9, balance, pump)[:, None].astype(np.float32)


SPEC = NativeSpec(
    env_id="Pendulum-v1",
    single=rlox.Pendulum,
    starts=[(-float(np.pi), float(np.pi)), (-1.0, 1.0)],
    observe=lambda state: [np.cos(state[0]), np.sin(state[0]), state[1]],
    scripted_policy=scripted_policy,
    solved_return=-400,
    deviation=1e-6,
    reward_deviation=1e-5,
)
