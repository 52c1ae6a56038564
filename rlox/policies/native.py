"""Policies as the native engine knows them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from rlox._core import OnPolicyEngine, RolloutPolicy
from rlox.errors import ConfigError, NonFiniteError
from rlox.networks.mlp import ACTIVATIONS
from rlox.optim import FlatParameters, Optimizer
from rlox.policies.base import ActorCritic
from rlox.policies.continuous import ContinuousPolicy, SDEPolicy
from rlox.policies.discrete import DiscretePolicy
from rlox.policies.masking import MaskedDiscretePolicy
from rlox.policies.mlp import EVALUATING, MLPActorCritic
from rlox.types import Minibatch, Rollout

__all__ = ["Acts", "NativePolicy", "counted", "told_where", "unmasked"]

# What actions are to the engine, by the policies that it knows: subclasses may do anything.
KINDS: dict[type[nn.Module], str] = {
    DiscretePolicy: "choices",
    MaskedDiscretePolicy: "choices",
    ContinuousPolicy: "numbers",
    SDEPolicy: "sde",
}


class NativePolicy:
    """A built-in policy of vectors in Rust, over the vector of its parameters.

    Raises ConfigError for any other policy, and saying so for one that is not on the CPU, not in float32,
    hooked or in part frozen, all of which torch learns from.

    Attributes
    ----------
    engine : learns
    actor : acts in rollouts
    """

    def __init__(self, policy: ActorCritic, flat: FlatParameters) -> None:
        self.engine, self._plain = _engine(policy, flat)
        frequency = policy.sample_freq if isinstance(policy, SDEPolicy) else 1
        self.actor = RolloutPolicy(self.engine, frequency if frequency > 0 else None)
        self._flat = flat

    @property
    def vector(self) -> NDArray[np.float32]:
        """The parameters, which torch's modules have views of."""
        vector: NDArray[np.float32] = self._flat.vector.numpy()
        return vector

    def check(self) -> None:
        """Raise ConfigError for what an update would pass over; it costs some microseconds."""
        self._plain.check()


# What a collector is given to act.
Acts = nn.Module | NativePolicy


def _engine(policy: ActorCritic, flat: FlatParameters) -> tuple[OnPolicyEngine, Plain]:
    kind = KINDS.get(type(policy))
    if kind is None or not isinstance(policy, MLPActorCritic):
        raise _refused(f"a {type(policy).__name__}, not a built-in policy of vectors")
    if flat.vector.device.type != "cpu" or str(flat.vector.dtype) != "torch.float32":
        raise _refused(f"in {flat.vector.dtype} on {flat.vector.device}, not in float32 on the CPU")
    plain = Plain(policy)
    plain.check()
    nets = [list(net.children()) for net in (policy.actor, policy.critic)]
    linear = [[layer for layer in net[::2] if type(layer) is nn.Linear] for net in nets]
    between = [_name(layer) for net in nets for layer in net[1::2]]
    whole = all(len(layers) == len(net[::2]) for layers, net in zip(linear, nets, strict=True))
    biased = all(layer.bias is not None for layers in linear for layer in layers)
    if not (whole and biased) or None in between or len(set(between)) > 1:
        raise _refused("of other layers than those that it was made of")
    parameters = {name: tuple(value.shape) for name, value in policy.named_parameters()}
    if len(parameters) != 2 * sum(map(len, linear)) + ("log_std" in parameters):
        raise _refused("one whose networks share parameters")
    engine = OnPolicyEngine(
        list(parameters.items()),
        kind=kind,
        size=linear[0][-1].out_features,
        obs_dim=linear[0][0].in_features,
        actor=[layer.out_features for layer in linear[0][:-1]],
        critic=[layer.out_features for layer in linear[1][:-1]],
        activation=between[0] or "tanh" if between else "tanh",
    )
    return engine, plain


class Plain:
    """A policy whose updates call and ask nothing but its layers and parameters, which `check` holds it to.

    Methods of this very object, hooks, frozen parameters and other layers would be passed over, and may all
    come after the policy was made.
    """

    def __init__(self, policy: MLPActorCritic) -> None:
        self._policy = policy
        self._parameters = dict(policy.named_parameters())
        # Dicts that hooks are entered into. Looked at before every update, so not looked up again.
        self._hooks = [
            hooks
            for module in policy.modules()
            for hooks in (
                module._forward_hooks,
                module._forward_pre_hooks,
                module._backward_hooks,
                module._backward_pre_hooks,
            )
        ]
        self._layers = [tuple(net.children()) for net in (policy.actor, policy.critic)]

    def check(self) -> None:
        """Raise ConfigError for what an update would pass over; it costs some microseconds."""
        policy = self._policy
        if own := [name for name in EVALUATING if name in policy.__dict__]:
            raise _refused(f"one with a {own[0]} of its own")
        parameters = self._parameters.values()
        if any(self._hooks) or any(p._backward_hooks for p in parameters):
            raise _refused("hooked, and a hook would never be called")
        if not all(p.requires_grad for p in parameters):
            frozen = [name for name, p in self._parameters.items() if not p.requires_grad]
            raise _refused(f"frozen in {', '.join(frozen)}")
        nets = policy.actor, policy.critic
        if any(
            tuple(n._modules.values()) != was for n, was in zip(nets, self._layers, strict=True)
        ):
            raise _refused("of other layers than those that it was made of")


def _name(layer: nn.Module) -> str | None:
    """The activation that this is, with torch's own settings."""
    found = (name for name, made in ACTIVATIONS.items() if type(layer) is made)
    plain = getattr(layer, "alpha", 1.0) == 1.0  # of ELU
    return next(found, None) if plain else None


def unmasked(rows: Minibatch | Rollout) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Observations `[rows, obs_dim]` of their own, and the mask of actions behind them, if there is one."""
    mask = rows.extras.get("action_mask")
    if mask is None:
        return rows.obs.numpy(), None
    return rows.obs[:, : -mask.shape[-1]].numpy(), mask.numpy()


@contextmanager
def told_where(where: str) -> Iterator[None]:
    """A number that is none is told with the update in which it was found, and what helps."""
    try:
        yield
    except NonFiniteError as error:
        raise NonFiniteError(
            f"{error}, in the {where}; lower algo.learning_rate or algo.max_grad_norm, or check the "
            "environment's rewards"
        ) from None


@contextmanager
def counted(optimizer: Optimizer) -> Iterator[NDArray[np.int64]]:
    """Where the engine counts the optimizer's steps, those of an update that failed too."""
    steps = np.array([optimizer.steps])
    try:
        yield steps
    finally:
        optimizer.steps = int(steps[0])


def _refused(what: str) -> ConfigError:
    return ConfigError(
        f"algo.backend=native: the policy is {what}; algo.backend=torch learns any policy"
    )
