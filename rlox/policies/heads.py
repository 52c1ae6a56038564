"""Distributions of actions, given what a network says of them, apart from the network.

`outputs` are `[B, size]`: logits of choices, or the means of a vector.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn

from rlox.policies.base import NoiseBlocks
from rlox.policies.continuous import LOG_SQRT_2PI, log_normal
from rlox.policies.discrete import gumbel

__all__ = ["CategoricalHead", "Explorer", "GaussianHead", "Head"]

# Maps the outputs `[N, size]` of rollout step t to actions `[N]` or `[N, size]`.
Explorer = Callable[[Tensor, int], Tensor]


class Head(nn.Module, ABC):
    """A distribution of actions for each row of `size` outputs."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    @abstractmethod
    def explorer(self, n_steps: int, n_envs: int, generator: torch.Generator) -> Explorer:
        """Samples of a rollout, whose noise is drawn from `generator` in blocks of steps."""

    @abstractmethod
    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A sampled action of each row; torch's default generator unless given."""

    @abstractmethod
    def mode(self, outputs: Tensor) -> Tensor:
        """The best action of each row."""

    @abstractmethod
    def score(self, outputs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probability of `actions` and entropy, each `[B]`."""


class CategoricalHead(Head):
    """A choice among `size`: outputs are logits."""

    def explorer(self, n_steps: int, n_envs: int, generator: torch.Generator) -> Explorer:
        """Gumbel-max: argmax(logits + g) is a draw from softmax(logits)."""
        noise = NoiseBlocks(lambda shape: gumbel(shape, generator), n_steps, (n_envs, self.size))
        return lambda outputs, t: (outputs + noise[t]).argmax(-1)

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A sampled choice `[B]`."""
        p = torch.softmax(outputs, -1)
        return torch.multinomial(p, 1, generator=generator).squeeze(-1)

    def mode(self, outputs: Tensor) -> Tensor:
        """The most likely choice `[B]`."""
        return outputs.argmax(-1)

    def score(self, outputs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """log softmax(outputs) at `actions`, and -sum p log p."""
        log_p = torch.log_softmax(outputs, -1)
        log_prob = log_p.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
        return log_prob, -(log_p.exp() * log_p).sum(-1)


class GaussianHead(Head):
    """A vector of `size` independent numbers: outputs are means, `log_std` `[size]` is learned."""

    def __init__(self, size: int, log_std_init: float = 0.0) -> None:
        super().__init__(size)
        self.log_std = nn.Parameter(torch.full((size,), float(log_std_init)))

    def explorer(self, n_steps: int, n_envs: int, generator: torch.Generator) -> Explorer:
        """Means plus scaled normal noise."""
        std = self.log_std.detach().exp()
        noise = NoiseBlocks(
            lambda shape: torch.randn(shape, generator=generator, device=std.device).mul_(std),
            n_steps,
            (n_envs, self.size),
        )
        return lambda outputs, t: outputs + noise[t]

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """A sampled vector `[B, size]`."""
        noise = torch.randn(outputs.shape, generator=generator, device=outputs.device)
        return outputs + noise * self.log_std.exp()

    def mode(self, outputs: Tensor) -> Tensor:
        """The means."""
        return outputs

    def score(self, outputs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Log-density of `actions`, dimensions independent, and the entropy."""
        log_prob = log_normal(actions, outputs, self.log_std).sum(-1)
        return log_prob, (self.log_std + 0.5 + LOG_SQRT_2PI).sum().expand(len(outputs))
