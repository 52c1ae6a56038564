"""Native actors and critics for action vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlox._core import Explorer, OffPolicyEngine
from rlox.parameters.layout import NamedShape, ParameterVector, linear_shapes, max_width
from rlox.parameters.lazy_torch import LazyTorchModule, ModuleGuard

if TYPE_CHECKING:  # so that a run with the native engine does not import torch
    from rlox.optim import FlatParameters
    from rlox.policies.deterministic import DeterministicPolicy
    from rlox.policies.soft import SquashedSACPolicy

__all__ = ["ContinuousSizes", "NativeDeterministicPolicy", "NativeSquashedPolicy"]


@dataclass(frozen=True)
class ContinuousSizes:
    """The sizes of an actor and its critics."""

    obs_dim: int
    size: int  # length of an action
    outputs: int  # number of the actor's outputs
    n_critics: int
    actor: tuple[int, ...]  # hidden widths
    critic: tuple[int, ...]
    activation: str

    def actor_shapes(self, prefix: str = "") -> list[NamedShape]:
        """Return names and shapes of the actor's parameters, in the order of torch's modules."""
        return linear_shapes(prefix, (self.obs_dim, *self.actor, self.outputs))

    @property
    def critic_shapes(self) -> list[NamedShape]:
        """Names and shapes of the critics' parameters, stacked over critics: all weights, then all biases."""
        pairs = list(pairwise((self.obs_dim + self.size, *self.critic, 1)))
        weights = [(self.n_critics, outputs, inputs) for inputs, outputs in pairs]
        biases = [(self.n_critics, outputs) for _, outputs in pairs]
        return [
            *((f"weights.{i}", shape) for i, shape in enumerate(weights)),
            *((f"biases.{i}", shape) for i, shape in enumerate(biases)),
        ]

    def max_width(self) -> int:
        """Return the largest number of inputs or outputs of a layer."""
        return max_width([*self.actor_shapes(), *self.critic_shapes])


class NativeContinuousPolicy(LazyTorchModule):
    """An actor and critics in Rust; the parameters of each are one vector.

    Attributes
    ----------
    sizes : sizes of the networks
    explorer : chooses actions in training
    """

    ACTING_PART = "actor"

    sizes: ContinuousSizes
    explorer: Explorer

    def best_actions(self, obs: NDArray[np.float32], mask: NDArray[np.bool_] | None = None) -> NDArray[Any]:
        """Return the actor's actions without noise, float32 `[n, size]`; masks are not supported."""
        assert mask is None
        actions = np.zeros((len(obs), self.sizes.size), np.float32)
        with self.lock:
            self.explorer.act(self.vector, obs, actions, np.zeros_like(actions))
        return actions

    def _init_engine(
        self,
        algorithm: str,
        sizes: ContinuousSizes,
        seed: int,
        make_module: Callable[[], Any],
        prefix: str = "",
        extra_actor_shapes: Sequence[NamedShape] = (),
        value_shapes: Sequence[NamedShape] = (),
    ) -> OffPolicyEngine:
        """Set the initial weights of a run and return the engine of `algorithm` for these networks.

        `prefix` is that of the layers in the torch actor. `extra_actor_shapes` are parameters before them;
        `value_shapes` those of a value network.
        """
        self.sizes = sizes
        parameters = {
            "actor": ParameterVector.zeros([*extra_actor_shapes, *sizes.actor_shapes(prefix)]),
            "critic": ParameterVector.zeros(sizes.critic_shapes),
        }
        engine_shapes = {
            "actor": [*extra_actor_shapes, *sizes.actor_shapes("actor.")],
            "critic": sizes.critic_shapes,
        }
        if value_shapes:
            parameters["value"] = ParameterVector.zeros(value_shapes)
            engine_shapes["value"] = [(f"value.{name}", shape) for name, shape in value_shapes]
        self._init_parameters(parameters, make_module)
        self._init_weights(seed)
        return OffPolicyEngine(
            algorithm,
            engine_shapes,
            obs_dim=sizes.obs_dim,
            size=sizes.size,
            members=sizes.n_critics,
            actor=list(sizes.actor),
            critic=list(sizes.critic),
            activation=sizes.activation,
        )


class NativeDeterministicPolicy(NativeContinuousPolicy):
    """A `DeterministicPolicy` of vectors in Rust; `noise_std` is the std of its exploration noise."""

    def __init__(
        self,
        sizes: ContinuousSizes,
        seed: int,
        make_module: Callable[[], DeterministicPolicy],
        noise_std: float,
    ) -> None:
        """Set the initial weights of a run; `make_module` returns the torch module.

        Raises ConfigError if the engine's results differ from torch's (`self_test`).
        """
        self.engine = self._init_engine("td3", sizes, seed, make_module)
        self.explorer = Explorer(self.engine, noise_std)

    def _make_guard(self, module: DeterministicPolicy, flats: Mapping[str, FlatParameters]) -> ModuleGuard:
        from rlox.policies.mlp_guard import MLPGuard

        guarded_methods = [(module, ("act",))]
        return MLPGuard(module, (module.actor,), guarded_methods, [*flats.values()])


class NativeSquashedPolicy(NativeContinuousPolicy):
    """A `SquashedSACPolicy` of vectors without gSDE in Rust."""

    def __init__(
        self, sizes: ContinuousSizes, seed: int, make_module: Callable[[], SquashedSACPolicy]
    ) -> None:
        """Set the initial weights of a run; `make_module` returns the torch module.

        Raises ConfigError if the engine's results differ from torch's (`self_test`).
        """
        self.engine = self._init_engine("sac", sizes, seed, make_module, "net.")
        self.explorer = Explorer(self.engine)

    def _make_guard(self, module: SquashedSACPolicy, flats: Mapping[str, FlatParameters]) -> ModuleGuard:
        from rlox.policies.mlp_guard import MLPGuard

        guarded_methods = [
            (module, ("draw", "value", "action_values")),
            (module.actor, ("draw", "explore")),
        ]
        return MLPGuard(module, (module.actor.net,), guarded_methods, [*flats.values()])

    def _acting_modules(self) -> tuple[Any, ...]:
        return self._module, self._module.actor
