"""Detection of stacked frames, so that a replay buffer stores each frame once."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from rlox.envs.engines.atari import AtariGame

__all__ = ["stacked_frames"]


def stacked_frames(env: gym.Env[Any, Any]) -> int:
    """Return how many frames an observation stacks, oldest first along its first axis; 1 without a stack.

    A stack is found if a wrapper makes it (`gymnasium.wrappers.FrameStackObservation`, `AtariGame`) and the
    wrappers outside that one leave observations unchanged.
    """
    wrapper = env if isinstance(env.observation_space, gym.spaces.Box) else None
    while isinstance(wrapper, gym.Wrapper) and wrapper.observation_space == env.observation_space:
        if isinstance(wrapper, AtariGame):
            return wrapper.settings.stack
        if isinstance(wrapper, gym.wrappers.FrameStackObservation):
            return int(wrapper.stack_size)
        if isinstance(wrapper, gym.ObservationWrapper):
            break  # it may change each frame depending on the others
        wrapper = wrapper.env
    return 1
