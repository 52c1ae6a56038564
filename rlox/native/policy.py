"""Native policies for observation vectors, with a torch module created on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlox._core import OnPolicyEngine, RolloutPolicy
from rlox.parameters.engine import unsupported_policy
from rlox.parameters.layout import Layout, NamedShape, ParameterVector, linear_shapes, max_width
from rlox.parameters.lazy_torch import LazyTorchModule, ModuleGuard
from rlox.types import Minibatch, Rollout

if TYPE_CHECKING:  # so that a run with the native engine does not import torch
    from rlox.optim import FlatParameters
    from rlox.policies.base import ActorCritic
    from rlox.policies.mlp_guard import MLPGuard

__all__ = ["ActorCriticSizes", "NativePolicy", "split_masks"]


@dataclass(frozen=True)
class ActorCriticSizes:
    """The sizes of an actor and a critic; `kind`: `choices` (discrete), `numbers` (continuous) or `sde`."""

    kind: str
    size: int  # number of discrete actions, or length of an action
    obs_dim: int
    actor: tuple[int, ...]  # hidden widths
    critic: tuple[int, ...]
    activation: str
    noise_interval: int | None = 1  # steps between gSDE noise matrices; None: one per rollout

    def max_width(self) -> int:
        """Return the largest number of inputs or outputs of a layer."""
        return max_width(self.parameter_shapes)

    @property
    def parameter_shapes(self) -> list[NamedShape]:
        """Names and shapes of the parameters, in the order of torch's modules."""
        n_features = (self.obs_dim, *self.actor)[-1]
        log_std_shape = {"numbers": (self.size,), "sde": (n_features, self.size)}.get(self.kind)
        actor = linear_shapes("actor.", (self.obs_dim, *self.actor, self.size))
        critic = linear_shapes("critic.", (self.obs_dim, *self.critic, 1))
        return [*([("log_std", log_std_shape)] if log_std_shape else []), *actor, *critic]


class NativePolicy(LazyTorchModule):
    """An actor and a critic in Rust; all parameters are one vector.

    Attributes
    ----------
    sizes : sizes of the networks
    layout : positions of the parameters in `vector`
    engine : computes the updates
    rollout_policy : chooses the actions of rollouts
    """

    ACTING_METHODS = ("mode", "inference_logits")

    def __init__(self, policy: ActorCritic, flat: FlatParameters) -> None:
        """Wrap a module, using the memory of its parameters.

        Raises ConfigError unless it is a built-in policy of observation vectors that `MLPGuard` accepts. The
        torch backend trains all other modules.
        """
        sizes, guard = _sizes_and_guard(policy, flat)
        self._module, self._guard = policy, guard
        self._init_engine(
            sizes, ParameterVector(Layout(guard.parameter_shapes), flat.fix_memory()), lambda: policy
        )

    @classmethod
    def from_module(cls, policy: ActorCritic) -> NativePolicy:
        """Wrap a module; its parameters become views of one vector."""
        from rlox.optim import FlatParameters

        return cls(policy, FlatParameters(policy))

    @classmethod
    def create(
        cls,
        sizes: ActorCriticSizes,
        seed: int,
        orthogonal: bool,
        log_std: float,
        make_module: Callable[[], ActorCritic],
    ) -> NativePolicy:
        """Create a policy with the initial weights of a run.

        `make_module` returns the torch module, whose own weights are discarded. Raises ConfigError if the
        engine's results differ from torch's (`self_test`).
        """
        native = cls.__new__(cls)
        native._init_engine(sizes, ParameterVector.zeros(sizes.parameter_shapes), make_module)
        native._init_weights(seed, orthogonal)
        views = native.state_dict()
        if "log_std" in views:
            views["log_std"][...] = log_std
        return native

    def _init_engine(
        self, sizes: ActorCriticSizes, parameters: ParameterVector, make_module: Callable[[], ActorCritic]
    ) -> None:
        self._init_parameters({"": parameters}, make_module)
        self.sizes, self.layout = sizes, parameters.layout
        self.engine = OnPolicyEngine(
            list(parameters.layout.shapes.items()),
            kind=sizes.kind,
            size=sizes.size,
            obs_dim=sizes.obs_dim,
            actor=list(sizes.actor),
            critic=list(sizes.critic),
            activation=sizes.activation,
        )
        self.rollout_policy = RolloutPolicy(self.engine, sizes.noise_interval)

    def _make_guard(self, module: ActorCritic, flats: Mapping[str, FlatParameters]) -> ModuleGuard:
        return _sizes_and_guard(module, flats[""])[1]

    def best_actions(self, obs: NDArray[np.float32], mask: NDArray[np.bool_] | None = None) -> NDArray[Any]:
        """Return the best actions for `obs` `[n, obs_dim]`.

        Discrete: the most likely actions that `mask` `[n, size]` allows, int64 `[n]`. Otherwise: the means,
        `[n, size]`.
        """
        with self.lock:
            outputs = self.rollout_policy.outputs(self.vector, obs)
        if self.sizes.kind != "choices":
            return outputs
        masked_outputs = outputs if mask is None else np.where(mask, outputs, -np.inf)
        actions: NDArray[np.int64] = masked_outputs.argmax(-1)
        return actions


def _sizes_and_guard(policy: ActorCritic, flat: FlatParameters) -> tuple[ActorCriticSizes, MLPGuard]:
    """Return the sizes and guard of a module; raise ConfigError if the engine does not support it."""
    from rlox.policies.continuous import SDEPolicy
    from rlox.policies.mlp import GUARDED_METHODS, MLPActorCritic
    from rlox.policies.mlp_guard import MLPGuard

    kind = _action_kinds().get(type(policy))
    if kind is None or not isinstance(policy, MLPActorCritic):
        raise unsupported_policy(f"a {type(policy).__name__}, not a built-in policy of observation vectors")
    guard = MLPGuard(policy, (policy.actor, policy.critic), [(policy, GUARDED_METHODS)], [flat])
    actor, critic = guard.linear_layers
    frequency = policy.sample_freq if isinstance(policy, SDEPolicy) else 1
    sizes = ActorCriticSizes(
        kind,
        actor[-1].out_features,
        actor[0].in_features,
        tuple(layer.out_features for layer in actor[:-1]),
        tuple(layer.out_features for layer in critic[:-1]),
        guard.activation,
        frequency if frequency > 0 else None,
    )
    return sizes, guard


def _action_kinds() -> dict[type[Any], str]:
    """Map supported policy classes to the engine's kind of actions; subclasses are not supported."""
    from rlox.policies.continuous import ContinuousPolicy, SDEPolicy
    from rlox.policies.discrete import DiscretePolicy
    from rlox.policies.masking import MaskedDiscretePolicy

    return {
        DiscretePolicy: "choices",
        MaskedDiscretePolicy: "choices",
        ContinuousPolicy: "numbers",
        SDEPolicy: "sde",
    }


def split_masks(rows: Minibatch | Rollout[Any]) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Return the observations `[rows, obs_dim]` without masks, and the action masks, or None."""
    mask = rows.extras.get("action_mask")
    if mask is None:
        return np.asarray(rows.obs), None
    return np.asarray(rows.obs[:, : -mask.shape[-1]]), np.asarray(mask)
