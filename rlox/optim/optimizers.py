"""Optimizers on all trainable parameters in one vector, with gradients in another, and target networks.

With one vector, the global norm, the clipping and the step take a few operations for any number of layers;
in the small networks of reinforcement learning, the number of operations is most of the cost. A target
network is updated by one interpolation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from itertools import chain
from operator import is_
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlox.errors import ConfigError
from rlox.networks.gradients import gradients_of
from rlox.parameters.layout import Layout, restore_moments
from rlox.parameters.optimizer import ADAM_EPS
from rlox.stopping import raise_if_expired

__all__ = ["Adam", "AdamW", "FlatParameters", "Optimizer", "RMSprop", "TargetNetwork"]


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
        self.module = module
        self._record_module()
        self.gradient = torch.zeros_like(self.vector) if is_learned else self.vector.new_empty(0)
        self._gradients = list(self.views(self.gradient).values()) if is_learned else []
        if is_learned:
            self._attach_gradients()

    def backward(self, loss: Tensor, max_norm: float | None) -> Tensor:
        """Compute the gradients of `loss`; return their norm, and clip it to `max_norm` if given."""
        self._attach_gradients()
        torch._foreach_copy_(self._gradients, gradients_of(loss, self.parameters))
        return self._clip(max_norm)

    def clip(self, max_norm: float | None) -> Tensor:
        """Return the global norm of the gradients, then clip it to `max_norm` if given."""
        self._attach_gradients()
        return self._clip(max_norm)

    def _clip(self, max_norm: float | None) -> Tensor:
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
        modules = list(self.module.modules())
        self._module_dicts: list[dict[str, Any]] = [m._modules for m in modules]
        self._module_dicts += [m._parameters for m in modules]
        self._module_entries = self._list_module_entries()
        held_ids = {id(p) for p in self.parameters}
        self._other_parameters = [p for p in self.module.parameters() if id(p) not in held_ids]

    def _list_module_entries(self) -> list[Any]:
        return list(chain.from_iterable(map(dict.values, self._module_dicts)))

    def _require_unchanged(self) -> None:
        """Raise `ConfigError` if other parameters are trainable than before; takes a few microseconds."""
        entries = self._list_module_entries()
        is_same = len(entries) == len(self._module_entries) and all(map(is_, entries, self._module_entries))
        if is_same and not any(p.requires_grad for p in self._other_parameters):
            return
        held_ids, parameters_by_name = {id(p) for p in self.parameters}, dict(self.module.named_parameters())
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


M = TypeVar("M", bound=nn.Module)


class TargetNetwork(Generic[M]):
    """A target network: `module` starts as a copy of `online` and follows it without gradients.

    `online` has the parameters of the learned network. `module` is another network of the same architecture;
    it is put into evaluation mode (no dropout). It shares the online network's buffers, such as the running
    moments of batch normalisation, and its frozen parameters.
    """

    def __init__(self, module: M, online: FlatParameters) -> None:
        self.module = module.eval()
        self._online = online
        for name, parameter in module.named_parameters():
            parameter.requires_grad_(name in online.layout.slices)
        self._flat = FlatParameters(module, is_learned=False)
        _share_constants(online.module, module)
        module.requires_grad_(False)
        self.copy_online()

    @torch.no_grad()
    def copy_online(self) -> None:
        """Copy the trainable parameters of the online network."""
        self._flat.vector.copy_(self._online.vector)

    @torch.no_grad()
    def polyak_update(self, tau: float) -> None:
        """target <- (1 - tau) target + tau online, in one pass over all parameters."""
        if tau == 1.0:
            self.copy_online()
        else:
            self._flat.vector.lerp_(self._online.vector, tau)

    @property
    def vector(self) -> Tensor:
        """The target's parameters, in the layout of the online network's."""
        return self._flat.vector

    def state(self) -> dict[str, Tensor]:
        """Return copies of the parameters by name."""
        return {name: view.clone() for name, view in self._flat.views(self._flat.vector).items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`; `KeyError` if a parameter is missing."""
        saved = {name: torch.as_tensor(state[name]) for name in self._flat.layout.slices}
        others = {name: torch.as_tensor(value) for name, value in state.items() if name not in saved}
        self.module.load_state_dict({**self.module.state_dict(), **saved, **others})


def _share_constants(online: nn.Module, target: nn.Module) -> None:
    """Let `target` have the buffers and the frozen parameters of `online`, which is alike."""
    online_modules = dict(online.named_modules())
    for prefix, module in target.named_modules():
        online_module = online_modules[prefix]
        module._buffers.update(online_module._buffers)
        for name, parameter in module._parameters.items():
            # not by name: parameters that layers have in common are listed under one of their names only
            if parameter is not None and not parameter.requires_grad:
                module._parameters[name] = online_module._parameters[name]


