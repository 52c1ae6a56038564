"""Tests that learning gets true transitions after a step that raises or is interrupted."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from torch import nn

from rlox.algorithms import A2C, DQN, PPO, SAC, TD3, RecurrentPPO
from rlox.callbacks import Callback, EarlyStoppingCallback, LoggerCallback
from rlox.errors import EnvError, NonFiniteError

PERIOD = 1_000


class Counting(gym.Env[np.ndarray[Any, Any], np.int64]):
    """Observes the step and the number of its episode. Raises at some steps, counted over all episodes."""

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
    assert np.array_equal(steps[:, 0], np.arange(33))  # each step follows the previous one
    assert np.all(steps[:, 1] == steps[0, 1])


@ERRORS
def test_a_buffer_never_joins_rows_across_an_interruption(
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
    batch = run.source.replay_sampler.buffer.sample(512)
    ahead = batch["next_obs"][:, 0] - batch["obs"][:, 0]
    assert np.array_equal(batch["next_obs"][:, 1], batch["obs"][:, 1])  # of the same episode
    assert ahead.min() >= 1
    assert ahead.max() <= 3
    assert {1.0, 2.0, 3.0} <= set(batch["obs"][:, 1])  # episodes before and after the interruption


SMALL: dict[str, Any] = {"n_envs": 2, "n_steps": 32}
KINDS: list[Any] = [
    (PPO, {"n_epochs": 1, "batch_size": 32}),
    (A2C, {}),
    (RecurrentPPO, {"n_epochs": 1, "batch_size": 32, "lstm_hidden_size": 8}),
]


def failing(kind: Any, options: dict[str, Any], at: int, **more: Any) -> Any:
    """Trains a run for a rollout, then until the first environment raises in its step number `at`."""
    lives = [(at,)]
    run = kind(lambda: Counting(lives.pop() if lives else (), ValueError), **SMALL, **options, **more)
    run.train(64)
    with pytest.raises(EnvError):
        run.train(640)
    return run


@pytest.mark.parametrize(("kind", "options"), KINDS)
@pytest.mark.parametrize("backend", ["torch", "auto"])
def test_a_failed_rollout_counts_no_steps_and_no_episode_is_ahead_of_the_clock(
    kind: Any, options: dict[str, Any], backend: str
) -> None:
    told: list[Any] = []

    class Keeps(Callback):
        def on_rollout_end(self, **kwargs: Any) -> None:
            told.append((kwargs["step"], kwargs["episodes"]))

    given = {} if kind is RecurrentPPO else {"backend": backend}
    run = failing(kind, options, 40, callbacks=[Keeps()], max_episode_steps=5, **given)
    assert run.collector.env_steps == run.clock.env_steps == 64
    run.train(192)
    assert run.collector.env_steps == run.clock.env_steps == 192
    ended = [(step - 64, e.env_steps, step) for step, episodes in told for e in episodes]
    assert len(ended) > 20
    assert all(before < at <= after for before, at, after in ended)


def test_a_failed_update_puts_no_episode_ahead_of_the_clock() -> None:
    run = PPO("CartPole-v1", backend="torch", n_epochs=1, batch_size=32, **SMALL)
    run.train(64)
    update, run.learner.update = run.learner.update, lambda *given: 1 / 0
    with pytest.raises(ZeroDivisionError):
        run.train(128)
    run.learner.update = update
    with pytest.warns(UserWarning, match="in the middle of an update"):
        run.train(128)
    assert run.collector.env_steps == run.clock.env_steps == 128


def test_a_recurrent_state_ends_with_the_episodes_of_a_failed_step() -> None:
    run = failing(*KINDS[2], 40)
    rollout = run.collector.collect(run.policy, 8)
    assert rollout.obs[:, 0].view(8, 2)[:, 0].tolist() == list(range(8))
    assert rollout.extras["is_first"].view(8, 2)[0].tolist() == [True, True]
    assert not rollout.first_state.any()


def test_a_recurrent_state_ends_where_a_rollout_cannot_be_scored() -> None:
    run = RecurrentPPO(lambda: Counting((), ValueError), **SMALL, **KINDS[2][1])
    run.train(64)
    scored, run.collector._score_sequences = run.collector._score_sequences, lambda *given: 1 / 0
    with pytest.raises(ZeroDivisionError):
        run.train(128)
    run.collector._score_sequences = scored
    rollout = run.collector.collect(run.policy, 8)
    assert rollout.obs[:, 0].view(8, 2)[:, 0].tolist() == list(range(8))
    assert not rollout.first_state.any()


def test_a_checkpoint_without_running_episodes_resets_the_recurrent_state() -> None:
    """Earlier versions wrote this state after a failed step: a memory, and environments without episodes."""
    run = RecurrentPPO("CartPole-v1", env_backend="gymnasium", **SMALL, **KINDS[2][1])
    run.train(64)
    state = {**run.collector.state(), "started": False}
    assert state["memory"].any()
    run.collector.restore(state)
    rollout = run.collector.collect(run.policy, 4)
    assert not rollout.first_state.any()
    assert rollout.extras["is_first"].view(4, 2)[0].all()


def warned(run: Any, path: Any) -> bool:
    """Returns whether a save warns that the weights contain a part of an update."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run.save(path)
    return any("in the middle of an update" in str(each.message) for each in told)


