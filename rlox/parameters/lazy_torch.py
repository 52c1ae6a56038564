"""Policies whose parameters are stored for Rust, with a torch module created on demand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rlox.devices import import_torch, require_float32
from rlox.errors import ConfigError
from rlox.parameters.engine import require_self_test
from rlox.parameters.layout import ParameterVector, copy_into, initial_weights

if TYPE_CHECKING:  # so that a run with the native engine does not import torch
    from torch import nn

    from rlox.optim import FlatParameters

__all__ = ["ActingPolicy", "LazyTorchModule", "ModuleGuard"]


class ModuleGuard(Protocol):
    """Checks a module whose updates run in Rust."""

    def check(self) -> None:
        """Raise ConfigError for changes to the module that training in Rust would ignore."""

    def sync_parameters(self) -> None:
        """Copy new values of replaced parameters into the engine's memory."""


class LazyTorchModule(ABC):
    """The parameters of a policy, and on demand a torch module on the same memory.

    Attributes
    ----------
    parameter_vectors : parameters by the submodule's name; "" stands for the module itself
    """

    ACTING_METHODS: tuple[str, ...] = ("mode",)  # methods that `best_actions` replaces
    ACTING_PART = ""  # the submodule that acts

    parameter_vectors: Mapping[str, ParameterVector]
    _module: Any = None
    _guard: ModuleGuard | None = None

    def _init_parameters(
        self, parameter_vectors: Mapping[str, ParameterVector], module_factory: Callable[[], Any]
    ) -> None:
        """Store the parameters, and the factory of the torch module, whose own weights are discarded."""
        self.parameter_vectors, self._module_factory, self._module_lock = (
            parameter_vectors,
            module_factory,
            Lock(),
        )

    def _init_weights(self, seed: int, orthogonal: bool = False) -> None:
        """Set the initial weights of a run.

        Raises ConfigError if the engine's results differ from torch's (`self_test`).
        """
        require_self_test()
        views = self.state_dict()
        shapes = [(name, view.shape) for name, view in views.items()]
        for name, values in initial_weights(shapes, seed, orthogonal):
            views[name][...] = values

    @abstractmethod
    def _make_guard(self, module: Any, flats: Mapping[str, FlatParameters]) -> ModuleGuard:
        """Return the guard of the module; `flats` are the parameters of its submodules by name."""

    @property
    def module(self) -> Any:
        """The policy as a torch module on the same memory; created on first use."""
        with self._module_lock:
            if self._module is None:
                self._guard, self._module = self._make_module()
            return self._module

    @property
    def vector(self) -> NDArray[np.float32]:
        """The parameters of the acting submodule, including values that were assigned to the module."""
        self.sync_parameters()
        return self.parameter_vectors[self.ACTING_PART].vector

    @property
    def lock(self) -> Any:
        """The lock to hold in calls that use `vector`: Rust refuses memory that another call uses."""
        return self.parameter_vectors[self.ACTING_PART].lock

    def state_dict(self) -> dict[str, NDArray[np.float32]]:
        """Return the parameters by name, as views of the vectors."""
        self.sync_parameters()
        return dict(self._views())

    def weights(self) -> dict[str, NDArray[Any]]:
        """Return copies of the parameters by name, from the module if there is one: it may have changed."""
        if self._module is None:
            return {name: view.copy() for name, view in self._views()}
        state = self._module.state_dict()
        return {name: value.detach().cpu().numpy().copy() for name, value in state.items()}

    def load_state_dict(self, weights: Mapping[str, Any]) -> None:
        """Copy arrays or tensors into the parameters of these names; CheckpointError if one does not fit."""
        copy_into(self.state_dict(), weights)
        if self._module is not None:  # the module may have other submodules now
            torch = import_torch()
            tensors = {name: torch.as_tensor(value) for name, value in weights.items()}
            self._module.load_state_dict(tensors)

    def sync_parameters(self) -> None:
        """Copy values that were assigned to the module's parameters into the engine's memory."""
        if self._guard is not None:
            self._guard.sync_parameters()

    def check(self) -> None:
        """Raise ConfigError for changes to the module that the engine would ignore."""
        if self._guard is not None:
            self._guard.check()

    @property
    def is_equivalent(self) -> bool:
        """Whether `best_actions` returns the module's best actions; True if there is no module yet."""
        if self._module is None:
            return True
        try:
            self.check()
        except ConfigError:
            return False
        return all(vars(module).keys().isdisjoint(self.ACTING_METHODS) for module in self._acting_modules())

    def _acting_modules(self) -> tuple[Any, ...]:
        """Return the modules that compute the best action."""
        return (self._module,)

    @abstractmethod
    def best_actions(self, obs: NDArray[np.float32], mask: NDArray[np.bool_] | None = None) -> NDArray[Any]:
        """Return the best actions for `obs` `[n, obs_dim]`; `mask` `[n, size]` marks the allowed actions."""

    def _views(self) -> Iterator[tuple[str, NDArray[np.float32]]]:
        for prefix, parameters in self.parameter_vectors.items():
            for name, view in parameters.views().items():
                yield f"{prefix}.{name}" if prefix else name, view

    def _make_module(self) -> tuple[ModuleGuard, Any]:
        """Create a module on this memory; torch's default generators keep their state."""
        torch = import_torch()
        from rlox.optim import FlatParameters
        from rlox.rng import seeded_default_generators

        # independent of a caller's inference-mode or device block
        with torch.inference_mode(False), torch.device("cpu"), seeded_default_generators(0):
            require_float32()
            module, flats = self._module_factory(), {}
            for prefix, parameters in self.parameter_vectors.items():
                vector = torch.from_numpy(parameters.vector)
                flats[prefix] = FlatParameters(module.get_submodule(prefix), vector=vector)
                assert flats[prefix].layout.shapes == parameters.layout.shapes
                flats[prefix].fix_memory()
            return self._make_guard(module, flats), module


# The policy that a collector acts with.
ActingPolicy: TypeAlias = "nn.Module | LazyTorchModule"
