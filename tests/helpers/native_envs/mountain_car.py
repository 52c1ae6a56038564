"""MountainCar: a push in the direction of motion rocks the car out of the valley."""

from __future__ import annotations

import numpy as np

import rlox

from . import NativeSpec

SPEC = NativeSpec(
    env_id="MountainCar-v0",
    single=rlox.MountainCar,
    starts=[(-0.6, -0.4), None],
    observe=list,
    scripted_policy=lambda obs: np.where(obs[1] >= 0, 2, 0),
    solved_return=-130,
    deviation=3e-7,
)
