"""Maps the names of tensors and losses to those of Stable-Baselines3."""

from __future__ import annotations

import re
from collections.abc import Collection

from parity.cases import Case

ACTOR_CRITIC = {
    "mlp_extractor.policy_net": "actor",
    "action_net": "actor.2",
    "mlp_extractor.value_net": "critic",
    "value_net": "critic.2",
    "log_std": "log_std",
}
CRITICS = {f"critic.qf{k}": f"critic.{k}" for k in (0, 1)}
MODULES = {
    "ppo": ACTOR_CRITIC,
    "a2c": ACTOR_CRITIC,
    "dqn": {"q_net.q_net": "q", "q_net_target.q_net": "target.q"},
    "sac": {
        "actor.latent_pi": "actor",
        "actor.mu.0": "actor.mean",  # under gSDE, which clips the mean after this layer
        "actor.mu": "actor.mean",
        "actor.log_std": "actor.log_std",
        **CRITICS,
        **{f"critic_target.qf{k}": f"target.{k}" for k in (0, 1)},
        "log_alpha": "log_alpha",
    },
    "td3": {
        "actor.mu": "actor",
        "actor_target.mu": "target.actor",
        **CRITICS,
        **{f"critic_target.qf{k}": f"target.critic.{k}" for k in (0, 1)},
    },
}
# Each loss: its name in the log after `train/`, and the sign that converts it to rlox's.
PARTS = {"value": ("value_loss", 1), "entropy": ("entropy_loss", -1)}
LOSSES = {
    "ppo": {"policy": ("policy_gradient_loss", 1), **PARTS},
    "a2c": {"policy": ("policy_loss", 1), **PARTS},
    "dqn": {"q": ("loss", 1)},
    "sac": {
        "temperature": ("ent_coef_loss", 1),
        "critic": ("critic_loss", 1),
        "actor": ("actor_loss", 1),
    },
    "td3": {"critic": ("critic_loss", 1), "actor": ("actor_loss", 1)},
}


def ours_of(case: Case, theirs: str) -> str:
    """Return rlox's name of one of SB3's tensors; layer numbers skip the activations."""
    for module, ours in MODULES[case.algo].items():
        rest = theirs.removeprefix(module)
        if rest != theirs and (not rest or rest.startswith(".")):
            return ours + re.sub(r"^\.(\d+)", lambda found: f".{int(found[1]) // 2}", rest)
    raise KeyError(theirs)


def begins_as(ours: str, init: Collection[str]) -> str:
    """Return the initial weight of a tensor; a target starts as its network."""
    online = ours.removeprefix("target.")
    return online if online in init else ours.replace("target.", "critic.")
