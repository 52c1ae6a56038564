"""All trainable parameters of a module in one vector, and their gradients in another.

With one vector, the global norm, the clipping and the step take a few operations for any number of layers;
in the small networks of reinforcement learning, the number of operations is most of the cost. A target
network is updated by one interpolation.
"""

from __future__ import annotations

from itertools import chain
from operator import is_
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlox.errors import ConfigError
from rlox.networks.traced import way_back
from rlox.parameters.layout import Layout

__all__ = ["FlatParameters"]


class FlatParameters:
    """The trainable parameters of `module` in one flat vector.

    Parameters become views of `vector`, and their `grad` views of `gradient`. Create it after the module is
    on its device; loading a state dict into the module still works afterwards. With `is_learned=False`
    no gradients are allocated. A given `vector` of this layout provides the values, instead of the module's
    own.
    """

    def __init__(self, module: nn.Module, is_learned: bool = True, vector: Tensor | None = None) -> None:
        trainable = {n: p for n, p in module.named_parameters() if p.requires_grad}
        dtypes_and_devices = sorted({f"{p.dtype} on {p.device}" for p in trainable.values()})
        if not dtypes_and_devices:
            raise ConfigError("the policy has no trainable parameter; at least one needs requires_grad=True")
        if len(dtypes_and_devices) > 1:
            raise ConfigError(
                "the policy's trainable parameters must share one dtype and device, got "
                f"{', '.join(dtypes_and_devices)}"
            )
        if inference_names := [name for name, p in trainable.items() if p.is_inference()]:
            raise ConfigError(
                f"{', '.join(inference_names)}: made under torch.inference_mode(), so they cannot have "
                "gradients; make the policy outside of that mode"
            )
        self.parameters = list(trainable.values())
        self.layout = Layout((name, tuple(p.shape)) for name, p in trainable.items())
        has_vector = vector is not None
        self.vector = self.parameters[0].detach().new_zeros(self.layout.size) if vector is None else vector
        for parameter, view in zip(self.parameters, self.views(self.vector).values(), strict=True):
            if not has_vector:
                view.copy_(parameter.detach())
            parameter.data = view
        self._views = list(self.views(self.vector).values())
        self._fixed_memory: NDArray[np.float32] | None = None
        self._record_addresses()
        self._module = module
        self._record_module()
        self.gradient = torch.zeros_like(self.vector) if is_learned else self.vector.new_empty(0)
        self._gradients = list(self.views(self.gradient).values()) if is_learned else []
        if is_learned:
            self._attach_gradients()

    def backward(self, loss: Tensor, max_norm: float | None) -> Tensor:
        """Compute the gradients of `loss`; return their norm, and clip it to `max_norm` if given."""
        way_back([loss], self.parameters)(torch.ones_like(loss))
        return self.clip(max_norm)

    def clip(self, max_norm: float | None) -> Tensor:
        """Return the global norm of the gradients, then clip it to `max_norm` if given."""
        self._attach_gradients()
        norm: Tensor = torch.linalg.vector_norm(self.gradient)
        if max_norm is not None:
            self.gradient.mul_((max_norm / (norm + 1e-6)).clamp_(max=1.0))
        return norm

    def fix_memory(self) -> NDArray[np.float32]:
        """Return the vector's memory, on the CPU; from now on it must not move."""
        self._fixed_memory = memory = self.vector.numpy()
        return memory

    @torch.no_grad()
    def sync_parameters(self) -> None:
        """Make each parameter a view of the vector again if its memory was replaced; keep its present values.

        `torch.nn.utils.vector_to_parameters` and `load_state_dict(assign=True)` replace parameters' memory.
        `ConfigError` if a parameter has another dtype, shape or device, or if a vector of fixed memory moved.
        """
        if self.vector.data_ptr() != self._address:
            self._follow_storage()
        for name, parameter, view, address in zip(
            self.layout.slices, self.parameters, self._views, self._addresses, strict=True
        ):
            if parameter.data_ptr() == address:
                continue
            expected, actual = _describe(view), _describe(parameter)
            if expected != actual:
                raise ConfigError(
                    f"parameter {name} is {actual}, expected {expected}, as when its learner was made; "
                    "change the policy before its learner is made"
                )
            view.copy_(parameter.detach())
            parameter.data = view

    def _follow_storage(self) -> None:
        """Record new addresses after the storage moved to other memory, as `share_memory` does."""
        if self._fixed_memory is not None:
            raise ConfigError(
                "the policy's parameters moved to other memory (share_memory), where the native engine does "
                "not learn; make the run with algo.backend=torch"
            )
        self._record_addresses()

    def _record_addresses(self) -> None:
        """Record the addresses of the vector and its views."""
        self._address = self.vector.data_ptr()
        self._addresses = [view.data_ptr() for view in self._views]

    def _attach_gradients(self) -> None:
        """Make each parameter's `grad` a view of `gradient` again; if it was replaced, copy its values."""
        self.sync_parameters()
        self._require_unchanged()
        for parameter, view in zip(self.parameters, self._gradients, strict=True):
            if not parameter.requires_grad:
                raise ConfigError(self._frozen_message())
            if (gradient := parameter.grad) is not view:
                if gradient is None:
                    view.zero_()
                else:
                    view.copy_(gradient)
                parameter.grad = view

    def _record_module(self) -> None:
        """Record submodules, parameters and frozen parameters, which are compared before every step."""
        modules = list(self._module.modules())
        self._module_dicts: list[dict[str, Any]] = [m._modules for m in modules]
        self._module_dicts += [m._parameters for m in modules]
        self._module_entries = self._list_module_entries()
        held_ids = {id(p) for p in self.parameters}
        self._other_parameters = [p for p in self._module.parameters() if id(p) not in held_ids]

    def _list_module_entries(self) -> list[Any]:
        return list(chain.from_iterable(map(dict.values, self._module_dicts)))

    def _require_unchanged(self) -> None:
        """Raise `ConfigError` if other parameters are trainable than before; takes a few microseconds."""
        entries = self._list_module_entries()
        is_same = len(entries) == len(self._module_entries) and all(map(is_, entries, self._module_entries))
        if is_same and not any(p.requires_grad for p in self._other_parameters):
            return
        held_ids, parameters_by_name = {id(p) for p in self.parameters}, dict(self._module.named_parameters())
        new_names = [
            name for name, p in parameters_by_name.items() if p.requires_grad and id(p) not in held_ids
        ]
        current_ids = {id(p) for p in parameters_by_name.values()}
        removed_names = [
            name
            for name, p in zip(self.layout.slices, self.parameters, strict=True)
            if id(p) not in current_ids
        ]
        if new_names or removed_names:
            raise ConfigError(
                f"{', '.join(dict.fromkeys([*new_names, *removed_names]))}: unfrozen, added, replaced or "
                "removed since the optimizer was made, which would not train them; change layers before the "
                "policy is given, or make a new learner with the policy as it is now"
            )
        self._record_module()

    def _frozen_message(self) -> str:
        names = [n for n, p in zip(self.layout.slices, self.parameters, strict=True) if not p.requires_grad]
        return (
            f"{', '.join(names)}: frozen (requires_grad=False) since the optimizer was made, which trains "
            "them; freeze parameters of a policy before its learner is made"
        )

    def views(self, vector: Tensor) -> dict[str, Tensor]:
        """Return the views of a vector of this layout, by parameter name and in the parameters' shapes."""
        return self.layout.views(vector)


def _describe(tensor: Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)} on {tensor.device}"
