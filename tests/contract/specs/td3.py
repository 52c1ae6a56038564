"""TD3: a deterministic actor that learns every second update, with target networks and noise for both."""

from __future__ import annotations

import torch

from rlox.algorithms import TD3
from rlox.networks import q_values

from . import AlgorithmSpec
from .dqn import SMALL
from .ppo import NORMALISED
from .sac import PRIORITIES, silent

DETERMINISTIC = {
    "env_id": "Pendulum-v1",
    "n_envs": 2,
    "seed": 2,
    "buffer_size": 128,
    "net_arch": (16, 16),
    "anneal_lr": True,
    **SMALL,
}
PROBE = {
    "learning_rate": 5e-3,
    "learning_starts": 100,
    "train_freq": 8,
    "gradient_steps": 4,
    "batch_size": 32,
    "buffer_size": 2_000,
    "tau": 0.05,
    "net_arch": (16,),
}


def value(policy, obs: torch.Tensor) -> torch.Tensor:
    """Return the lower critic's value of the actor's action."""
    return q_values(policy.critic, obs, policy.mode(obs)).amin(0)


SPEC = AlgorithmSpec(
    facade=TD3,
    small=DETERMINISTIC,
    cases={
        "box": {},
        "native, normalised": {"backend": "native", **PRIORITIES, **NORMALISED},
        "box normalised": {"critic_net_arch": (8,), **PRIORITIES, **NORMALISED},
        "one update at a time": {"n_envs": 1, "train_freq": 1, "gradient_steps": 1},
        "many environments, one critic": {
            "n_envs": 5,
            "n_critics": 1,
            "gradient_steps": 1,
            "replay_ratio": 0.4,
        },
    },
    total=400,
    probe=PROBE,
    probe_total=2_000,
    value=value,
    choices=False,
    steady={"anneal_lr": False},
    tiny={"net_arch": (4,), "buffer_size": 64},
    leaf_cases={"box normalised": 360},
    leaf_more=80,
    without_effect=silent("box normalised", "prioritized"),
)
