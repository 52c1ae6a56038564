"""A step that raises, or that somebody interrupts: what is learned from afterwards are true transitions."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rlox.algorithms import DQN, PPO
from rlox.errors import EnvError

PERIOD = 1_000


class Counting(gym.Env[np.ndarray[Any, Any], np.int64]):
    """Observes its steps in the episode and which episode it is; raises at some steps of its life."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, fails_at: tuple[int, ...], error: type[BaseException]) -> None:
        self.fails_at, self.error = fails_at, error
        self.life = self.episode = self.now = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode += 1
        self.now = 0
        return self.seen(), {}

    def step(self, action: np.int64) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.life += 1
        self.now += 1
        if self.life in self.fails_at:
            raise self.error("somebody came in")
        return self.seen(), 1.0, False, self.now == PERIOD, {}

    def seen(self) -> Any:
        return np.array([self.now, self.episode], np.float32)


ERRORS = pytest.mark.parametrize(
    ("error", "shown"), [(KeyboardInterrupt, KeyboardInterrupt), (ValueError, EnvError)]
)


@ERRORS
def test_a_rollout_that_was_broken_off_is_followed_by_new_episodes(
    error: type[BaseException], shown: type[BaseException]
) -> None:
    run = PPO(lambda: Counting((90,), error), n_envs=1, n_steps=64, batch_size=64, n_epochs=1)
    with pytest.raises(shown):
        run.train(256)
    assert run.collector.tracker.returns[0] == 0.0
    rollout = run.collector.collect(run.policy, 32)
    steps = np.concatenate([rollout.obs.numpy(), rollout.last_obs.numpy()])
    assert np.array_equal(steps[:, 0], np.arange(33))  # each follows the one before
    assert np.all(steps[:, 1] == steps[0, 1])


@ERRORS
def test_a_buffer_never_joins_what_was_before_an_interruption_with_what_came_after(
    error: type[BaseException], shown: type[BaseException]
) -> None:
    run = DQN(
        lambda: Counting((90, 200), error), learning_starts=32, train_freq=16, batch_size=16, n_step=3,
        buffer_size=2_000,
    )  # fmt: skip
    for _ in range(2):
        with pytest.raises(shown):
            run.train(2_048)
        assert run.source.env_steps <= run.clock.env_steps + 16
    run.train(2_048)
    batch = run.source.memory.buffer.sample(512)
    ahead = batch["next_obs"][:, 0] - batch["obs"][:, 0]
    assert np.array_equal(batch["next_obs"][:, 1], batch["obs"][:, 1])  # of one episode
    assert ahead.min() >= 1
    assert ahead.max() <= 3
    assert {1.0, 2.0, 3.0} <= set(batch["obs"][:, 1])  # episodes of before and after
