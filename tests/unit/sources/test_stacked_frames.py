"""Tests that a replay buffer stores each frame of stacked observations once, and nothing else changes."""

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
from helpers.lost_steps import lose_steps

from rlox.algorithms import DQN, SAC
from rlox.algorithms.assembly import off_policy
from rlox.envs.frame_stacks import stacked_frames
from rlox.sources import replay_sampler

STEPS = 300


class NoiseEnv(gym.Env[Any, Any]):
    """Frames of noise, in episodes of 64 steps."""

    observation_space = spaces.Box(0, 255, (12, 12), np.uint8)

    def __init__(self, actions: gym.Space[Any] | None = None) -> None:
        self.action_space = actions or spaces.Discrete(2)
        self.t = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self._frame(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        return self._frame(), 1.0, self.t == 64, False, {}

    def _frame(self) -> Any:
        return self.np_random.integers(0, 256, (12, 12), dtype=np.uint8)


class NoiseDict(NoiseEnv):
    """The same frames as a part of a Dict."""

    observation_space = spaces.Dict({"eye": NoiseEnv.observation_space})


def make_stacked() -> gym.Env[Any, Any]:
    return FrameStackObservation(NoiseEnv(), 4)


LOST_STEPS = (1, 100, 104, 105, 131, 132, STEPS)  # also the last step of a chunk of 4


def train_dqn(lost_steps: tuple[int, ...] = (), **settings: Any) -> Any:
    algorithm = DQN(
        make_stacked, buffer_size=STEPS, learning_starts=100, batch_size=8, encoder="mlp", net_arch=[8],
        **settings,
    )  # fmt: skip
    with lose_steps(lost_steps):
        algorithm.train(STEPS)
    return algorithm


@pytest.mark.parametrize("settings", [{}, {"prioritized": True}, {"lost_steps": LOST_STEPS}], ids=str)
def test_storing_each_frame_once_learns_the_same_in_a_third_of_the_memory(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    once = train_dqn(**settings)
    for module in (replay_sampler, off_policy):
        monkeypatch.setattr(module, "frames_to_share", lambda codec: 1)
    often = train_dqn(**settings)
    for mine, theirs in zip(once.policy.parameters(), often.policy.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    buffers = [made.source.replay_sampler.buffer for made in (once, often)]
    assert buffers[0].nbytes < 0.32 * buffers[1].nbytes


def test_a_full_buffer_has_about_the_bytes_that_were_counted() -> None:
    kept = train_dqn().source.replay_sampler
    assert 0.9 * kept.full_bytes < kept.buffer.nbytes <= 1.05 * kept.full_bytes


def test_subprocess_workers_report_stacked_frames() -> None:
    made = DQN(make_stacked, n_envs=2, workers="subprocess", encoder="mlp", learning_starts=8, batch_size=4)
    try:
        assert made.source.env.observations.n_frames == 4
        made.train(32)
        assert made.source.replay_sampler.last_sample["obs"].shape[-2:] == (4, 144)
    finally:
        made.close()


def test_stacked_frames_are_recognised_unless_an_outer_wrapper_changes_them() -> None:
    assert stacked_frames(RecordEpisodeStatistics(make_stacked())) == 4
    assert stacked_frames(RescaleObservation(make_stacked(), np.float32(0), np.float32(1))) == 1
    brighter = TransformObservation(make_stacked(), lambda o: o - o.min(), make_stacked().observation_space)
    assert stacked_frames(brighter) == 1
    assert stacked_frames(NoiseEnv()) == 1
    assert stacked_frames(FrameStackObservation(NoiseDict(), 4)) == 1


def test_stacks_of_vectors_are_stored_whole() -> None:
    def vectors() -> gym.Env[Any, Any]:
        return FrameStackObservation(gym.make("Pendulum-v1"), 3)

    made = SAC(vectors, learning_starts=20, batch_size=8, net_arch=[8])
    made.train(40)
    assert made.source.replay_sampler.last_sample["obs"].shape[-1] == 9
