"""Policies of vectors as the native engine knows them, with a module of torch where somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlox._core import OnPolicyEngine, RolloutPolicy
from rlox.parameters.layout import Layout, Named, Part, linear_layers, widest
from rlox.policies.engine import refused
from rlox.policies.on_demand import OnDemand, Watched
from rlox.types import Minibatch, Rollout

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from torch import nn

    from rlox.optim import FlatParameters
    from rlox.policies.base import ActorCritic
    from rlox.policies.plain import Plain

__all__ = ["Acts", "NativePolicy", "Sizes", "unmasked"]


@dataclass(frozen=True)
class Sizes:
    """What an actor and a critic are: `kind` is what actions are, `choices`, `numbers` or `sde`."""

    kind: str
    size: int  # choices, or numbers of an action
    obs_dim: int
    actor: tuple[int, ...]  # hidden widths
    critic: tuple[int, ...]
    activation: str
    noise_kept: int | None = (
        1  # steps for which gSDE acts with the same noise; None: of a rollout all
    )

    def widest(self) -> int:
        """The largest number of inputs or outputs that a layer has."""
        return widest(self.named)

    @property
    def named(self) -> list[Named]:
        """Names and shapes of the parameters, in the order of torch's modules."""
        features = (self.obs_dim, *self.actor)[-1]
        deviations = {"numbers": (self.size,), "sde": (features, self.size)}.get(self.kind)
        actor = linear_layers("actor.", (self.obs_dim, *self.actor, self.size))
        critic = linear_layers("critic.", (self.obs_dim, *self.critic, 1))
        return [*([("log_std", deviations)] if deviations else []), *actor, *critic]


class NativePolicy(OnDemand):
    """An actor and a critic in Rust, over the vector of their parameters.

    Attributes
    ----------
    sizes : of the networks
    layout : where the parameters lie in `vector`
    engine : learns
    actor : acts in rollouts
    """

    PLAYED = ("mode", "fast_logits")

    def __init__(self, policy: ActorCritic, flat: FlatParameters) -> None:
        """That of a module, on the memory of its parameters.

        Raises ConfigError for others than the built-in policies of vectors, and for what `Plain` refuses,
        all of which torch learns from.
        """
        sizes, plain = _of_module(policy, flat)
        self._module, self._watched = policy, plain
        self._of(sizes, Part(Layout(plain.named), flat.keep()), lambda: policy)

    @classmethod
    def of(cls, policy: ActorCritic) -> NativePolicy:
        """That of a module, whose parameters become parts of one vector."""
        from rlox.optim import FlatParameters

        return cls(policy, FlatParameters(policy))

    @classmethod
    def begun(
        cls,
        sizes: Sizes,
        seed: int,
        orthogonal: bool,
        log_std: float,
        make: Callable[[], ActorCritic],
    ) -> NativePolicy:
        """One with the weights that a run begins with; `make` gives its module, whose weights become its own.

        Raises ConfigError where the engine does not do what torch does (`golden`).
        """
        native = cls.__new__(cls)
        native._of(sizes, Part.of(sizes.named), make)
        native._begin(seed, orthogonal)
        views = native.state_dict()
        if "log_std" in views:
            views["log_std"][...] = log_std
        return native

    def _of(self, sizes: Sizes, part: Part, make: Callable[[], ActorCritic]) -> None:
        self._on({"": part}, make)
        self.sizes, self.layout = sizes, part.layout
        self.engine = OnPolicyEngine(
            list(part.layout.shapes.items()),
            kind=sizes.kind,
            size=sizes.size,
            obs_dim=sizes.obs_dim,
            actor=list(sizes.actor),
            critic=list(sizes.critic),
            activation=sizes.activation,
        )
        self.actor = RolloutPolicy(self.engine, sizes.noise_kept)

    def _watch(self, module: ActorCritic, flats: Mapping[str, FlatParameters]) -> Watched:
        return _of_module(module, flats[""])[1]

    def best(self, obs: NDArray[np.float32], mask: NDArray[np.bool_] | None = None) -> NDArray[Any]:
        """The most likely choices, int64 `[n]`, of what `mask` `[n, size]` allows; or means, `[n, size]`.

        `obs` are `[n, obs_dim]`.
        """
        with self.using:
            outputs = self.actor.outputs(self.vector, obs)
        if self.sizes.kind != "choices":
            return outputs
        allowed = outputs if mask is None else np.where(mask, outputs, -np.inf)
        best: NDArray[np.int64] = allowed.argmax(-1)
        return best


def _of_module(policy: ActorCritic, flat: FlatParameters) -> tuple[Sizes, Plain]:
    """What a module is; ConfigError for one that the engine does not know."""
    from rlox.policies.continuous import SDEPolicy
    from rlox.policies.mlp import ASKED, MLPActorCritic
    from rlox.policies.plain import Plain

    kind = _kinds().get(type(policy))
    if kind is None or not isinstance(policy, MLPActorCritic):
        raise refused(f"a {type(policy).__name__}, not a built-in policy of vectors")
    plain = Plain(policy, (policy.actor, policy.critic), [(policy, ASKED)], [flat])
    actor, critic = plain.linear
    frequency = policy.sample_freq if isinstance(policy, SDEPolicy) else 1
    sizes = Sizes(
        kind,
        actor[-1].out_features,
        actor[0].in_features,
        tuple(layer.out_features for layer in actor[:-1]),
        tuple(layer.out_features for layer in critic[:-1]),
        plain.activation,
        frequency if frequency > 0 else None,
    )
    return sizes, plain


def _kinds() -> dict[type[Any], str]:
    """What actions are to the engine, by the policies that it knows: subclasses may do anything."""
    from rlox.policies.continuous import ContinuousPolicy, SDEPolicy
    from rlox.policies.discrete import DiscretePolicy
    from rlox.policies.masking import MaskedDiscretePolicy

    return {
        DiscretePolicy: "choices",
        MaskedDiscretePolicy: "choices",
        ContinuousPolicy: "numbers",
        SDEPolicy: "sde",
    }


# What a collector is given to act.
Acts: TypeAlias = "nn.Module | NativePolicy"


def unmasked(rows: Minibatch | Rollout) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Observations `[rows, obs_dim]` of their own, and the mask of actions behind them, if there is one."""
    mask = rows.extras.get("action_mask")
    if mask is None:
        return np.asarray(rows.obs), None
    return np.asarray(rows.obs[:, : -mask.shape[-1]]), np.asarray(mask)
