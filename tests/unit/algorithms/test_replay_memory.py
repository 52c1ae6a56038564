"""Tests the memory of replay: sizes in bytes, the batches of one draw, and errors that name the key."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from rlox.algorithms import DQN
from rlox.algorithms.assembly import off_policy
from rlox.configs.dqn import DQNConfig
from rlox.errors import ConfigError
from rlox.runs import preflight
from rlox.sources.replay_sampler import sampled_bytes
from rlox.types import Clock

GIB = 1 << 30


def dqn(**settings: Any) -> DQN:
    return DQN("CartPole-v1", **settings)


@pytest.fixture
def four_gib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "available_memory", lambda root: 4 * GIB)


def test_memory_for_less_than_a_transition_of_each_environment_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"buffer\.memory=10 holds 0 transitions") as refused:
        dqn(memory="10", n_envs=3)
    least = re.search(r"at least (\d+) bytes", str(refused.value))
    assert least is not None
    assert dqn(memory=least[1], n_envs=3).source.replay_sampler.buffer.capacity == 3
    with pytest.raises(ConfigError, match=r"buffer\.memory"):
        dqn(memory=str(int(least[1]) - 1), n_envs=3)


def test_memory_for_more_transitions_than_a_buffer_can_hold_names_the_largest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ConfigError, match=r"buffer\.memory=200GB holds .* at most") as refused:
        dqn(memory="200GB")
    largest = str(refused.value).rpartition("expected ")[2].split()[0]
    monkeypatch.setattr(preflight, "available_memory", lambda root: 1 << 20)
    with pytest.raises(ConfigError, match=r"lower buffer\.memory$"):
        dqn(memory=largest)


@pytest.mark.usefixtures("four_gib")
def test_the_refusal_of_a_large_buffer_names_its_key() -> None:
    with pytest.raises(ConfigError, match=r"4\.0 GiB are available; lower buffer\.capacity$"):
        dqn(buffer_size=1_000_000_000)
    with pytest.raises(ConfigError, match=r"4\.0 GiB are available; lower buffer\.memory$"):
        dqn(memory="6GB")


@pytest.mark.usefixtures("four_gib")
def test_batches_that_are_drawn_at_once_are_counted_before_the_run() -> None:
    small: dict[str, Any] = {"buffer_size": 1000, "train_freq": 64, "batch_size": 200_000}
    dqn(**small)
    with pytest.raises(ConfigError, match=r"64 x 200,000 .* lower algo\.batch_size or buffer\.cap"):
        dqn(**small, gradient_steps=-1, net_arch=(2048,))
    dqn(**small, gradient_steps=64, prioritized=True)  # prioritized replay draws one batch at a time
    with pytest.raises(ConfigError, match=r"1 x 100,000,000 .* lower algo\.batch_size"):
        dqn(**{**small, "batch_size": 100_000_000})


def test_a_batch_of_more_rows_than_can_be_drawn_names_the_key_and_the_largest() -> None:
    with pytest.raises(ConfigError, match=r"algo\.batch_size=1000000000: .* lower it to 268435456"):
        dqn(batch_size=10**9)
    with pytest.raises(ConfigError, match=r"lower it to 4194304 or less"):
        dqn(batch_size=5_000_000, train_freq=64, gradient_steps=64)


@pytest.mark.parametrize(
    ("settings", "n_envs", "kept"),
    [
        ({"gradient_steps": 1, "train_freq": 4}, 1, 1),
        ({"gradient_steps": 1, "train_freq": 4}, 10, 3),
        ({"gradient_steps": -1, "train_freq": 16}, 1, 16),
        ({"gradient_steps": 128, "train_freq": 256}, 1, 64),
        ({"gradient_steps": 100, "train_freq": 256}, 1, 64 + 36),
        ({"replay_ratio": 0.3, "train_freq": 1}, 1, 1),
        ({"replay_ratio": 0.3, "train_freq": 10}, 1, 4),
    ],
)
def test_max_batches_alive_counts_whole_draws_and_the_last_one(
    settings: dict[str, Any], n_envs: int, kept: int
) -> None:
    assert off_policy._max_batches_alive(DQNConfig(**settings), n_envs, 64) == kept


@pytest.mark.parametrize("prioritized", [False, True])
def test_drawn_bytes_bounds_the_memory_of_a_sampled_transition_from_above(
    prioritized: bool,
) -> None:
    made = dqn(prioritized=prioritized, learning_starts=8, buffer_size=100, batch_size=16)
    made.train(20)
    drawn = made.source.replay_sampler.last_sample
    size = sum(np.asarray(column).nbytes for column in drawn.values()) / 16
    assert size <= sampled_bytes(made.source.env) <= 1.5 * size


@pytest.mark.parametrize("asked", [False, True])
def test_dqn_scales_rewards_only_with_normalize_reward(asked: bool) -> None:
    made = dqn(normalize_reward=asked, learning_starts=0, train_freq=64)
    batch, _ = made.source.next(Clock(horizon=64))
    assert (batch.rewards != 1.0).any() == asked
