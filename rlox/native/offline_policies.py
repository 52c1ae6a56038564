"""Native policies of offline algorithms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlox._core import Explorer, OffPolicyEngine
from rlox.native.vector_policies import ContinuousSizes, NativeContinuousPolicy
from rlox.parameters.layout import ParameterVector, linear_shapes, max_width
from rlox.parameters.lazy_torch import LazyTorchModule, ModuleGuard

if TYPE_CHECKING:
    from rlox.optim import FlatParameters
    from rlox.policies.implicit import IQLPolicy

__all__ = ["NativeBCPolicy", "NativeIQLPolicy"]


class NativeIQLPolicy(NativeContinuousPolicy):
    """An `IQLPolicy` of observation vectors in Rust."""

    def __init__(self, sizes: ContinuousSizes, seed: int, make_module: Callable[[], IQLPolicy]) -> None:
        """Set the initial weights of a run; `make_module` returns the torch module.

        Raises ConfigError if the engine's results differ from torch's (`self_test`).
        """
        self.engine = self._init_engine(
            "iql",
            sizes,
            seed,
            make_module,
            "net.",
            extra_actor_shapes=[("log_std", (sizes.size,))],
            value_shapes=linear_shapes("", (sizes.obs_dim, *sizes.critic, 1)),
        )
        self.explorer = Explorer(self.engine)

    def _make_guard(self, module: IQLPolicy, flats: Mapping[str, FlatParameters]) -> ModuleGuard:
        from rlox.policies.mlp_guard import MLPGuard

        guarded_methods = [(module.actor, ("log_prob", "std"))]
        return MLPGuard(module, (module.actor.net, module.value), guarded_methods, [*flats.values()])

    def _acting_modules(self) -> tuple[Any, ...]:
        return self._module, self._module.actor


class NativeBCPolicy(LazyTorchModule):
    """A `CategoricalActor` or a `GaussianActor` in Rust.

    Attributes
    ----------
    is_discrete : whether actions are discrete; otherwise they are continuous
    """

    def __init__(
        self,
        is_discrete: bool,
        size: int,
        obs_dim: int,
        hidden: Sequence[int],
        activation: str,
        seed: int,
        make_module: Callable[[], Any],
    ) -> None:
        """Set the initial weights of a run; `make_module` returns the torch module.

        Raises ConfigError if the engine's results differ from torch's (`self_test`).
        """
        self.is_discrete, self._size = is_discrete, size
        layers = linear_shapes("net.", (obs_dim, *hidden, size))
        shapes = layers if is_discrete else [("log_std", (size,)), *layers]
        self._init_parameters({"": ParameterVector.zeros(shapes)}, make_module)
        self._init_weights(seed)
        self.engine = OffPolicyEngine(
            "bc",
            {"policy": shapes},
            gaussian=not is_discrete,
            size=size,
            obs_dim=obs_dim,
            hidden=list(hidden),
            activation=activation,
        )
        self._explorer = Explorer(self.engine)

    def max_width(self) -> int:
        """Return the largest number of inputs or outputs of a layer."""
        return max_width(self.parameter_vectors[""].layout.shapes.items())

    def best_actions(self, obs: NDArray[np.float32], mask: NDArray[np.bool_] | None = None) -> NDArray[Any]:
        """Return the most likely discrete actions `[n]`, or means `[n, size]`; masks are not supported."""
        assert mask is None
        actions: NDArray[Any] = (
            np.full(len(obs), -1) if self.is_discrete else np.zeros((len(obs), self._size), np.float32)
        )
        with self.lock:
            noise = None if self.is_discrete else np.zeros_like(actions)
            self._explorer.act(self.vector, obs, actions, noise)
        return actions

    def _make_guard(self, module: Any, flats: Mapping[str, FlatParameters]) -> ModuleGuard:
        from rlox.policies.mlp_guard import MLPGuard

        return MLPGuard(module, (module.net,), [(module, ("score",))], [*flats.values()])
