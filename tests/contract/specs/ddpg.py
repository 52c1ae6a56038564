"""DDPG: TD3 with one critic, no delay and no noise on the target's action."""

from __future__ import annotations

from rlox.algorithms import DDPG

from . import AlgorithmSpec
from .ppo import NORMALISED
from .sac import silent
from .td3 import DETERMINISTIC, PROBE, value

SPEC = AlgorithmSpec(
    facade=DDPG,
    small=DETERMINISTIC,
    cases={"box": {}, "box normalised": {"max_grad_norm": 1.0, **NORMALISED}},
    total=400,
    probe=PROBE,
    probe_total=2_000,
    value=value,
    choices=False,
    steady={"anneal_lr": False},
    tiny={"net_arch": (4,), "buffer_size": 64},
    leaf_cases={"box normalised": 360},
    leaf_more=80,
    without_effect={
        **silent("box normalised"),
        "box normalised: optimizer/actor_loss": "reported where the actor does not learn: here it "
        "learns at every update",
    },
)
