"""What a step does with the gradients: Adam and RMSprop, as torch and TensorFlow have them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rlox.optim.flat_parameters import FlatParameters
from rlox.optim.native import ADAM_EPS
from rlox.parameters.layout import restore_moments
from rlox.stopping import raise_if_expired

__all__ = ["Adam", "AdamW", "Optimizer", "RMSprop"]


class Optimizer(ABC):
    """A rule over every trainable parameter of `module`, with clipping of their global norm."""

    # Names of the vectors that the rule keeps, which are torch's.
    moments: ClassVar[tuple[str, ...]]

    def __init__(self, module: nn.Module, lr: float) -> None:
        self.lr = lr
        self.steps = 0
        self.flat = FlatParameters(module)
        self._moments = {name: torch.zeros_like(self.flat.vector) for name in self.moments}

    @property
    def vector(self) -> Tensor:
        """All parameters."""
        return self.flat.vector

    def moment(self, name: str) -> Tensor:
        """The vector of this name in `moments`, which lies as the parameters do."""
        return self._moments[name]

    @property
    def gradient(self) -> Tensor:
        """Their gradients, which are the parameters' `grad`."""
        return self.flat.gradient

    def backward(self, loss: Tensor, max_norm: float | None) -> Tensor:
        """Gradients of `loss`, clipped together to `max_norm` if given; returns their norm before that."""
        raise_if_expired()
        return self.flat.backward(loss, max_norm)

    def clip(self, max_norm: float | None) -> Tensor:
        """The norm of the gradients that parameters have, then cut together to `max_norm` if given."""
        raise_if_expired()
        return self.flat.clip(max_norm)

    @torch.no_grad()
    def step(self) -> None:
        """One step along the gradients of the last `backward` or `clip`."""
        self.steps += 1
        self._step(self.flat.vector, self.flat.gradient, *self._moments.values())

    @abstractmethod
    def _step(self, vector: Tensor, gradient: Tensor, *moments: Tensor) -> None:
        """Change `vector` and the moments in place."""

    def state(self) -> dict[str, Any]:
        """Step count and copies of the moments, by parameter name."""
        views = {name: self.flat.views(vector) for name, vector in self._moments.items()}
        names = self.flat.views(self.flat.vector)
        moments = {n: {name: views[name][n].clone() for name in self.moments} for n in names}
        return {"steps": self.steps, "moments": moments}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`, also of a `NativeOptimizer`; others that do not fit are an error."""
        self.steps = restore_moments(state, self.flat.layout, self._moments, _copy_into)


def _copy_into(view: Tensor, saved: Any) -> None:
    view.copy_(torch.as_tensor(saved))


class Adam(Optimizer):
    """`torch.optim.Adam` (Kingma & Ba 2015, algorithm 1), in one pass over all that a step changes."""

    moments = ("exp_avg", "exp_avg_sq")

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
        self._step_tensor = torch.zeros((), device=self.vector.device)  # `steps`, where the kernel wants it

    def _step(self, vector: Tensor, gradient: Tensor, *moments: Tensor) -> None:
        first_moment, second_moment = moments
        beta1, beta2 = self.betas
        torch._fused_adam_(
            [vector], [gradient], [first_moment], [second_moment], [], [self._step_tensor.fill_(self.steps)],
            lr=self.lr, beta1=beta1, beta2=beta2, weight_decay=0.0, eps=self.eps,
            amsgrad=False, maximize=False,
        )  # fmt: skip


class AdamW(Adam):
    """`torch.optim.AdamW`: Adam whose step shrinks all parameters besides (Loshchilov & Hutter 2019)."""

    def __init__(self, module: nn.Module, lr: float, *, weight_decay: float, eps: float) -> None:
        super().__init__(module, lr, eps=eps)
        self.weight_decay = weight_decay

    def _step(self, vector: Tensor, gradient: Tensor, *moments: Tensor) -> None:
        vector.mul_(1.0 - self.lr * self.weight_decay)
        super()._step(vector, gradient, *moments)


class RMSprop(Optimizer):
    """`torch.optim.RMSprop` without momentum (Tieleman & Hinton 2012).

    `tf_like`: epsilon inside the root and a mean square that begins at 1, as in TensorFlow, with which
    OpenAI Baselines' A2C and IMPALA were run; the first steps are smaller.
    """

    moments = ("square_avg",)

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