@pytest.mark.parametrize(
    ("kind", "options"), [*KINDS, (DQN, {"learning_starts": 8}), (SAC, {"learning_starts": 8})]
)
@pytest.mark.parametrize("backend", ["torch", "auto"])
def test_a_failure_while_collecting_is_no_half_update(
    kind: Any, options: dict[str, Any], backend: str, tmp_path: Any
) -> None:
    given = {"n_envs": 2, "n_steps": 32} if (kind, options) in KINDS else {"batch_size": 8}
    given |= {} if kind is RecurrentPPO else {"backend": backend}
    run = kind(lambda: Counting((90,), ValueError), **given, **options)
    with pytest.raises(EnvError):
        run.train(512)
    assert run.clock.updates
    assert not warned(run, tmp_path / "saved")


@pytest.mark.parametrize("backend", ["torch", "native"])
def test_a_failure_in_an_update_is_a_half_update_until_a_whole_one(backend: str, tmp_path: Any) -> None:
    run = PPO("CartPole-v1", backend=backend, n_epochs=1, batch_size=32, **SMALL)
    run.train(64)
    update, iterate = run.learner.update, getattr(run.learner, "fused_update", None)

    def broken(*given: Any) -> Any:
        if iterate is not None:
            iterate(*given)
        raise NonFiniteError("a fault on purpose")

    name = "update" if iterate is None else "fused_update"
    setattr(run.learner, name, broken)
    with pytest.raises(NonFiniteError):
        run.train(128)
    setattr(run.learner, name, update if iterate is None else iterate)
    assert warned(run, tmp_path / "saved")
    with pytest.raises(NonFiniteError):
        setattr(run.learner, name, broken)
        run.train(128)
    setattr(run.learner, name, update if iterate is None else iterate)
    with pytest.warns(UserWarning, match="in the middle of an update"):
        run.train(256)
    assert not warned(run, tmp_path / "saved")


class Ticks(Callback, LoggerCallback):
    """Counts its calls, and keeps the episodes of each call."""

    def __init__(self) -> None:
        self.rollouts = self.updates = self.logged = 0
        self.episodes: list[Any] = []

    def on_rollout_end(self, **kwargs: Any) -> None:
        self.rollouts += 1

    def on_step(self, **kwargs: Any) -> bool:
        self.updates += 1
        self.episodes += kwargs["episodes"]
        return True

    def on_train_step(self, step: int, metrics: dict[str, Any]) -> None:
        self.logged += 1


@pytest.mark.parametrize("backend", ["torch", "native"])
def test_on_step_is_called_only_for_ticks_with_an_update(backend: str) -> None:
    ticks = Ticks()
    run = DQN(
        "CartPole-v1", learning_starts=600, n_envs=4, train_freq=40, batch_size=8, backend=backend,
        callbacks=[ticks], logger=ticks,
    )  # fmt: skip
    run.train(600)
    assert (run.clock.updates, ticks.updates, ticks.logged) == (0, 0, 0)
    assert ticks.rollouts > 0
    run.train(800)
    assert ticks.updates == ticks.logged == 5
    assert run.clock.updates > 0
    assert len(ticks.episodes) == run.recent.count
    run.close()


def test_early_stopping_waits_for_updates_and_not_for_the_warm_up() -> None:
    stopping = EarlyStoppingCallback(patience=2, min_delta=1e9)
    run = DQN(
        "CartPole-v1", learning_starts=4096, train_freq=64, batch_size=8, callbacks=[stopping],
        backend="torch",
    )  # fmt: skip
    run.train(6000)
    assert run.stop_reason == "callback"
    assert run.clock.updates > 0
    assert 4096 < run.clock.env_steps <= 4096 + 4 * 64
    run.close()


class Modes:
    """An exploration policy that records the mode of the policy's modules when it acts."""

    def __init__(self, inner: Any, policy: nn.Module) -> None:
        self.inner, self.policy, self.seen = inner, policy, []  # type: ignore[var-annotated]

    def random_actions(self, *given: Any) -> Any:
        return self.inner.random_actions(*given)

    def act(self, *given: Any) -> Any:
        self.seen.append({module.training for module in self.policy.modules()})
        return self.inner.act(*given)


@pytest.mark.parametrize(
    ("kind", "env"),
    [(DQN, "CartPole-v1"), (SAC, "CartPole-v1"), (SAC, "Pendulum-v1"), (TD3, "Pendulum-v1")],
)
def test_a_policy_explores_off_policy_in_evaluation_mode_and_learns_in_training_mode(
    kind: Any, env: str
) -> None:
    run = kind(env, learning_starts=8, batch_size=8, backend="torch", net_arch=(8,))
    modes = run.source.exploration = Modes(run.source.exploration, run.policy)
    learned: list[bool] = []
    update = run.learner.update
    run.learner.update = lambda *given: (learned.append(run.policy.training), update(*given))[1]
    run.train(64)
    assert modes.seen and all(seen == {False} for seen in modes.seen)
    assert learned and all(learned)
    run.close()
