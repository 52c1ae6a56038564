"""Observations that are stacks of frames, of which a replay buffer keeps each frame once."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from rlox.envs.engines.atari import AtariGame

__all__ = ["frames_in"]


def frames_in(env: gym.Env[Any, Any]) -> int:
    """How many frames an observation of `env` is a stack of, oldest first along its first axis; 1: of none.

    They are put together by one of the wrappers (`gymnasium.wrappers.FrameStackObservation`, `AtariGame`),
    and those around it leave observations as they are.
    """
    around = env if isinstance(env.observation_space, gym.spaces.Box) else None
    while isinstance(around, gym.Wrapper) and around.observation_space == env.observation_space:
        if isinstance(around, AtariGame):
            return around.settings.stack
        if isinstance(around, gym.wrappers.FrameStackObservation):
            return int(around.stack_size)
        if isinstance(around, gym.ObservationWrapper):
            break  # it may change every frame of a stack by what the others are
        around = around.env
    return 1
