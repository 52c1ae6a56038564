"""Of stacks of frames a replay buffer keeps each frame once, and nothing else changes."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.wrappers import (
    FrameStackObservation,
    RecordEpisodeStatistics,
    RescaleObservation,
    TransformObservation,
)
from helpers.losing import losing

from rlox.algorithms import DQN, SAC, off_policy
from rlox.envs.stacks import frames_in
from rlox.sources import memory

STEPS = 300


class Noise(gym.Env[Any, Any]):
    """Frames of noise, in episodes of 64 steps."""

    observation_space = spaces.Box(0, 255, (12, 12), np.uint8)

    def __init__(self, actions: gym.Space[Any] | None = None) -> None:
        self.action_space = actions or spaces.Discrete(2)
        self.at = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.at = 0
        return self._frame(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.at += 1
        return self._frame(), 1.0, self.at == 64, False, {}

    def _frame(self) -> Any:
        return self.np_random.integers(0, 256, (12, 12), dtype=np.uint8)


class Parts(Noise):
    """The same as a part of a Dict."""

    observation_space = spaces.Dict({"eye": Noise.observation_space})


def stacked() -> gym.Env[Any, Any]:
    return FrameStackObservation(Noise(), 4)


LOST = (1, 100, 104, 105, 131, 132, STEPS)  # also the last of a chunk of 4


def learned(lost: tuple[int, ...] = (), **settings: Any) -> Any:
    made = DQN(
        stacked, buffer_size=STEPS, learning_starts=100, batch_size=8, encoder="mlp", net_arch=[8], **settings
    )  # fmt: skip
    with losing(lost):
        made.train(STEPS)
    return made


@pytest.mark.parametrize("settings", [{}, {"prioritized": True}, {"lost": LOST}], ids=str)
def test_storing_each_frame_once_learns_the_same_in_a_third_of_the_memory(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    once = learned(**settings)
    for module in (memory, off_policy):
        monkeypatch.setattr(module, "frames_of", lambda codec: 1)
    often = learned(**settings)
    for mine, theirs in zip(once.policy.parameters(), often.policy.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    buffers = [made.source.memory.buffer for made in (once, often)]
    assert buffers[0].nbytes < 0.32 * buffers[1].nbytes


def test_a_full_buffer_has_about_the_bytes_that_were_counted() -> None:
    kept = learned().source.memory
    assert 0.9 * kept.full_bytes < kept.buffer.nbytes <= 1.05 * kept.full_bytes


def test_subprocesses_tell_of_their_stacks() -> None:
    made = DQN(
        stacked, n_envs=2, workers="subprocess", encoder="mlp", learning_starts=8, batch_size=4
    )
    try:
        assert made.source.env.observations.frames == 4
        made.train(32)
        assert made.source.memory.last["obs"].shape[-2:] == (4, 144)
    finally:
        made.close()


def test_stacks_are_of_the_wrapper_that_makes_them_unless_one_around_it_changes_them() -> None:
    assert frames_in(RecordEpisodeStatistics(stacked())) == 4
    assert frames_in(RescaleObservation(stacked(), np.float32(0), np.float32(1))) == 1
    brighter = TransformObservation(stacked(), lambda o: o - o.min(), stacked().observation_space)
    assert frames_in(brighter) == 1
    assert frames_in(Noise()) == 1
    assert frames_in(FrameStackObservation(Parts(), 4)) == 1


def test_vectors_are_kept_whole_as_buffers_of_before_have_them() -> None:
    def vectors() -> gym.Env[Any, Any]:
        return FrameStackObservation(gym.make("Pendulum-v1"), 3)

    made = SAC(vectors, learning_starts=20, batch_size=8, net_arch=[8])
    made.train(40)
    assert made.source.memory.last["obs"].shape[-1] == 9
