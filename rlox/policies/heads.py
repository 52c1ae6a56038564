"""Distributions of actions, computed from the outputs of a network.

`outputs` are `[B, size]`: logits of discrete actions, or the means of a continuous action.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor, nn

from rlox.networks.gaussians import LOG_SQRT_2PI, log_normal
from rlox.policies.base import NoiseBlocks

__all__ = [
    "MASKED_LOGIT",
    "CategoricalHead",
    "GaussianHead",
    "Head",
    "HeadSampler",
    "choice_noise",
    "gumbel",
    "normal_noise",
    "sample_choices",
    "sample_vectors",
    "score_choices",
    "score_vectors",
]

# The logit of padding and of actions that are not allowed. Its probability p is exactly 0, and so is
# p * (log p * g) for any gradient g. With the lowest float32, log p * g could be -inf and the product NaN.
MASKED_LOGIT = -1e30

# Maps the outputs `[N, size]` of rollout step t to actions `[N]` or `[N, size]`.
HeadSampler = Callable[[Tensor, int], Tensor]


def gumbel(shape: tuple[int, ...], generator: torch.Generator | None, device: torch.device) -> Tensor:
    """Return g = -log(-log u) of uniform u: the argmax of logits + g is a draw from their softmax."""
    u = torch.rand(shape, generator=generator, device=device)
    return u.clamp_min_(1e-20).log_().neg_().log_().neg_()


def choice_noise(n_steps: int, n_envs: int, n: int, generator: torch.Generator) -> NoiseBlocks:
    """Return the Gumbel noise of a rollout for logits `[n_envs, n]`."""
    device = generator.device
    return NoiseBlocks(lambda shape: gumbel(shape, generator, device), n_steps, (n_envs, n))


def normal_noise(n_steps: int, n_envs: int, std: Tensor, generator: torch.Generator) -> NoiseBlocks:
    """Return the noise of a rollout for means `[n_envs, n]`, with standard deviations `std` `[n]`."""
    return NoiseBlocks(
        lambda shape: torch.randn(shape, generator=generator, device=std.device).mul_(std),
        n_steps,
        (n_envs, len(std)),
    )


def sample_choices(logits: Tensor, generator: torch.Generator | None) -> Tensor:
    """Sample discrete actions `[B]` from logits `[B, n]`."""
    p = torch.softmax(logits, -1)
    return torch.multinomial(p, 1, generator=generator).squeeze(-1)


def sample_vectors(mean: Tensor, log_std: Tensor, generator: torch.Generator | None) -> Tensor:
    """Sample actions `[B, n]` from means `[B, n]` and log standard deviations `[n]` or `[B, n]`."""
    noise = torch.randn(mean.shape, generator=generator, device=mean.device)
    return mean + noise * log_std.exp()


def score_choices(logits: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
    """Return log softmax(logits) at `actions`, and the entropy -sum p log p, each `[B]`."""
    log_p = torch.log_softmax(logits, -1)
    log_prob = log_p.gather(-1, actions.unsqueeze(-1)).squeeze(-1)
    return log_prob, -(log_p.exp() * log_p).sum(-1)


def score_vectors(mean: Tensor, log_std: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
    """Return log-density and entropy, each `[B]`; `actions` and `mean` are `[B, n]`, `log_std` is `[n]`."""
    log_prob = log_normal(actions, mean, log_std).sum(-1)
    return log_prob, (log_std + 0.5 + LOG_SQRT_2PI).sum().expand(len(mean))


class Head(nn.Module, ABC):
    """A distribution of actions for each row of `size` outputs."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    @abstractmethod
    def sampler(self, n_steps: int, n_envs: int, generator: torch.Generator) -> HeadSampler:
        """Return a sampler for a rollout; its noise is drawn from `generator` in blocks of steps."""

    @abstractmethod
    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Sample an action for each row; `generator` defaults to torch's default generator."""

    @abstractmethod
    def mode(self, outputs: Tensor) -> Tensor:
        """Return the best action of each row."""

    @abstractmethod
    def score(self, outputs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log-probability of `actions` and the entropy, each `[B]`."""


class CategoricalHead(Head):
    """A distribution over `size` discrete actions; outputs are logits."""

    def sampler(self, n_steps: int, n_envs: int, generator: torch.Generator) -> HeadSampler:
        """Return a Gumbel-max sampler: argmax(logits + g) is a draw from softmax(logits)."""
        noise = choice_noise(n_steps, n_envs, self.size, generator)
        return lambda outputs, t: (outputs + noise[t]).argmax(-1)

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Sample an action `[B]`."""
        return sample_choices(outputs, generator)

    def mode(self, outputs: Tensor) -> Tensor:
        """Return the most likely action `[B]`."""
        return outputs.argmax(-1)

    def score(self, outputs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return log softmax(outputs) at `actions`, and -sum p log p."""
        return score_choices(outputs, actions)


class GaussianHead(Head):
    """A Gaussian over `size` independent numbers: outputs are means, `log_std` `[size]` is learned."""

    def __init__(self, size: int, log_std_init: float = 0.0) -> None:
        super().__init__(size)
        self.log_std = nn.Parameter(torch.full((size,), float(log_std_init)))

    def sampler(self, n_steps: int, n_envs: int, generator: torch.Generator) -> HeadSampler:
        """Return a sampler that adds scaled normal noise to the means."""
        noise = normal_noise(n_steps, n_envs, self.log_std.detach().exp(), generator)
        return lambda outputs, t: outputs + noise[t]

    def sample(self, outputs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Sample an action `[B, size]`."""
        return sample_vectors(outputs, self.log_std, generator)

    def mode(self, outputs: Tensor) -> Tensor:
        """Return the means."""
        return outputs

    def score(self, outputs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log-density of `actions` and the entropy."""
        return score_vectors(outputs, self.log_std, actions)
