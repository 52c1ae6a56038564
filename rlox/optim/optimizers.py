"""Optimizers: Adam, AdamW and RMSprop as in torch, RMSprop also as in TensorFlow; and target networks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

from rlox.optim.flat_parameters import FlatParameters
from rlox.parameters.layout import restore_moments
from rlox.parameters.optimizer import ADAM_EPS
from rlox.stopping import raise_if_expired

__all__ = ["Adam", "AdamW", "Optimizer", "RMSprop", "TargetNetwork"]

M = TypeVar("M", bound=nn.Module)


class TargetNetwork(Generic[M]):
    """A target network: `module` starts as a copy of `online` and follows it without gradients.

    `online` has the parameters of the learned network. `module` is another network of the same architecture.
    """

    def __init__(self, module: M, online: FlatParameters) -> None:
        self.module = module
        self._online = online
        self._flat = FlatParameters(module.requires_grad_(True), is_learned=False)
        module.requires_grad_(False)
        self.copy_online()

    @torch.no_grad()
    def copy_online(self) -> None:
        """Copy the online parameters."""
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
        """Continue from `state()`."""
        self.module.load_state_dict({name: torch.as_tensor(value) for name, value in state.items()})


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
