"""Adam over one flat vector: all parameters of a module, their gradients and moments in one piece.

The arithmetic is that of `torch.optim.Adam` (Kingma & Ba 2015, algorithm 1). One vector makes the
global norm, the clipping and the step a handful of operations whatever the number of layers, which
is most of the cost for the small networks of reinforcement learning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from rlox.errors import CheckpointError, ConfigError

__all__ = ["Adam"]

ALIGN = 16  # parameters start at multiples of 64 bytes, where vector loads are fastest


class Adam:
    """Adam with global gradient-norm clipping for every trainable parameter of `module`.

    The module's parameters become views of one vector, so build this after the module is on its
    device; loading a state dict into the module afterwards works as ever.
    """

    def __init__(
        self,
        module: nn.Module,
        lr: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-5,
    ) -> None:
        self.lr, self.betas, self.eps = lr, betas, eps
        self.steps = 0
        named = {n: p for n, p in module.named_parameters() if p.requires_grad}
        if len({(p.dtype, p.device) for p in named.values()}) != 1:
            raise ConfigError(
                "the policy's trainable parameters must share one dtype and device, got "
                + (
                    ", ".join(sorted({f"{p.dtype} on {p.device}" for p in named.values()}))
                    or "none"
                )
            )
        self.parameters = list(named.values())
        self._slices: dict[str, slice] = {}
        start = 0
        for name, parameter in named.items():
            self._slices[name] = slice(start, start + parameter.numel())
            start += -(-parameter.numel() // ALIGN) * ALIGN
        self.vector = self.parameters[0].detach().new_zeros(start)
        self.gradient = torch.zeros_like(self.vector)
        self._first = torch.zeros_like(self.vector)
        self._second = torch.zeros_like(self.vector)
        self._shapes = {name: p.shape for name, p in named.items()}
        for parameter, view in zip(self.parameters, self._views(self.vector).values(), strict=True):
            view.copy_(parameter.detach())
            parameter.data = view
        self._gradients = list(self._views(self.gradient).values())

    def backward(self, loss: Tensor, max_norm: float) -> Tensor:
        """Gradients of `loss`, clipped together to `max_norm`; returns their norm before that."""
        gradients = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        torch._foreach_copy_(
            self._gradients,
            [
                g if g is not None else torch.zeros_like(p)
                for g, p in zip(gradients, self.parameters, strict=True)
            ],
        )
        norm: Tensor = torch.linalg.vector_norm(self.gradient)
        self.gradient.mul_((max_norm / (norm + 1e-6)).clamp_(max=1.0))
        return norm

    @torch.no_grad()
    def step(self) -> None:
        """One Adam step along the gradients of the last `backward`."""
        self.steps += 1
        beta1, beta2 = self.betas
        self._first.lerp_(self.gradient, 1.0 - beta1)
        self._second.mul_(beta2).addcmul_(self.gradient, self.gradient, value=1.0 - beta2)
        scale = (1.0 - beta2**self.steps) ** 0.5
        deviation = self._second.sqrt().div_(scale).add_(self.eps)
        self.vector.addcdiv_(self._first, deviation, value=-self.lr / (1.0 - beta1**self.steps))

    def state(self) -> dict[str, Any]:
        """Step count and copies of both moments, by parameter name."""
        first, second = self._views(self._first), self._views(self._second)
        moments = {
            n: {"exp_avg": first[n].clone(), "exp_avg_sq": second[n].clone()} for n in self._slices
        }
        return {"steps": self.steps, "moments": moments}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`; names or shapes that do not fit are an error."""
        moments = state["moments"]
        if set(moments) != set(self._slices):
            odd = sorted(set(moments) ^ set(self._slices))[0]
            raise CheckpointError(f"optimizer state and policy differ in parameter '{odd}'")
        for key, vector in (("exp_avg", self._first), ("exp_avg_sq", self._second)):
            for name, view in self._views(vector).items():
                saved = moments[name][key]
                if saved.shape != view.shape:
                    raise CheckpointError(
                        f"optimizer state {key} of {name} has shape {tuple(saved.shape)}, "
                        f"expected {tuple(view.shape)}"
                    )
                view.copy_(saved)
        self.steps = int(state["steps"])

    def _views(self, vector: Tensor) -> dict[str, Tensor]:
        return {n: vector[at].view(self._shapes[n]) for n, at in self._slices.items()}
