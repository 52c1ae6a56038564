"""Tests of the checks, advice and defaults of recurrent PPO's configuration."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from rlox.algorithms import RecurrentPPO
from rlox.configs import make_run
from rlox.errors import ConfigError, UnknownNameError


def run(n_envs: int = 8, **algo: Any) -> Any:
    tree = {
        "algo": {"name": "recurrent_ppo", **algo},
        "env": {"id": "CartPole-v1", "n_envs": n_envs},
    }
    return make_run(tree)


def test_defaults_are_those_of_the_published_implementation() -> None:
    algo = run().algo
    assert (algo.lstm_hidden_size, algo.n_lstm_layers, algo.rnn) == (256, 1, "lstm")
    assert (algo.shared_lstm, algo.enable_critic_lstm) == (False, True)
    assert (algo.n_steps, algo.batch_size, algo.n_epochs) == (128, 128, 10)
    assert (algo.learning_rate, algo.gamma, algo.gae_lambda) == (3e-4, 0.99, 0.95)
    assert run().algo.advice(run().env) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shared_lstm": True}, "set algo.enable_critic_lstm=false to share"),
        ({"use_sde": True}, "no state-dependent exploration"),
        ({"sde_sample_freq": 4}, "no state-dependent exploration"),
        (
            {"policy": "my_pkg:Net"},
            "algo.policy=my_pkg:Net: recurrent_ppo takes no policy of your own",
        ),
        (
            {"shared_lstm": True, "enable_critic_lstm": False, "share_encoder": False},
            "algo.share_encoder=false: .* the critic uses the actor's recurrent layers",
        ),
        ({"rnn": "elman"}, "lstm, gru"),
        ({"n_lstm_layers": 0}, "n_lstm_layers"),
    ],
)
def test_recurrent_ppo_refuses_unsupported_settings_and_names_the_remedy(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        run(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 64}, "less than one sequence of algo.n_steps=128"),
        ({"batch_size": 2048}, "larger than a rollout"),
        ({"batch_size": 300}, "minibatches have 2 whole sequences, 256 transitions"),
        ({"batch_size": 384}, "3 sequences; env.n_envs=8 is no multiple of 3, so the last"),
    ],
)
def test_advice_reports_minibatches_of_another_size(options: dict[str, Any], message: str) -> None:
    (line,) = run(**options).algo.advice(run().env)
    assert message in line


@pytest.mark.parametrize(
    ("keys", "critic"),
    [
        ({}, "own"),
        ({"enable_critic_lstm": False}, "none"),
        ({"enable_critic_lstm": False, "shared_lstm": True}, "shared"),
    ],
)
def test_lstm_settings_give_the_critic_own_shared_or_no_memory(keys: Any, critic: str) -> None:
    assert run(**keys).algo.critic == critic
    policy = RecurrentPPO(n_envs=1, lstm_hidden_size=4, **keys).policy
    assert (policy.critic_rnn is not None) == (critic == "own")
    assert policy.critic[0].in_features == 4


def test_a_policy_of_ones_own_is_refused_in_python_too() -> None:
    net: Any = torch.nn.Linear(4, 2)
    with pytest.raises((ConfigError, UnknownNameError), match="policy"):
        RecurrentPPO("CartPole-v1", policy=net)
