"""Policies whose parameters lie where Rust learns, with a module of torch where somebody asks for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlox.devices import imported_torch, require_float32
from rlox.errors import ConfigError
from rlox.parameters.initial import initial
from rlox.parameters.layout import Part, fill
from rlox.policies.engine import require_right

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from rlox.optim import FlatParameters

__all__ = ["OnDemand", "Watched"]


class Watched(Protocol):
    """What a module is held to while Rust learns in its place."""

    def check(self) -> None:
        """Raise ConfigError for what a training would pass over."""

    def hold(self) -> None:
        """Take over what somebody gave the parameters."""


class OnDemand(ABC):
    """The parameters of a policy, and torch's module on the same memory as soon as it is asked for.

    Attributes
    ----------
    parts : by the name that each has in the module; "" is the module itself
    """

    PLAYED: tuple[str, ...] = ("mode",)  # methods of the module that `best` takes the place of
    ACTS = ""  # the part that acts

    parts: Mapping[str, Part]
    _module: Any = None
    _watched: Watched | None = None

    def _on(self, parts: Mapping[str, Part], make: Callable[[], Any]) -> None:
        """Be that of these parameters; `make` gives the module, whose own weights are not used."""
        self.parts, self._make, self._making = parts, make, Lock()

    def _begin(self, seed: int, orthogonal: bool = False) -> None:
        """Take the weights that a run begins with.

        Raises ConfigError where the engine does not do what torch does (`golden`).
        """
        require_right()
        views = self.state_dict()
        shapes = [(name, view.shape) for name, view in views.items()]
        for name, values in initial(shapes, seed, orthogonal):
            views[name][...] = values

    @abstractmethod
    def _watch(self, module: Any, flats: Mapping[str, FlatParameters]) -> Watched:
        """What holds the module to what it is; `flats` have its parameters, by the names of the parts."""

    @property
    def module(self) -> Any:
        """The policy as torch has it, on the same memory; made when it is asked for."""
        with self._making:
            if self._module is None:
                self._watched, self._module = self._made()
            return self._module

    @property
    def vector(self) -> NDArray[np.float32]:
        """The parameters of what acts, with what somebody gave the module since it was made."""
        self.hold()
        return self.parts[self.ACTS].vector

    @property
    def using(self) -> Any:
        """A lock, to be held in calls that are given `vector`: Rust refuses memory that another call has."""
        return self.parts[self.ACTS].using

    def state_dict(self) -> dict[str, NDArray[np.float32]]:
        """The parameters by name: views of the vectors."""
        self.hold()
        return dict(self._views())

    def weights(self) -> dict[str, NDArray[Any]]:
        """Copies of the parameters by name: those of the module where there is one, whatever it became."""
        if self._module is None:
            return {name: view.copy() for name, view in self._views()}
        state = self._module.state_dict()
        return {name: value.detach().cpu().numpy().copy() for name, value in state.items()}

    def load_state_dict(self, weights: Mapping[str, Any]) -> None:
        """Take over arrays or tensors, by name; CheckpointError for what does not fit."""
        fill(self.state_dict(), weights)
        if self._module is not None:  # which may be of other parts now
            torch = imported_torch()
            tensors = {name: torch.as_tensor(value) for name, value in weights.items()}
            self._module.load_state_dict(tensors)

    def hold(self) -> None:
        """Take over what somebody gave the module's parameters since it was made."""
        if self._watched is not None:
            self._watched.hold()

    def check(self) -> None:
        """Raise ConfigError for what the engine would pass over, which only a module can have."""
        if self._watched is not None:
            self._watched.check()

    @property
    def plays(self) -> bool:
        """Whether `best` is what the module would do, where there is one: nothing of it is passed over."""
        if self._module is None:
            return True
        try:
            self.check()
        except ConfigError:
            return False
        return all(vars(asked).keys().isdisjoint(self.PLAYED) for asked in self._asked())

    def _asked(self) -> tuple[Any, ...]:
        """The modules that are asked for the best action."""
        return (self._module,)

    @abstractmethod
    def best(self, obs: NDArray[np.float32], mask: NDArray[np.bool_] | None = None) -> NDArray[Any]:
        """The best actions for `obs` `[n, obs_dim]`, of choices those that `mask` `[n, size]` allows."""

    def _views(self) -> Iterator[tuple[str, NDArray[np.float32]]]:
        for of, part in self.parts.items():
            for name, view in part.views().items():
                yield f"{of}.{name}" if of else name, view

    def _made(self) -> tuple[Watched, Any]:
        """A module whose parameters are this memory; nobody's random numbers are drawn for it."""
        torch = imported_torch()
        from rlox.optim import FlatParameters
        from rlox.rng import keyed

        # as if nobody was in a block of inference or of another device
        with torch.inference_mode(False), torch.device("cpu"), keyed(0):
            require_float32()
            module, flats = self._make(), {}
            for of, part in self.parts.items():
                vector = torch.from_numpy(part.vector)
                flats[of] = FlatParameters(module.get_submodule(of), vector=vector)
                assert flats[of].layout.shapes == part.layout.shapes
                flats[of].keep()
            return self._watch(module, flats), module
