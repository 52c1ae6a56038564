"""Policies as the native engine knows them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from rlox._core import OnPolicyEngine, RolloutPolicy
from rlox.optim import FlatParameters
from rlox.policies.base import ActorCritic
from rlox.policies.continuous import ContinuousPolicy, SDEPolicy
from rlox.policies.discrete import DiscretePolicy
from rlox.policies.masking import MaskedDiscretePolicy
from rlox.policies.mlp import EVALUATING, MLPActorCritic
from rlox.policies.plain import Plain, refused
from rlox.types import Minibatch, Rollout

__all__ = ["Acts", "NativePolicy", "unmasked"]

# What actions are to the engine, by the policies that it knows: subclasses may do anything.
KINDS: dict[type[nn.Module], str] = {
    DiscretePolicy: "choices",
    MaskedDiscretePolicy: "choices",
    ContinuousPolicy: "numbers",
    SDEPolicy: "sde",
}


class NativePolicy:
    """A built-in policy of vectors in Rust, over the vector of its parameters.

    Raises ConfigError for any other policy, and for what `Plain` refuses, all of which torch learns from.

    Attributes
    ----------
    engine : learns
    actor : acts in rollouts
    """

    def __init__(self, policy: ActorCritic, flat: FlatParameters) -> None:
        kind = KINDS.get(type(policy))
        if kind is None or not isinstance(policy, MLPActorCritic):
            raise refused(f"a {type(policy).__name__}, not a built-in policy of vectors")
        self._flat = flat
        self._plain = plain = Plain(policy, (policy.actor, policy.critic), EVALUATING, flat)
        actor, critic = plain.linear
        self.engine = OnPolicyEngine(
            plain.named,
            kind=kind,
            size=actor[-1].out_features,
            obs_dim=actor[0].in_features,
            actor=[layer.out_features for layer in actor[:-1]],
            critic=[layer.out_features for layer in critic[:-1]],
            activation=plain.activation,
        )
        frequency = policy.sample_freq if isinstance(policy, SDEPolicy) else 1
        self.actor = RolloutPolicy(self.engine, frequency if frequency > 0 else None)

    @property
    def vector(self) -> NDArray[np.float32]:
        """The parameters, which torch's modules have views of."""
        vector: NDArray[np.float32] = self._flat.vector.numpy()
        return vector

    def check(self) -> None:
        """Raise ConfigError for what an update would pass over."""
        self._plain.check()


# What a collector is given to act.
Acts = nn.Module | NativePolicy


def unmasked(rows: Minibatch | Rollout) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Observations `[rows, obs_dim]` of their own, and the mask of actions behind them, if there is one."""
    mask = rows.extras.get("action_mask")
    if mask is None:
        return rows.obs.numpy(), None
    return rows.obs[:, : -mask.shape[-1]].numpy(), mask.numpy()
