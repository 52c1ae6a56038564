"""Tests of the façade: predict, arguments, seeds, callbacks and policies of users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from helpers.envs import Countdown, MixedBounds, OddRewards, RandomSpacesEnv
from helpers.policies import UserMlp
from torch import Tensor, nn

from rlox.algorithms import A2C, PPO
from rlox.callbacks import (
    Callback,
    CheckpointCallback,
    EarlyStoppingCallback,
    EvalCallback,
    LoggerCallback,
)
from rlox.collectors import RolloutCollector
from rlox.errors import (
    ConfigError,
    NonFiniteError,
    ShapeError,
    UnknownNameError,
)
from rlox.policies import ContinuousPolicy
from rlox.policies.base import evaluation_mode
from rlox.trainers import PPOTrainer
from rlox.training.evaluate import Evaluation

SMALL: dict[str, Any] = {"n_envs": 2, "n_steps": 16, "batch_size": 16, "n_epochs": 2}


def weights(algorithm: PPO) -> Tensor:
    return torch.cat([p.detach().flatten().clone() for p in algorithm.policy.parameters()])


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (float("nan"), "total_timesteps=nan: expected an integer"),
        (float("inf"), "total_timesteps=inf: expected an integer"),
        ("a", "total_timesteps='a': expected an integer"),
        ("1000", "total_timesteps='1000': expected an integer"),
        (None, "total_timesteps=None: expected an integer"),
        (1100.5, r"total_timesteps=1100\.5: expected an integer"),
        (0, r"total_timesteps=0: expected a value in \[1, inf\)"),
    ],
)
def test_a_total_that_is_no_whole_number_is_refused(asked: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        A2C("CartPole-v1", n_envs=2).train(asked)


@pytest.mark.parametrize("asked", [40, 4e1, np.int64(40), np.float32(40)])
def test_a_whole_number_of_steps_may_be_of_any_type(asked: Any) -> None:
    assert A2C("CartPole-v1", n_envs=2).train(asked)["env_steps"] == 40


def test_predict_gives_an_int_for_one_discrete_observation_and_an_array_for_a_batch() -> None:
    algorithm = PPO("CartPole-v1", **SMALL)
    one = algorithm.predict([0.1, 0.2, 0.3, 0.4])
    assert type(one) is int
    batch = algorithm.predict(np.array([[0.1, 0.2, 0.3, 0.4]] * 3))
    assert isinstance(batch, np.ndarray)
    assert batch.tolist() == [one] * 3


def test_predict_gives_an_array_of_the_spaces_shape_and_bounds_for_box() -> None:
    algorithm = PPO("Pendulum-v1", log_std_init=2.0, **SMALL)
    obs = np.array([1.0, 0.0, 0.0], np.float32)
    one = algorithm.predict(obs)
    assert isinstance(one, np.ndarray)
    assert (one.shape, one.dtype) == ((1,), np.float32)
    drawn = np.array([algorithm.predict(obs, deterministic=False) for _ in range(50)])
    assert np.abs(drawn).max() == 2.0
    assert algorithm.predict(torch.tensor([[1.0, 0, 0]] * 4)).shape == (4, 1)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
def test_predict_is_deterministic_by_default(env_id: str) -> None:
    algorithm = PPO(env_id, **SMALL)
    obs = np.zeros(algorithm.collector.env.observations.dim, np.float32)
    same = {float(np.squeeze(algorithm.predict(obs))) for _ in range(20)}
    drawn = {float(np.squeeze(algorithm.predict(obs, deterministic=False))) for _ in range(40)}
    assert len(same) == 1
    assert len(drawn) > 1


def test_predict_uses_the_spaces_own_choices() -> None:
    space = spaces.Discrete(3, start=7)
    algorithm = PPO(lambda: RandomSpacesEnv(spaces.Discrete(4, start=2), space), **SMALL)
    algorithm.train(64)
    assert all(algorithm.predict(k) in space for k in (2, 3, 4, 5))
    batch = algorithm.predict(np.array([2, 5]))
    assert isinstance(batch, np.ndarray)
    assert batch.min() >= 7


@pytest.mark.parametrize("obs", [[0.0] * 3, [[0.0] * 3] * 2, 0.0, None, "text"])
def test_an_observation_of_another_shape_is_an_error_naming_both(obs: Any) -> None:
    with pytest.raises(ShapeError, match=r"expected \(4,\) or a batch"):
        PPO("CartPole-v1", **SMALL).predict(obs)


@pytest.mark.parametrize("name", ["clip_range", "normalize_rewards", "lr", "n_step", "total_steps", "kwarg"])
def test_an_unknown_argument_is_an_error(name: str) -> None:
    with pytest.raises(UnknownNameError, match=f"unknown argument '{name}'"):
        PPO("CartPole-v1", **{name: 1})


def test_an_unknown_argument_names_the_nearest_right_one() -> None:
    with pytest.raises(ConfigError, match="did you mean 'learning_rate'"):
        PPO("CartPole-v1", learning_rat=1e-3)


@pytest.mark.parametrize(
    ("argument", "value"),
    [("gamma", 1.1), ("learning_rate", -1.0), ("n_steps", 0), ("n_steps", 1.5), ("clip_eps", 0.0),
     ("activation", "sin"), ("anneal_lr", 1), ("net_arch", 64), ("net_arch", []),
     ("target_kl", 0.0), ("learning_rate", float("nan")), ("sde_sample_freq", 0)],
)  # fmt: skip
def test_a_value_out_of_range_or_of_another_type_is_an_error_naming_its_key(
    argument: str, value: Any
) -> None:
    with pytest.raises(ConfigError, match=f"algo.{argument}"):
        PPO("CartPole-v1", **{argument: value})


def test_integral_floats_are_integers() -> None:
    assert PPO("CartPole-v1", n_steps=32.0).config.algo.n_steps == 32


def test_the_engine_of_the_environment_can_be_chosen_from_the_facade() -> None:
    algorithm = PPO("CartPole-v1", env_backend="gymnasium", **SMALL)
    assert algorithm.config.env.backend == "gymnasium"
    assert PPO("CartPole-v1", backend="torch", **SMALL).config.algo.backend == "torch"


def test_gsde_with_discrete_actions_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"use_sde=true needs Box.*; leave algo\.use_sde out"):
        PPO("CartPole-v1", use_sde=True)


def test_the_stored_action_is_the_policys_and_the_environments_is_clipped() -> None:
    env = MixedBounds()
    collector = RolloutCollector(lambda: env, n_envs=1, seed=1)
    policy = ContinuousPolicy(2, 2, log_std_init=1.5)
    rollout = collector.collect(policy, 200)
    given, stored = np.stack(env.actions_received), rollout.actions.numpy()
    assert np.abs(stored[:, 0]).max() > 3.0
    assert np.abs(given[:, 0]).max() == np.float32(0.1)
    assert np.array_equal(given[:, 0], np.clip(stored[:, 0], np.float32(-0.1), np.float32(0.1)))
    assert np.array_equal(given[:, 1], stored[:, 1])
    with torch.no_grad():
        log_prob, _ = policy.get_logprob_and_entropy(rollout.obs, rollout.actions)
    assert torch.allclose(log_prob, rollout.log_probs, atol=1e-5)


def test_rollouts_have_the_documented_flat_shapes_and_identities() -> None:
    collector = RolloutCollector("CartPole-v1", n_envs=8, seed=0, gamma=0.99)
    policy = PPO("CartPole-v1", **SMALL).policy
    batch = collector.collect(policy, 128)
    assert batch.obs.shape == (1024, 4)
    assert batch.actions.shape == (1024,)
    for name in ("log_probs", "values", "rewards", "advantages", "returns", "dones"):
        assert getattr(batch, name).shape == (1024,), name
    assert torch.equal(batch.dones, batch.terminated | batch.truncated)
    assert torch.allclose(batch.returns, batch.advantages + batch.values, atol=1e-4)
    assert (len(batch), batch.n_envs, collector.progress.env_steps) == (1024, 8, 1024)


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 1e39])
def test_a_reward_that_is_not_finite_stops_collection_naming_step_and_environment(
    bad: float,
) -> None:
    class Bad(Countdown):
        def step(self, action: Any) -> Any:
            obs, reward, *rest = super().step(action)
            return obs, bad if len(self.actions_taken) == 4 else reward, *rest

    as_stored = np.float32(bad)
    came = "" if np.isnan(bad) else r" \(inf: infinity, or a number beyond float32, 3\.4e38\)"
    told = rf"rewards: {as_stored} at step 3 .* environment 0 .*; expected finite numbers{came}$"
    with pytest.raises(NonFiniteError, match=told):
        PPO(Bad, **SMALL).train(32)


def test_a_users_policy_neither_reads_nor_moves_the_global_generators() -> None:
    results = []
    for seed in (1, 2):
        torch.manual_seed(0)
        module = UserMlp(4, 2)
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002
        before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
        algorithm = PPO("CartPole-v1", seed=5, policy=module, **SMALL)
        algorithm.train(128)
        algorithm.evaluate(2)
        algorithm.predict(np.zeros(4))
        assert torch.equal(torch.get_rng_state(), before[0])
        assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002
        results.append(weights(algorithm))
    assert torch.equal(*results)


def test_the_trainer_and_the_facade_write_the_same_weights() -> None:
    facade = PPO("CartPole-v1", n_envs=4, seed=9, n_steps=32, anneal_lr=True)
    facade.train(512)
    trainer = PPOTrainer("CartPole-v1", {"n_steps": 32}, seed=9, n_envs=4, anneal_lr=True)
    trainer.train(512)
    assert torch.equal(weights(facade), weights(trainer.algo))


def test_total_timesteps_count_all_environments_and_round_up_to_whole_rollouts() -> None:
    metrics = PPO("CartPole-v1", **SMALL).train(33)
    assert (metrics["env_steps"], metrics["updates"]) == (64, 2)


def test_training_to_a_total_already_reached_is_an_error_and_a_larger_one_goes_on() -> None:
    algorithm = PPO("CartPole-v1", **SMALL)
    algorithm.train(64)
    with pytest.raises(ConfigError, match="at 64 steps already"):
        algorithm.train(32)
    assert (algorithm.config.total_steps, algorithm.clock.horizon) == (64, 64)
    assert algorithm.train(65)["env_steps"] == 96


def test_mean_reward_is_nan_before_the_first_episode_ends() -> None:
    metrics = PPO("Pendulum-v1", **SMALL).train(32)
    assert np.isnan(metrics["mean_reward"])
    assert {type(value) for value in metrics.values()} == {float}


def test_a_users_policy_trains_predicts_and_evaluates() -> None:
    torch.manual_seed(0)
    module = UserMlp(4, 2)
    before = module.actor[0].weight.detach().clone()
    algorithm = PPO("CartPole-v1", policy=module, n_envs=8, n_steps=64, learning_rate=3e-3)
    score = algorithm.train(16_000)["mean_reward"]
    assert not torch.equal(before, module.actor[0].weight)
    assert score > 60
    assert type(algorithm.predict(np.zeros(4))) is int
    assert len(algorithm.evaluate(2).returns) == 2


def test_a_checkpoint_with_a_users_policy_resumes_with_that_policy(tmp_path: Path) -> None:
    algorithm = PPO("CartPole-v1", policy=UserMlp(4, 2), **SMALL)
    algorithm.train(64)
    algorithm.save(tmp_path / "saved")
    with pytest.raises(ConfigError) as raised:
        PPO.from_checkpoint(tmp_path / "saved")
    assert str(raised.value) == (
        "algo.policy=<UserMlp>: an object, which is not saved; give it again: "
        "from_checkpoint(path, policy=...)"
    )
    loaded = PPO.from_checkpoint(tmp_path / "saved", policy=UserMlp(4, 2))
    for one in (algorithm, loaded):
        one.train(192)
    assert torch.equal(weights(algorithm), weights(loaded))


class DropoutPolicy(UserMlp):
    """A policy with dropout. One layer of its critic stays in evaluation mode."""

    def __init__(self) -> None:
        super().__init__(4, 2)
        self.actor = nn.Sequential(nn.Linear(4, 32), nn.Dropout(0.5), nn.Linear(32, 2))
        self.critic[1] = nn.Dropout(0.9).eval()


def test_dropout_is_off_while_a_policy_acts_and_on_while_it_learns() -> None:
    torch.manual_seed(0)
    module = DropoutPolicy()
    algorithm = PPO("CartPole-v1", policy=module, **SMALL)
    # Observations whose two actions are nearly alike.
    obs = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)
    assert np.array_equal(algorithm.predict(obs), algorithm.predict(obs))
    rollout = algorithm.collector.collect(algorithm.policy, 16)
    with evaluation_mode(module):
        scored = algorithm.policy.evaluate_actions(rollout.obs, rollout.actions)[0]
    assert torch.equal(rollout.log_probs, scored)
    assert algorithm.evaluate(3).returns == algorithm.evaluate(3).returns
    learning = algorithm.policy.evaluate_actions(rollout.obs, rollout.actions)[0]
    assert not torch.equal(learning, scored)
    assert module.actor[1].training
    assert not module.critic[1].training


def test_training_goes_on_from_a_checkpoint_with_a_logger_and_callbacks(tmp_path: Path) -> None:
    PPO("CartPole-v1", **SMALL).save(tmp_path / "saved")
    seen = Recorder()
    loaded = PPO.from_checkpoint(tmp_path / "saved", logger=seen, callbacks=[seen])
    loaded.train(64)
    assert [call for call in seen.calls if call[0] == "rollout"] == [
        ("rollout", 32),
        ("rollout", 64),
    ]


def test_training_keeps_torchs_number_of_threads() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        PPO("CartPole-v1", **SMALL).train(64)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


class Recorder(Callback, LoggerCallback):
    def __init__(self, stop_at: int = 10**9) -> None:
        self.calls: list[tuple[str, int]] = []
        self.stop_at = stop_at

    def on_training_start(self, **kwargs: Any) -> None:
        self.calls.append(("start", kwargs["total_timesteps"]))

    def on_rollout_end(self, **kwargs: Any) -> None:
        self.calls.append(("rollout", kwargs["step"]))

    def on_step(self, **kwargs: Any) -> bool:
        self.calls.append(("step", kwargs["step"]))
        assert {"mean_reward", "loss/policy"} <= set(kwargs["metrics"])
        return kwargs["step"] < self.stop_at

    def on_training_end(self, **kwargs: Any) -> None:
        self.calls.append(("end", kwargs["step"]))

    def on_train_step(self, step: int, metrics: dict[str, Any]) -> None:
        self.calls.append(("log", step))


def test_callbacks_see_every_update_and_may_stop_training() -> None:
    recorder = Recorder(stop_at=64)
    algorithm = PPO("CartPole-v1", callbacks=[recorder], **SMALL)
    algorithm.train(320)
    assert recorder.calls == [
        ("start", 320), ("rollout", 32), ("step", 32), ("rollout", 64), ("step", 64), ("end", 64),
    ]  # fmt: skip
    assert algorithm.stop_reason == "callback"


def test_a_stopped_run_goes_on_when_trained_again() -> None:
    recorder = Recorder(stop_at=64)
    algorithm = PPO("CartPole-v1", callbacks=[recorder], **SMALL)
    algorithm.train(320)
    recorder.stop_at = 10**9
    assert algorithm.train(320)["env_steps"] == 320


def test_the_logger_receives_each_updates_metrics() -> None:
    logger = Recorder()
    PPO("CartPole-v1", logger=logger, **SMALL).train(96)
    assert logger.calls == [("log", 32), ("log", 64), ("log", 96)]


def test_a_failed_training_calls_on_training_end_too() -> None:
    class Fails(Recorder):
        def on_step(self, **kwargs: Any) -> bool:
            raise RuntimeError("mine")

    recorder = Fails()
    with pytest.raises(RuntimeError, match="mine"):
        PPO("CartPole-v1", callbacks=[recorder], **SMALL).train(96)
    assert recorder.calls[-1] == ("end", 32)


def test_early_stopping_waits_for_its_patience_and_ignores_the_time_before_an_episode() -> None:
    stopping = EarlyStoppingCallback(patience=2, min_delta=1.0)
    nan = float("nan")
    told = [stopping.on_step(metrics={"mean_reward": r}) for r in (nan, nan, nan, 1, 3, 3.5, 4.5, 5)]
    assert told == [True, True, True, True, True, True, True, True]
    assert stopping.on_step(metrics={"mean_reward": 5.5}) is False


def test_early_stopping_ignores_infinite_rewards() -> None:
    stopping = EarlyStoppingCallback(patience=3)
    told = [stopping.on_step(metrics={"mean_reward": r}) for r in (1, float("inf"), 2, 3, 2, 2, 2)]
    assert told == [True, True, True, True, True, True, False]  # three updates without a gain above 3
    assert stopping.best == 3
    stopping.restore({"best": float("inf"), "waited": 1})  # earlier versions saved this
    assert stopping.on_step(metrics={"mean_reward": 1.0}) is True
    assert (stopping.best, stopping.updates_without_gain) == (1.0, 0)


def test_early_stopping_ends_a_run() -> None:
    stopping = EarlyStoppingCallback(patience=3, min_delta=1e9)
    algorithm = PPO(OddRewards, callbacks=[stopping], **SMALL)
    assert algorithm.train(3200)["env_steps"] < 320


def test_the_eval_callback_evaluates_once_for_every_multiple_and_keeps_the_best(
    tmp_path: Path,
) -> None:
    callback = EvalCallback(eval_freq=100, n_eval_episodes=2, best_model_path=tmp_path / "best")
    PPO("CartPole-v1", callbacks=[callback], **SMALL).train(320)
    assert [step for step, _ in callback.eval_results] == [128, 224, 320]
    assert callback.best_reward == max(mean for _, mean in callback.eval_results)
    best = PPO.from_checkpoint(tmp_path / "best")
    assert best.evaluate(2).mean == callback.best_reward


class ScriptedAlgorithm:
    """Stands in for an algorithm in the eval callback; its evaluations give the scores in turn."""

    def __init__(self, *scores: float) -> None:
        self.scores, self.n_saves = list(scores), 0

    def evaluate(self, episodes: int) -> Any:
        return Evaluation((self.scores.pop(0),) * episodes, (1,) * episodes, 0)

    def save(self, path: Any) -> None:
        self.n_saves += 1


def test_the_eval_callback_keeps_only_finite_scores_as_the_best() -> None:
    nan, inf = float("nan"), float("inf")
    callback = EvalCallback(eval_freq=1, n_eval_episodes=2, best_model_path="best")
    scripted, saves = ScriptedAlgorithm(-inf, 5, nan, inf, 6, 4, 7), []
    for step in range(1, 8):
        callback.on_step(step=step, algo=scripted)
        saves.append(scripted.n_saves)
    assert saves == [0, 1, 1, 1, 2, 2, 3]
    assert callback.best_reward == 7
    old = {"results": [[1, 5.0], [2, inf], [3, nan]], "best": inf, "evaluated": 3}
    callback.restore(old)  # earlier versions saved this
    assert callback.best_reward == 5


def test_the_checkpoint_callback_saves_once_for_every_multiple(tmp_path: Path) -> None:
    callback = CheckpointCallback(100, tmp_path / "deep" / "er")
    PPO("CartPole-v1", callbacks=[callback], **SMALL).train(256)
    names = sorted(p.name for p in (tmp_path / "deep" / "er").iterdir())
    assert names == ["step-000000000128", "step-000000000224"]


def test_an_environment_instance_and_a_factory_train_like_the_id() -> None:
    sources: list[Any] = [
        gym.make("Acrobot-v1"), lambda: gym.make("Acrobot-v1"), "Acrobot-v1",
    ]  # fmt: skip
    results = []
    for source in sources:
        algorithm = PPO(source, seed=3, env_backend="gymnasium", **SMALL)
        algorithm.train(96)
        results.append(weights(algorithm))
    assert torch.equal(results[0], results[2])
    assert torch.equal(results[1], results[2])


def test_a_device_that_is_not_there_is_a_config_error() -> None:
    with pytest.raises(ConfigError, match="device=cuda:99"):
        PPO("CartPole-v1", device="cuda:99")
    with pytest.raises(ConfigError, match="device=warp"):
        PPO("CartPole-v1", device="warp")
