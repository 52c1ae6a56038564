"""TQC: soft actor-critic with quantile critics and a truncated target."""

from __future__ import annotations

import torch

from rlox.algorithms import TQC

from . import AlgorithmSpec
from .ppo import NORMALISED
from .sac import PRIORITIES, silent
from .sac import SPEC as SAC


def value(policy, obs: torch.Tensor) -> torch.Tensor:
    """Return the mean of all quantiles for the actor's best action."""
    return policy.value(policy.critic, obs, policy.mode(obs))


QUANTILES = {"n_quantiles": 5, "top_quantiles_to_drop_per_net": 1}

SPEC = AlgorithmSpec(
    facade=TQC,
    small={**SAC.small, **QUANTILES},
    cases={
        "box": {},
        "gsde": {"use_sde": True, "sde_sample_freq": 3, "n_critics": 3},
        "box normalised": {"target_update_interval": 3, **PRIORITIES, **NORMALISED},
    },
    total=400,
    probe={**SAC.probe, **QUANTILES},
    probe_total=2_000,
    value=value,
    choices=False,
    steady={"anneal_lr": False},
    tiny={"net_arch": (4,), "buffer_size": 64},
    leaf_cases={"box normalised": 360},
    leaf_more=80,
    without_effect=silent("box normalised", "prioritized"),
)
