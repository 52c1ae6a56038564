"""Policies whose parameters lie where Rust learns, with a module of torch where somebody asks for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlox.devices import import_torch, require_float32
from rlox.errors import ConfigError
from rlox.parameters.initial_weights import initial_weights
from rlox.parameters.layout import ParameterVector, copy_into
from rlox.policies.engine import require_self_test

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from rlox.optim import FlatParameters

__all__ = ["LazyTorchModule", "ModuleGuard"]


class ModuleGuard(Protocol):
    """What a module is held to while Rust learns in its place."""

    def check(self) -> None:
        """Raise ConfigError for what a training would pass over."""

    def sync_parameters(self) -> None:
        """Take over what somebody gave the parameters."""


class LazyTorchModule(ABC):
    """The parameters of a policy, and torch's module on the same memory as soon as it is asked for.

    Attributes
    ----------
    parameter_vectors : by the name that each has in the module; "" is the module itself
    """

    ACTING_METHODS: tuple[str, ...] = ("mode",)  # methods that `best_actions` takes the place of
    ACTING_PART = ""  # the part that acts

    parameter_vectors: Mapping[str, ParameterVector]
    _module: Any = None
    _guard: ModuleGuard | None = None

    def _init_parameters(
        self, parameter_vectors: Mapping[str, ParameterVector], module_factory: Callable[[], Any]
    ) -> None:
        """Be that of these parameters; `module_factory` gives the module, whose own weights are not used."""
        self.parameter_vectors, self._module_factory, self._module_lock = (
            parameter_vectors,
            module_factory,
            Lock(),
        )

    def _init_weights(self, seed: int, orthogonal: bool = False) -> None:
        """Take the weights that a run begins with.

        Raises ConfigError where the engine does not do what torch does (`self_test`).
        """
        require_self_test()
        views = self.state_dict()
        shapes = [(name, view.shape) for name, view in views.items()]
        for name, values in initial_weights(shapes, seed, orthogonal):
            views[name][...] = values

    @abstractmethod
    def _make_guard(self, module: Any, flats: Mapping[str, FlatParameters]) -> ModuleGuard:
        """What holds the module to what it is; `flats` have its parameters, by the names of the parts."""

    @property
    def module(self) -> Any:
        """The policy as torch has it, on the same memory; made when it is asked for."""
        with self._module_lock:
            if self._module is None:
                self._guard, self._module = self._make_module()
            return self._module

    @property
    def vector(self) -> NDArray[np.float32]:
        """The parameters of what acts, with what somebody gave the module since it was made."""
        self.sync_parameters()
        return self.parameter_vectors[self.ACTING_PART].vector

    @property
    def lock(self) -> Any:
        """A lock, to be held in calls that are given `vector`: Rust refuses memory that another call has."""
        return self.parameter_vectors[self.ACTING_PART].lock

    def state_dict(self) -> dict[str, NDArray[np.float32]]:
        """The parameters by name: views of the vectors."""
        self.sync_parameters()
        return dict(self._views())

    def weights(self) -> dict[str, NDArray[Any]]:
        """Copies of the parameters by name: those of the module where there is one, whatever it became."""
        if self._module is None:
            return {name: view.copy() for name, view in self._views()}
        state = self._module.state_dict()
        return {name: value.detach().cpu().numpy().copy() for name, value in state.items()}

    def load_state_dict(self, weights: Mapping[str, Any]) -> None:
        """Take over arrays or tensors, by name; CheckpointError for what does not fit."""
        copy_into(self.state_dict(), weights)
        if self._module is not None:  # which may be of other parts now
            torch = import_torch()
            tensors = {name: torch.as_tensor(value) for name, value in weights.items()}
            self._module.load_state_dict(tensors)

    def sync_parameters(self) -> None:
        """Take over what somebody gave the module's parameters since it was made."""
        if self._guard is not None:
            self._guard.sync_parameters()

    def check(self) -> None:
        """Raise ConfigError for what the engine would pass over, which only a module can have."""
        if self._guard is not None:
            self._guard.check()

    @property
    def is_equivalent(self) -> bool:
        """Whether `best_actions` is what the module would do, where there is one: nothing of it is passed
        over.
        """
        if self._module is None:
            return True
        try:
            self.check()
        except ConfigError:
            return False
        return all(vars(module).keys().isdisjoint(self.ACTING_METHODS) for module in self._acting_modules())

    def _acting_modules(self) -> tuple[Any, ...]:
        """The modules that are asked for the best action."""
        return (self._module,)

    @abstractmethod
    def best_actions(self, obs: NDArray[np.float32], mask: NDArray[np.bool_] | None = None) -> NDArray[Any]:
        """The best actions for `obs` `[n, obs_dim]`, of choices those that `mask` `[n, size]` allows."""

    def _views(self) -> Iterator[tuple[str, NDArray[np.float32]]]:
        for prefix, parameters in self.parameter_vectors.items():
            for name, view in parameters.views().items():
                yield f"{prefix}.{name}" if prefix else name, view

    def _make_module(self) -> tuple[ModuleGuard, Any]:
        """A module whose parameters are this memory; nobody's random numbers are drawn for it."""
        torch = import_torch()
        from rlox.optim import FlatParameters
        from rlox.rng import seeded_default_generators

        # as if nobody was in a block of inference or of another device
        with torch.inference_mode(False), torch.device("cpu"), seeded_default_generators(0):
            require_float32()
            module, flats = self._module_factory(), {}
            for prefix, parameters in self.parameter_vectors.items():
                vector = torch.from_numpy(parameters.vector)
                flats[prefix] = FlatParameters(module.get_submodule(prefix), vector=vector)
                assert flats[prefix].layout.shapes == parameters.layout.shapes
                flats[prefix].fix_memory()
            return self._make_guard(module, flats), module
