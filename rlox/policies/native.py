"""Policies of vectors as the native engine knows them, with a module of torch where somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlox._core import OnPolicyEngine, RolloutPolicy
from rlox.devices import imported_torch
from rlox.errors import CheckpointError, ConfigError
from rlox.parameters.initial import initial
from rlox.parameters.layout import Layout
from rlox.policies.engine import refused, require_right
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
        return max(size for _, shape in self.named for size in shape[-2:])

    @property
    def named(self) -> list[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the parameters, in the order of torch's modules."""
        features = (self.obs_dim, *self.actor)[-1]
        deviations = {"numbers": (self.size,), "sde": (features, self.size)}.get(self.kind)
        named = [] if deviations is None else [("log_std", deviations)]
        for net, hidden, out in (("actor", self.actor, self.size), ("critic", self.critic, 1)):
            for i, (inputs, outputs) in enumerate(pairwise((self.obs_dim, *hidden, out))):
                named += [(f"{net}.{2 * i}.weight", (outputs, inputs))]
                named += [(f"{net}.{2 * i}.bias", (outputs,))]
        return named


class NativePolicy:
    """An actor and a critic in Rust, over the vector of their parameters.

    Attributes
    ----------
    sizes : of the networks
    layout : where the parameters lie in `vector`
    engine : learns
    actor : acts in rollouts
    """

    def __init__(self, policy: ActorCritic, flat: FlatParameters) -> None:
        """That of a module, on the memory of its parameters.

        Raises ConfigError for others than the built-in policies of vectors, and for what `Plain` refuses,
        all of which torch learns from.
        """
        self._plain: Plain | None
        sizes, self._plain = _of_module(policy, flat)
        self._module: ActorCritic | None = policy
        self._make: Callable[[], ActorCritic] = lambda: policy
        self._of(sizes, self._plain.named, flat.keep())

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
        require_right()
        native = cls.__new__(cls)
        native._module, native._plain, native._make = None, None, make
        layout = Layout(sizes.named)
        native._of(sizes, sizes.named, layout.zeros())
        views = native.state_dict()
        if "log_std" in views:
            views["log_std"][...] = log_std
        for name, values in initial(sizes.named, seed, orthogonal):
            views[name][...] = values
        return native

    def _of(
        self, sizes: Sizes, named: list[tuple[str, tuple[int, ...]]], vector: NDArray[np.float32]
    ) -> None:
        self.sizes, self.layout, self._vector = sizes, Layout(named), vector
        self._making = Lock()
        self.engine = OnPolicyEngine(
            named,
            kind=sizes.kind,
            size=sizes.size,
            obs_dim=sizes.obs_dim,
            actor=list(sizes.actor),
            critic=list(sizes.critic),
            activation=sizes.activation,
        )
        self.actor = RolloutPolicy(self.engine, sizes.noise_kept)

    @property
    def vector(self) -> NDArray[np.float32]:
        """The parameters, with what somebody gave the module since it was made."""
        if self._plain is not None:
            self._plain.hold()
        return self._vector

    @property
    def module(self) -> ActorCritic:
        """The policy as torch has it, on the same memory; made when it is asked for."""
        with self._making:
            if self._module is None:
                self._plain, self._module = _module_on(self._make, self.layout, self._vector)
            return self._module

    def state_dict(self) -> dict[str, NDArray[np.float32]]:
        """The parameters by name: views of the vector."""
        return self.layout.views(self.vector)

    def load_state_dict(self, weights: Mapping[str, Any]) -> None:
        """Take over arrays or tensors, by name; CheckpointError for what does not fit."""
        views = self.state_dict()
        for name in [*views, *weights]:
            shapes = [list(of[name].shape) if name in of else "missing" for of in (weights, views)]
            if shapes[0] != shapes[1]:
                raise CheckpointError(f"{name} is {shapes[0]} there and {shapes[1]} here")
        for name, view in views.items():
            view[...] = np.asarray(weights[name])

    def check(self) -> None:
        """Raise ConfigError for what the engine would pass over, which only a module can have."""
        if self._plain is not None:
            self._plain.check()

    @property
    def plays(self) -> bool:
        """Whether `best` is what the module would do, where there is one: nothing of it is passed over."""
        if self._module is None:
            return True
        try:
            self.check()
        except ConfigError:
            return False
        return vars(self._module).keys().isdisjoint(("mode", "fast_logits"))

    def best(self, obs: NDArray[np.float32], mask: NDArray[np.bool_] | None = None) -> NDArray[Any]:
        """The most likely choices, int64 `[n]`, of what `mask` `[n, size]` allows; or means, `[n, size]`.

        `obs` are `[n, obs_dim]`.
        """
        outputs = self.actor.outputs(self.vector, obs)
        if self.sizes.kind != "choices":
            return outputs
        allowed = outputs if mask is None else np.where(mask, outputs, -np.inf)
        best: NDArray[np.int64] = allowed.argmax(-1)
        return best


def _of_module(policy: ActorCritic, flat: FlatParameters) -> tuple[Sizes, Plain]:
    """What a module is; ConfigError for one that the engine does not know."""
    from rlox.policies.continuous import SDEPolicy
    from rlox.policies.mlp import EVALUATING, MLPActorCritic
    from rlox.policies.plain import Plain

    kind = _kinds().get(type(policy))
    if kind is None or not isinstance(policy, MLPActorCritic):
        raise refused(f"a {type(policy).__name__}, not a built-in policy of vectors")
    plain = Plain(policy, (policy.actor, policy.critic), EVALUATING, flat)
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


def _module_on(
    make: Callable[[], ActorCritic], layout: Layout, vector: NDArray[np.float32]
) -> tuple[Plain, ActorCritic]:
    """A module whose parameters are this memory; nobody's random numbers are drawn for it."""
    torch = imported_torch()
    from rlox.optim import FlatParameters
    from rlox.rng import keyed

    # as if nobody was in a block of inference or of another device
    with torch.inference_mode(False), torch.device("cpu"), keyed(0):
        module = make()
        flat = FlatParameters(module, vector=torch.from_numpy(vector))
        assert flat.layout.shapes == layout.shapes
        flat.keep()
        return _of_module(module, flat)[1], module


# What a collector is given to act.
Acts: TypeAlias = "nn.Module | NativePolicy"


def unmasked(rows: Minibatch | Rollout) -> tuple[NDArray[Any], NDArray[Any] | None]:
    """Observations `[rows, obs_dim]` of their own, and the mask of actions behind them, if there is one."""
    mask = rows.extras.get("action_mask")
    if mask is None:
        return np.asarray(rows.obs), None
    return np.asarray(rows.obs[:, : -mask.shape[-1]]), np.asarray(mask)