class Optimizer(ABC):
    """An optimizer of all trainable parameters of `module`, with clipping of the global gradient norm."""

    # Names of the optimizer's moments, as in torch.
    moment_names: ClassVar[tuple[str, ...]]

    def __init__(self, module: nn.Module, lr: float) -> None:
        self.lr = lr
        self.steps = 0
        self.flat = FlatParameters(module)
        self._moments = {name: torch.zeros_like(self.flat.vector) for name in self.moment_names}

    @property
    def vector(self) -> Tensor:
        """All parameters."""
        return self.flat.vector

    def moment(self, name: str) -> Tensor:
        """Return the moment of this name, a vector in the layout of the parameters."""
        return self._moments[name]

    @property
    def gradient(self) -> Tensor:
        """All gradients, which are the parameters' `grad`."""
        return self.flat.gradient

    def backward(self, loss: Tensor, max_norm: float | None) -> Tensor:
        """Compute the gradients of `loss`; return their norm, and clip it to `max_norm` if given."""
        raise_if_expired()
        return self.flat.backward(loss, max_norm)

    def clip(self, max_norm: float | None) -> Tensor:
        """Return the global norm of the present gradients, then clip it to `max_norm` if given."""
        raise_if_expired()
        return self.flat.clip(max_norm)

    def minimize(self, loss: Tensor, max_norm: float | None) -> Tensor:
        """Take one step down the gradient of `loss`, clipped to `max_norm`; return the norm before that."""
        norm = self.backward(loss, max_norm)
        self.step()
        return norm

    @torch.no_grad()
    def step(self) -> None:
        """Take one step with the gradients of the last `backward` or `clip`."""
        self.steps += 1
        self._step(self.flat.vector, self.flat.gradient, *self._moments.values())

    @abstractmethod
    def _step(self, vector: Tensor, gradient: Tensor, *moments: Tensor) -> None:
        """Change `vector` and the moments in place."""

    def state(self) -> dict[str, Any]:
        """Return the step count and copies of the moments, by parameter name."""
        views = {name: self.flat.views(vector) for name, vector in self._moments.items()}
        names = self.flat.views(self.flat.vector)
        moments = {n: {name: views[name][n].clone() for name in self.moment_names} for n in names}
        return {"steps": self.steps, "moments": moments}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`, also of a `NativeOptimizer`; `CheckpointError` if it does not fit."""
        self.steps = restore_moments(state, self.flat.layout, self._moments, _copy_into)


def _copy_into(view: Tensor, saved: Any) -> None:
    view.copy_(torch.as_tensor(saved))


class Adam(Optimizer):
    """`torch.optim.Adam` (Kingma & Ba 2015, algorithm 1), in one fused pass over the flat vectors."""

    moment_names = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        module: nn.Module,
        lr: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = ADAM_EPS,
    ) -> None:
        super().__init__(module, lr)
        self.betas, self.eps = betas, eps
        self._step_tensor = torch.zeros((), device=self.vector.device)  # `steps` as a tensor, for the kernel

    def _step(self, vector: Tensor, gradient: Tensor, *moments: Tensor) -> None:
        first_moment, second_moment = moments
        beta1, beta2 = self.betas
        torch._fused_adam_(
            [vector], [gradient], [first_moment], [second_moment], [], [self._step_tensor.fill_(self.steps)],
            lr=self.lr, beta1=beta1, beta2=beta2, weight_decay=0.0, eps=self.eps,
            amsgrad=False, maximize=False,
        )  # fmt: skip


class AdamW(Adam):
    """`torch.optim.AdamW`: Adam with decoupled weight decay (Loshchilov & Hutter 2019)."""

    def __init__(self, module: nn.Module, lr: float, *, weight_decay: float, eps: float) -> None:
        super().__init__(module, lr, eps=eps)
        self.weight_decay = weight_decay

    def _step(self, vector: Tensor, gradient: Tensor, *moments: Tensor) -> None:
        vector.mul_(1.0 - self.lr * self.weight_decay)
        super()._step(vector, gradient, *moments)


class RMSprop(Optimizer):
    """`torch.optim.RMSprop` without momentum (Tieleman & Hinton 2012).

    With `tf_like`, epsilon is inside the root and the initial mean square is 1, as in TensorFlow, which
    OpenAI Baselines' A2C and IMPALA used. This makes the first steps smaller.
    """

    moment_names = ("square_avg",)

    def __init__(
        self,
        module: nn.Module,
        lr: float,
        *,
        alpha: float = 0.99,
        eps: float = 1e-5,
        tf_like: bool = False,
    ) -> None:
        super().__init__(module, lr)
        self.alpha, self.eps, self.tf_like = alpha, eps, tf_like
        if tf_like:
            self._moments["square_avg"].fill_(1.0)

    def _step(self, vector: Tensor, gradient: Tensor, *moments: Tensor) -> None:
        (square,) = moments
        square.mul_(self.alpha).addcmul_(gradient, gradient, value=1.0 - self.alpha)
        root = square.add(self.eps).sqrt_() if self.tf_like else square.sqrt().add_(self.eps)
        vector.addcdiv_(gradient, root, value=-self.lr)
