"""SAC: an actor, critics and a temperature on replayed transitions; the update's number seeds the noise."""

from __future__ import annotations

import torch

from rlox.algorithms import SAC

from . import AlgorithmSpec
from .dqn import SMALL
from .ppo import NORMALISED

PRIORITIES = {"prioritized": True, "n_step": 2}


def silent(case: str, *kinds: str) -> dict[str, str]:
    """Return the parts of the state that have no effect on a small off-policy run, with reasons."""
    found = {f"{case}: state/source/learns_from": "the warm-up is over"}
    if case != "discrete":
        found[f"{case}: state/source/buffer/rows/episodes"] = (
            "numbers that are compared with one another: rows of two episodes are never there together"
        )
    if "prioritized" in kinds:
        found[f"{case}: state/source/buffer/rows/tree"] = (
            "bits of priorities, of which the last one is changed"
        )
    return found


def value(policy, obs: torch.Tensor) -> torch.Tensor:
    """Return the lower critic's value of the actor's best choice."""
    values = policy.critic(obs).amin(0)
    return values.gather(-1, policy.mode(obs).unsqueeze(-1)).squeeze(-1)


SPEC = AlgorithmSpec(
    facade=SAC,
    small={
        "env_id": "Pendulum-v1",
        "n_envs": 2,
        "seed": 2,
        "buffer_size": 128,
        "net_arch": (16, 16),
        "anneal_lr": True,
        **SMALL,
    },
    cases={
        "box": {},
        "discrete": {"env_id": "CartPole-v1", "critic_net_arch": (8,)},
        "gsde": {"use_sde": True, "sde_sample_freq": 3, "n_critics": 3},
        "native, normalised": {"backend": "native", **PRIORITIES, **NORMALISED},
        "box normalised": {"target_update_interval": 3, **PRIORITIES, **NORMALISED},
        "one update at a time": {"n_envs": 1, "train_freq": 1, "gradient_steps": 1},
        "fixed temperature, many environments": {
            "n_envs": 5,
            "ent_coef": 0.1,
            "gradient_steps": 1,
            "replay_ratio": 0.4,
        },
    },
    total=400,
    probe={
        "learning_rate": 5e-3,
        "learning_starts": 100,
        "train_freq": 8,
        "gradient_steps": 4,
        "batch_size": 32,
        "buffer_size": 2_000,
        "ent_coef": 0.01,
        "tau": 0.05,
        "net_arch": (16,),
    },
    probe_total=2_000,
    value=value,
    steady={"anneal_lr": False},
    tiny={"net_arch": (4,), "buffer_size": 64},
    leaf_cases={"box normalised": 360, "discrete": 360},
    leaf_more=80,
    without_effect={
        **silent("box normalised", "prioritized"),
        **silent("discrete"),
        "discrete: state/source/env/elapsed": "counts towards the 500-step limit, which is out of reach here",
    },
)
