"""Observations that are stacks of frames, of which a replay buffer keeps each frame once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym

from rlox.envs.spaces import ObservationCodec

__all__ = ["frames_in", "with_frames"]


def frames_in(env: gym.Env[Any, Any]) -> int:
    """How many frames an observation of `env` is a stack of, oldest first along its first axis; 1: of none.

    They are put together by one of the wrappers (`gymnasium.wrappers.FrameStackObservation`), and those
    around it leave the space as it is.
    """
    around = env
    while isinstance(around, gym.Wrapper) and around.observation_space == env.observation_space:
        if isinstance(around, gym.wrappers.FrameStackObservation):
            return int(around.stack_size)
        around = around.env
    return 1


def with_frames(codec: ObservationCodec, frames: int) -> ObservationCodec:
    """The codec of observations that are stacks of so many frames."""
    return codec if frames == 1 else replace(codec, frames=frames)
