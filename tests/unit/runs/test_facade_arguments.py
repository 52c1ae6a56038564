"""Tests that the first attempts of new users work, or that the message says what does."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

from rlox import OfflineDatasetBuffer
from rlox.algorithms import A2C, BC, DQN, PPO
from rlox.callbacks import Callback, LoggerCallback
from rlox.errors import (
    CheckpointError,
    ConfigError,
    NonFiniteError,
    ShapeError,
    UnknownNameError,
)
from rlox.policies import DiscretePolicy
from rlox.runs.record import record
from rlox.trainers import (
    A2CTrainer,
    DDPGTrainer,
    DQNTrainer,
    PPOTrainer,
    RecurrentPPOTrainer,
    SACTrainer,
    TD3Trainer,
)

SMALL: dict[str, Any] = {"n_envs": 1, "n_steps": 8, "batch_size": 8, "net_arch": (4,)}
RECURRENT: dict[str, Any] = {"n_steps": 8, "batch_size": 8, "lstm_hidden_size": 4}


@pytest.mark.parametrize("facade", [PPO, A2C, DQN])
def test_algorithms_accept_the_environment_as_env_or_env_id(facade: Any) -> None:
    for made in (facade("Acrobot-v1"), facade(env_id="Acrobot-v1"), facade(env="Acrobot-v1")):
        assert made.env_id == "Acrobot-v1"
    with pytest.raises(ConfigError, match=r"^env and env_id are two names of the same argument"):
        facade("Acrobot-v1", env="CartPole-v1")


@pytest.mark.parametrize("facade", [PPO, A2C, DQN])
def test_hidden_is_the_width_of_two_layers_as_in_the_original(facade: Any) -> None:
    assert facade("CartPole-v1", hidden=32).config.algo.net_arch == (32, 32)
    assert facade("CartPole-v1", hidden=[32]).config.algo.net_arch == (32,)
    with pytest.raises(ConfigError, match="hidden and net_arch are two names"):
        facade("CartPole-v1", hidden=32, net_arch=(32,))


def test_trainers_and_offline_algorithms_accept_env_or_env_id() -> None:
    assert PPOTrainer(env_id="Acrobot-v1").algo.env_id == "Acrobot-v1"
    assert PPOTrainer(env="Acrobot-v1").algo.env_id == "Acrobot-v1"
    for given in ({}, {"env": "Acrobot-v1", "env_id": "Acrobot-v1"}):
        with pytest.raises(ConfigError, match=r"^PPOTrainer takes one environment, e\.g\."):
            PPOTrainer(**given)
    rows = {
        "obs": np.zeros((9, 4), np.float32), "next_obs": np.zeros((9, 4), np.float32),
        "actions": np.zeros(9, np.int64), "rewards": np.ones(9, np.float32),
        "terminated": np.arange(9) == 8, "truncated": np.zeros(9, bool),
    }  # fmt: skip
    dataset = OfflineDatasetBuffer(*rows.values())
    assert BC(dataset, env="CartPole-v1").env_id == "CartPole-v1"


@pytest.mark.parametrize(
    ("trainer", "env"),
    [(A2CTrainer, "CartPole-v1"), (DQNTrainer, "CartPole-v1"), (SACTrainer, "Pendulum-v1"),
     (TD3Trainer, "Pendulum-v1"), (DDPGTrainer, "Pendulum-v1"),
     (RecurrentPPOTrainer, "CartPole-v1")],
)  # fmt: skip
def test_a_trainer_is_its_algorithm_and_comes_back_from_its_checkpoint(
    trainer: Any, env: str, tmp_path: Path
) -> None:
    replay = {"learning_starts": 8, "batch_size": 8, "buffer_size": 50}
    rollouts = {A2CTrainer: {"n_steps": 8}, RecurrentPPOTrainer: RECURRENT}
    more = rollouts.get(trainer, replay)
    made = trainer(env, {"net_arch": (4,)}, seed=3, n_envs=1, **more)
    assert trainer.__name__ == type(made.algo).__name__ + "Trainer"
    made.train(24)
    made.save(tmp_path / "saved")
    again, obs = trainer.from_checkpoint(tmp_path / "saved"), np.ones((5, 3 + (env[0] == "C")))
    assert again.algo.clock == made.algo.clock
    np.testing.assert_equal(again.predict(obs), made.predict(obs))


def test_the_recurrent_trainer_takes_and_gives_a_state_as_its_algorithm_does() -> None:
    made = RecurrentPPOTrainer("CartPole-v1", n_envs=1, **RECURRENT)
    made.train(16)
    obs = np.ones((3, 4))
    _, first = made.predict(obs)
    starts = [True, False, False]
    action, second = made.predict(obs, first, starts)
    expected = made.algo.predict(obs, first, starts)
    np.testing.assert_equal((action, second), expected)
    np.testing.assert_array_equal(second[0], first[0])  # its state began again
    assert (second[1:] != first[1:]).any(1).all()
    with pytest.raises(TypeError, match="action_masks"):
        made.predict(obs, action_masks=np.ones((3, 2)))  # type: ignore[call-arg]


def test_ppo_refuses_a_policy_name_as_its_environment() -> None:
    with pytest.raises(ConfigError) as refused:
        PPO("MlpPolicy", "CartPole-v1")  # type: ignore[arg-type]
    assert str(refused.value) == (
        "'MlpPolicy' is in the environment's place: give the environment alone, e.g. PPO('CartPole-v1'); "
        "its spaces determine the policy, or pass a module of your own: policy=..."
    )


@pytest.mark.parametrize(
    ("argument", "meant"),
    [
        ({"progress_bar": True}, "progress=True"),
        ({"callback": None}, "callbacks=... where the algorithm is made"),
        ({"log_interval": 4}, "a command-line setting: rlox train log.every=STEPS"),
    ],
)
def test_learn_refuses_foreign_arguments_with_the_remedy(argument: dict[str, Any], meant: str) -> None:
    (name,) = argument
    told = f"unknown argument '{name}' for learn; here that is {meant}"
    for made in (PPO("CartPole-v1", **SMALL), PPOTrainer("CartPole-v1", **SMALL)):
        with pytest.raises(UnknownNameError, match=f"^{re.escape(told)}$"):
            made.learn(24, **argument)
    with pytest.raises(UnknownNameError, match=r"^unknown argument 'hook' for learn$"):
        made.learn(24, hook=True)


def test_the_error_of_a_foreign_attribute_names_rloxs_one() -> None:
    made = PPO("CartPole-v1", **SMALL)
    made.learn(24)
    with pytest.raises(AttributeError, match=r"^PPO has no num_timesteps; here that is clock.env_steps$"):
        print(made.num_timesteps)  # type: ignore[attr-defined]
    assert made.clock.env_steps == 24
    with pytest.raises(AttributeError, match=r"^PPO has no env; here that is env_id, the name"):
        print(made.env)  # type: ignore[attr-defined]
    assert made.env_id == "CartPole-v1"
    with pytest.raises(AttributeError, match=r"^'PPO' object has no attribute 'nonsense'$"):
        print(made.nonsense)  # type: ignore[attr-defined]
    trainer = PPOTrainer("CartPole-v1", **SMALL)
    with pytest.raises(AttributeError, match=r"here that is clock.env_steps \(of .algo\)$"):
        print(trainer.num_timesteps)  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"total_steps=24 must be larger, 48 for 24 more$"):
        made.learn(24)


def test_ppo_accepts_a_single_callback_without_a_list() -> None:
    class Counting(Callback):
        rollouts = 0

        def on_rollout_end(self, **kwargs: Any) -> None:
            self.rollouts += 1

    alone, listed = Counting(), Counting()
    PPO(callbacks=alone, **SMALL).train(24)
    PPO(callbacks=[listed], **SMALL).train(24)
    assert alone.rollouts == listed.rollouts == 3


class HalfCallback:
    def on_step(self, **kwargs: Any) -> bool:
        return True

    def __repr__(self) -> str:
        return "Half()"


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        (
            {"callbacks": [HalfCallback()]},
            "callbacks: a HalfCallback lacks on_training_start, on_rollout_end, on_training_end; derive it "
            "from rlox.callbacks.Callback",
        ),
        ({"callbacks": Callback}, "callbacks=Callback: a class; make one: Callback()"),
        (
            {"logger": HalfCallback()},
            "logger=Half(): expected an object made from a rlox.callbacks.LoggerCallback",
        ),
        (
            {"logger": LoggerCallback},
            "logger=<class 'rlox.callbacks.LoggerCallback'>: expected an object made from a "
            "rlox.callbacks.LoggerCallback",
        ),
    ],
)
def test_ppo_refuses_objects_that_are_no_callback_or_logger(argument: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(told)}$"):
        PPO(**argument, **SMALL)


def test_the_repr_of_an_algorithm_shows_its_environment_seed_engine_and_progress() -> None:
    algorithm = PPO("Acrobot-v1", seed=7, **SMALL)
    algorithm.train(20)
    engine = f"backend={algorithm.backend.name!r}"  # the kind of CPU decides which one
    assert repr(algorithm) == f"PPO('Acrobot-v1', seed=7, {engine}, at 24 of 24 env_steps)"
    assert repr(PPOTrainer(env="CartPole-v1", **SMALL)) == (
        f"PPOTrainer(PPO('CartPole-v1', seed=42, {engine}, at 0 of 100,000 env_steps))"
    )


@pytest.mark.parametrize("attempt", [pickle.dumps, copy.copy, copy.deepcopy])
def test_pickling_and_copying_are_refused_with_what_to_do_instead(attempt: Any) -> None:
    told = (
        "PPO cannot be pickled or copied: it holds environments; save(path) and "
        "PPO.from_checkpoint(path) make a copy of it"
    )
    with pytest.raises(TypeError, match=f"^{re.escape(told)}$"):
        attempt(PPO(**SMALL))


def test_learn_and_load_are_train_and_from_checkpoint(tmp_path: Path) -> None:
    ours, theirs = PPO(**SMALL), PPO(**SMALL)
    assert ours.train(24) == theirs.learn(24)
    theirs.save(tmp_path / "saved")
    again = PPO.load(tmp_path / "saved")
    assert again.clock.env_steps == 24
    torch.testing.assert_close(again.policy.state_dict(), ours.policy.state_dict(), rtol=0, atol=0)
    trainer = PPOTrainer(env="CartPole-v1", **SMALL)
    assert trainer.learn(24) == PPO(**SMALL).train(24)


def test_an_observation_that_is_not_finite_has_no_action() -> None:
    batch = np.array([[0, 0, 0, 0], [0, np.nan, 1, 2]], np.float32)
    with pytest.raises(NonFiniteError, match=r"^the observation is not finite: \[ 0. nan  1.  2.\]$"):
        PPO(**SMALL).predict(batch)


def test_a_policy_for_other_observations_is_refused_before_training() -> None:
    with pytest.raises(ConfigError) as refused:
        PPO("CartPole-v1", policy=DiscretePolicy(obs_dim=3, n_actions=2))
    assert str(refused.value).startswith(
        "policy DiscretePolicy fails on observations of CartPole-v1, [B, 4] float32: "
    )


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ("Pendulum-v1", r"one of 5 choices, the environment takes float \[B, 1\]"),
        ("CartPole-v1", r"one of 5 choices, the environment takes whole numbers \[B\] from 0 to 1"),
    ],
)
def test_a_policy_for_other_actions_is_refused_before_training(env: str, said: str) -> None:
    policy = DiscretePolicy(obs_dim=3 if env == "Pendulum-v1" else 4, n_actions=5)
    torch.nn.init.constant_(policy.actor[-1].bias[4], 100.0)  # always takes the last action
    with pytest.raises(ConfigError, match=f"policy DiscretePolicy fails on .*{said}"):
        PPO(env, policy=policy)


def test_a_policy_in_which_nothing_may_learn_is_refused() -> None:
    policy = DiscretePolicy(obs_dim=4, n_actions=2).requires_grad_(False)
    with pytest.raises(ConfigError, match="no trainable parameter"):
        PPO(policy=policy)


def test_looking_at_a_policy_draws_nothing_and_leaves_it_in_its_mode() -> None:
    policy = DiscretePolicy(obs_dim=4, n_actions=2)
    policy.register_module("noise", nn.Dropout(0.5))
    before = torch.get_rng_state()
    PPO("CartPole-v1", policy=policy)
    assert torch.equal(torch.get_rng_state(), before)
    assert policy.training
    assert policy.noise.training


def test_a_checkpoint_of_other_spaces_says_which_sizes_differ(tmp_path: Path) -> None:
    PPO(**SMALL).save(tmp_path / "saved")
    with pytest.raises(CheckpointError, match=r"on Acrobot-v1: .*\[4, 4\].*\[4, 6\]"):
        PPO.from_checkpoint(tmp_path / "saved", env_id="Acrobot-v1")


def test_progress_is_shown_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    PPO(**SMALL).train(24)
    assert capsys.readouterr().out == ""
    algorithm = PPO(**SMALL)
    algorithm.learn(24, progress=True)
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == f"backend {algorithm.backend.name}: {algorithm.backend.reason}"
    assert re.fullmatch(r"steps 24/24(  return [\d.]+)?  [\d,]+ steps/s  left 0:00", last)


@pytest.mark.parametrize(("written", "right"), [("n_env", "n_envs"), ("sed", "seed")])
def test_an_argument_that_every_facade_has_is_suggested(written: str, right: str) -> None:
    with pytest.raises(ConfigError, match=rf"'{written}' for ppo; did you mean '{right}'"):
        PPO("CartPole-v1", **{written: 2})


def test_an_empty_batch_has_no_actions() -> None:
    assert PPO("CartPole-v1", **SMALL).predict(np.zeros((0, 4))).shape == (0,)
    assert PPO("Pendulum-v1", **SMALL).predict(np.zeros((0, 3))).shape == (0, 1)


class ImageEnv(gym.Env[Any, Any]):
    """Its observations are images."""

    observation_space = gym.spaces.Box(0, 255, (8, 8, 3), np.uint8)
    action_space = gym.spaces.Discrete(2)


@pytest.mark.parametrize("shape", [(8, 8, 3), (2, 8, 8, 3)])
def test_the_error_of_a_float_image_names_the_dtype_and_no_expected_shape(
    shape: tuple[int, ...],
) -> None:
    with pytest.raises(ShapeError, match="an image of float32, expected uint8 from 0 to 255") as of:
        PPO(ImageEnv, **SMALL).predict(np.zeros(shape, np.float32))
    assert "expected (8, 8, 3)" not in str(of.value)


@pytest.fixture(scope="module")
def small_ppo() -> Iterator[PPO]:
    algorithm = PPO(n_envs=1, seed=1, n_steps=8, batch_size=8, n_epochs=1, net_arch=[4])
    yield algorithm
    algorithm.close()


@pytest.mark.parametrize("word", ["no", "", 0, None])
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("deterministic", lambda ppo, word: ppo.predict(np.zeros(4), deterministic=word)),
        ("deterministic", lambda ppo, word: ppo.evaluate(1, deterministic=word)),
        ("deterministic", lambda ppo, word: record(ppo, 1, deterministic=word)),
        ("render", lambda ppo, word: ppo.evaluate(1, render=word)),
        ("progress", lambda ppo, word: ppo.train(8, progress=word)),
        ("progress", lambda ppo, word: ppo.learn(8, progress=word)),
        ("replay", lambda ppo, word: ppo.save("nowhere", replay=word)),
        ("replay", lambda ppo, word: PPO.from_config(ppo.config, replay=word)),
    ],
)
def test_a_bool_argument_takes_only_true_or_false(
    name: str, call: Callable[[PPO, Any], object], word: Any, small_ppo: PPO
) -> None:
    with pytest.raises(ConfigError, match=f"^{name}={word!r}: expected True or False"):
        call(small_ppo, word)
    assert small_ppo.clock.now == 0
