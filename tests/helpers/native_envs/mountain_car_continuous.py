"""MountainCarContinuous: full force rocks the car out of the valley."""

from __future__ import annotations

import numpy as np

import rlox

from . import NativeSpec

SPEC = NativeSpec(
    env_id="MountainCarContinuous-v0",
    single=rlox.MountainCarContinuous,
    starts=[(-0.6, -0.4), None],
    observe=list,
    scripted_policy=lambda obs: np.where(obs[1] >= 0, 1, -1)[:, None].astype(np.float32),
    solved_return=85,
    deviation=3e-7,
    float32_state=True,
    float32_start=True,
    episodes=2,
)
