"""Recurrent PPO: minibatches of whole sequences, a state for each environment."""

from __future__ import annotations

import torch
from helpers.factored_actions import env_id

from rlox.algorithms import RecurrentPPO

from . import AlgorithmSpec
from .ppo import NORMALISED

SPEC = AlgorithmSpec(
    facade=RecurrentPPO,
    small={
        "n_envs": 4,
        "seed": 2,
        "n_steps": 20,
        "n_epochs": 2,
        "batch_size": 40,
        "lstm_hidden_size": 6,
        "net_arch": (8,),
        "anneal_lr": True,
    },
    cases={
        "discrete": {"env_id": "CartPole-v1"},
        "discrete normalised": {"env_id": "CartPole-v1", "rnn": "gru", **NORMALISED},
        "box normalised": {
            "env_id": "Pendulum-v1",
            "enable_critic_lstm": False,
            "shared_lstm": True,
            "n_lstm_layers": 2,
            **NORMALISED,
        },
        "critic without a memory": {"env_id": "CartPole-v1", "enable_critic_lstm": False},
        "factored": {"env_id": env_id("Nested")},
    },
    total=400,
    factored=True,
    probe={
        "n_envs": 4,
        "n_steps": 32,
        "learning_rate": 1e-2,
        "n_epochs": 6,
        "batch_size": 64,
        "lstm_hidden_size": 12,
        "net_arch": (16,),
    },
    probe_total=2_500,
    value=lambda policy, obs: policy.get_value(obs, torch.zeros(len(obs), policy.state_size)),
    action=lambda algorithm, obs: algorithm.predict(obs)[0],
    steady={"anneal_lr": False},
    tiny={
        "n_envs": 2,
        "n_steps": 30,
        "n_epochs": 1,
        "batch_size": 30,
        "lstm_hidden_size": 3,
        "net_arch": (4,),
        "n_lstm_layers": 1,
    },
    without_effect={
        "discrete normalised: state/source/env/elapsed": "counts towards the 500-step limit, which "
        "is out of reach here",
    },
)
