"""Registers the broken environments: `env=helpers.broken_envs.ids:checked/seed-ignored-v0`."""

from __future__ import annotations

import gymnasium as gym

from .base import BROKEN
from .sound import Mission

for kind in BROKEN:
    gym.register(f"checked/{kind.code}-v0", kind.make)
gym.register("checked/mission-v0", Mission)
