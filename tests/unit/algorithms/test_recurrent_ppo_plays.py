"""Tests `predict` of recurrent policies: the caller passes states, and each episode keeps its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rlox.algorithms import RecurrentPPO
from rlox.errors import ConfigError, NonFiniteError, ShapeError
from rlox.runs.record import record
from rlox.types import Clock

SMALL = {"n_envs": 3, "seed": 3, "n_steps": 30, "lstm_hidden_size": 8, "net_arch": (8,)}


def made(env_id: Any = "CartPole-v1", **options: Any) -> RecurrentPPO:
    algorithm = RecurrentPPO(env_id, **{**SMALL, **options})
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in algorithm.policy.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.6)
    return algorithm


OBS = np.random.default_rng(0).normal(size=(5, 3, 4)).astype(np.float32)  # five steps of three environments


def test_stepwise_predictions_match_the_collectors_action_distribution() -> None:
    algorithm = made()
    policy, state = algorithm.policy, None
    for _ in range(2):
        rollout = algorithm.source.next(Clock())[0]
        assert rollout.extras["is_first"].sum() > 1
        steps = rollout.obs.view(30, 3, 4).numpy(), rollout.extras["is_first"].view(30, 3).numpy()
        for t, (obs, first) in enumerate(zip(*steps, strict=True)):
            _, state = algorithm.predict(obs, state, first)
            logits = policy.actor(torch.from_numpy(state[:, :8]))  # the hidden part of the LSTM's state
            chosen = rollout.actions.view(30, 3)[t]
            log_prob = torch.log_softmax(logits, -1).gather(1, chosen[:, None]).squeeze(1)
            torch.testing.assert_close(log_prob, rollout.log_probs.view(30, 3)[t], atol=1e-5, rtol=0)


def test_a_prediction_gives_the_best_action_and_the_next_state() -> None:
    algorithm = made()
    actions, state = algorithm.predict(OBS[0])
    assert (actions.shape, state.shape, state.dtype) == ((3,), (3, 16), np.float32)
    outputs, after = algorithm.policy.act(torch.from_numpy(OBS[0]), torch.zeros(3, 16))
    assert actions.tolist() == outputs.argmax(-1).tolist()
    np.testing.assert_allclose(state, after.detach(), atol=1e-6)
    action, single = algorithm.predict(OBS[0, 0])
    assert (type(action), single.shape) == (int, (1, 16))
    np.testing.assert_allclose(single[0], state[0], atol=1e-6)


def test_the_recurrent_state_changes_the_predicted_action() -> None:
    algorithm = made("Pendulum-v1")
    obs = OBS[:, :, :3]
    _, state = algorithm.predict(obs[0])
    anew, _ = algorithm.predict(obs[1])
    going_on, _ = algorithm.predict(obs[1], state)
    assert not np.allclose(anew, going_on, atol=1e-3)


def test_episode_start_forgets_the_state_of_those_that_begin() -> None:
    algorithm = made()
    _, state = algorithm.predict(OBS[0])
    kept = state.copy()
    _, after = algorithm.predict(OBS[1], state, episode_start=[True, False, True])
    _, anew = algorithm.predict(OBS[1])
    _, on = algorithm.predict(OBS[1], state)
    np.testing.assert_array_equal(after[[0, 2]], anew[[0, 2]])
    np.testing.assert_array_equal(after[1], on[1])
    assert not np.allclose(on, anew, atol=1e-3)
    np.testing.assert_array_equal(state, kept)
    np.testing.assert_array_equal(algorithm.predict(OBS[1], state, True)[1], anew)
    np.testing.assert_array_equal(algorithm.predict(OBS[1], None, [False] * 3)[1], anew)


def test_sampled_actions_follow_the_state_and_are_drawn_anew() -> None:
    algorithm = made("Pendulum-v1")
    draws = [algorithm.predict(OBS[0, 0, :3], deterministic=False) for _ in range(3)]
    assert len({float(action[0]) for action, _ in draws}) == 3
    assert np.array_equal(draws[0][1], draws[1][1])
    again = made("Pendulum-v1").predict(OBS[0, 0, :3], deterministic=False)
    assert np.array_equal(again[0], draws[0][0])


@pytest.mark.parametrize(
    ("state", "start", "message"),
    [
        (np.zeros((2, 16)), None, r"state has shape \(2, 16\), expected \(3, 16\)"),
        (np.zeros((3, 16)), [True], r"episode_start has shape \(1,\), expected a bool or \(3,\)"),
        (None, [True], r"episode_start has shape \(1,\), expected a bool or \(3,\)"),
    ],
)
def test_a_state_of_another_shape_is_refused(state: Any, start: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        made().predict(OBS[0], state, start)


@pytest.mark.parametrize("start", ["yes", [0.5, 1, 0], [np.nan, 1, 0], [2, 0, 0], ["a", "b", "c"]])
def test_predict_refuses_an_episode_start_that_is_not_boolean(start: Any) -> None:
    with pytest.raises(ConfigError, match=r"episode_start=.*: expected True or False"):
        made().predict(OBS[0], np.zeros((3, 16)), start)


def test_a_state_that_is_not_finite_is_refused() -> None:
    with pytest.raises(NonFiniteError, match="the state is not finite"):
        made().predict(OBS[0], np.full((3, 16), np.nan))


def test_a_masked_state_or_start_is_refused() -> None:
    mask = np.eye(3, 16, dtype=bool)
    with pytest.raises(ShapeError, match="some of the state is masked"):
        made().predict(OBS[0], np.ma.masked_array(np.zeros((3, 16)), mask))
    with pytest.raises(ShapeError, match="some of episode_start is masked"):
        made().predict(OBS[0], None, np.ma.masked_array([False] * 3, mask[0, :3]))


def played(algorithm: RecurrentPPO, seed: int) -> float:
    """Play one episode with `predict` in a new environment."""
    env, total, state = gym.make(algorithm.env_id), 0.0, None
    obs, _ = env.reset(seed=seed)
    while True:
        action, state = algorithm.predict(obs, state)
        obs, reward, terminated, truncated, _ = env.step(action)
        total += float(reward)
        if terminated or truncated:
            return total


def test_episodes_that_are_evaluated_side_by_side_keep_their_own_states(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three environments play seven episodes of different lengths, so some begin where others ended."""
    monkeypatch.setattr("rlox.training.evaluate.MAX_PARALLEL_GYMNASIUM", 3)
    algorithm = made()
    together = algorithm.evaluate(7, seed=50)
    assert len(set(together.lengths)) > 2
    assert together.returns == tuple(played(algorithm, 50 + i) for i in range(7))


def test_recorded_episodes_are_those_that_are_played() -> None:
    algorithm = made()
    dataset = record(algorithm, 2, seed=9)
    assert dataset.about["returns"] == [played(algorithm, 9), played(algorithm, 10)]


def test_a_loaded_policy_predicts_and_evaluates_as_the_saved_one(tmp_path: Path) -> None:
    algorithm = made(normalize_obs=True, rnn="gru")
    algorithm.train(90)
    algorithm.save(tmp_path / "saved")
    loaded = RecurrentPPO.from_checkpoint(tmp_path / "saved")
    state = other = None
    for obs in OBS:
        _, state = algorithm.predict(obs, state)
        _, other = loaded.predict(obs, other)
        assert np.array_equal(state, other)
    assert loaded.evaluate(3) == algorithm.evaluate(3)
