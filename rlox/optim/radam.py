"""RAdam: Adam with a rectified variance of the adaptive step."""

from __future__ import annotations

import math

from torch import Tensor, nn

from rlox.optim.optimizers import Optimizer

__all__ = ["RAdam"]


class RAdam(Optimizer):
    """`torch.optim.RAdam`: Adam with rectified variance (Liu et al. 2020, arXiv:1908.03265, algorithm 2).

    The first steps (5 with these betas) have no second moment, whose estimate varies too much.
    """

    moment_names = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        module: nn.Module,
        lr: float,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(module, lr)
        self.betas, self.eps = betas, eps

    def _step(self, vector: Tensor, gradient: Tensor, *moments: Tensor) -> None:
        first_moment, second_moment = moments
        (beta1, beta2), t = self.betas, self.steps
        first_moment.lerp_(gradient, 1.0 - beta1)
        second_moment.mul_(beta2).addcmul_(gradient, gradient, value=1.0 - beta2)
        correction1, correction2 = 1.0 - beta1**t, 1.0 - beta2**t
        rho_inf = 2.0 / (1.0 - beta2) - 1.0
        rho = rho_inf - 2.0 * t * beta2**t / correction2
        if rho <= 5.0:
            vector.add_(first_moment, alpha=-self.lr / correction1)
            return
        rectification = math.sqrt(
            (rho - 4.0) * (rho - 2.0) * rho_inf / ((rho_inf - 4.0) * (rho_inf - 2.0) * rho)
        )
        step_size = self.lr * rectification * math.sqrt(correction2) / correction1
        vector.addcdiv_(first_moment, second_moment.sqrt().add_(self.eps), value=-step_size)
