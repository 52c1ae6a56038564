"""Observations that are stacks of frames, of which a replay buffer keeps each frame once."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from rlox.envs.engines.atari import AtariGame

__all__ = ["stacked_frames"]


def stacked_frames(env: gym.Env[Any, Any]) -> int:
    """How many frames an observation of `env` is a stack of, oldest first along its first axis; 1: of none.

    They are put together by one of the wrappers (`gymnasium.wrappers.FrameStackObservation`, `AtariGame`),
    and those around it leave observations as they are.
    """
    wrapper = env if isinstance(env.observation_space, gym.spaces.Box) else None
    while isinstance(wrapper, gym.Wrapper) and wrapper.observation_space == env.observation_space:
        if isinstance(wrapper, AtariGame):
            return wrapper.settings.stack
        if isinstance(wrapper, gym.wrappers.FrameStackObservation):
            return int(wrapper.stack_size)
        if isinstance(wrapper, gym.ObservationWrapper):
            break  # it may change every frame of a stack by what the others are
        wrapper = wrapper.env
    return 1
