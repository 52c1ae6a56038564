"""Policies as the native engine knows them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray
from torch import nn

from rlox._core import OnPolicyEngine
from rlox.errors import ConfigError, NonFiniteError
from rlox.networks import hooked
from rlox.networks.mlp import ACTIVATIONS
from rlox.optim import FlatParameters
from rlox.policies.base import ActorCritic
from rlox.policies.continuous import ContinuousPolicy, SDEPolicy
from rlox.policies.discrete import DiscretePolicy
from rlox.policies.masking import MaskedDiscretePolicy
from rlox.policies.mlp import MLPActorCritic
from rlox.types import Minibatch, Rollout

__all__ = ["named", "native_engine", "unmasked"]

# What actions are to the engine, by the policies that it knows: subclasses may do anything.
KINDS: dict[type[nn.Module], str] = {
    DiscretePolicy: "choices",
    MaskedDiscretePolicy: "choices",
    ContinuousPolicy: "numbers",
    SDEPolicy: "sde",
}


def native_engine(policy: ActorCritic, flat: FlatParameters) -> OnPolicyEngine:
    """The engine of a built-in policy of vectors, over the vector of its parameters.

    Raises ConfigError for any other policy, and saying so for one that is not on the CPU, not in float32,
    hooked or in part frozen, all of which torch learns from.
    """
    kind = KINDS.get(type(policy))
    if kind is None or not isinstance(policy, MLPActorCritic):
        raise _refused(f"a {type(policy).__name__}, not a built-in policy of vectors")
    actor, critic = (list(net.children()) for net in (policy.actor, policy.critic))
    if flat.vector.device.type != "cpu" or str(flat.vector.dtype) != "torch.float32":
        raise _refused(f"in {flat.vector.dtype} on {flat.vector.device}, not in float32 on the CPU")
    if any(map(hooked, policy.modules())):
        raise _refused("hooked, and a hook would never be called")
    named = dict(policy.named_parameters())
    if frozen := [name for name, value in named.items() if not value.requires_grad]:
        raise _refused(f"frozen in {', '.join(frozen)}")
    linear = [[m for m in net if isinstance(m, nn.Linear)] for net in (actor, critic)]
    between = [m for net in (actor, critic) for m in net if not isinstance(m, nn.Linear)]
    activations = {name for name, made in ACTIVATIONS.items() for m in between if type(m) is made}
    if len(activations) > 1 or len(between) != sum(len(net) - 1 for net in linear):
        raise _refused("of other layers than those that it was made of")
    return OnPolicyEngine(
        [(name, tuple(value.shape)) for name, value in named.items()],
        kind=kind,
        size=linear[0][-1].out_features,
        obs_dim=linear[0][0].in_features,
        actor=[layer.out_features for layer in linear[0][:-1]],
        critic=[layer.out_features for layer in linear[1][:-1]],
        activation=activations.pop() if activations else "tanh",
    )


def unmasked(rows: Minibatch | Rollout) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Observations `[rows, obs_dim]` of their own, and the mask of actions behind them, if there is one."""
    mask = rows.extras.get("action_mask")
    if mask is None:
        return rows.obs.numpy(), None
    return rows.obs[:, : -mask.shape[-1]].numpy(), mask.numpy()


@contextmanager
def named(where: str) -> Iterator[None]:
    """A number that is none is told with the update in which it was found, and what helps."""
    try:
        yield
    except NonFiniteError as error:
        raise NonFiniteError(
            f"{error}, in the {where}; lower algo.learning_rate or algo.max_grad_norm, or check the "
            "environment's rewards"
        ) from None


def _refused(what: str) -> ConfigError:
    return ConfigError(
        f"algo.backend=native: the policy is {what}; algo.backend=torch learns any policy"
    )
