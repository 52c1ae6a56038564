"""Acting by action values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rlox._core import Stream
from rlox.networks import DuelingMLP, inference, mlp
from rlox.policies.base import Policy

__all__ = ["EpsilonGreedy", "QPolicy"]

# Exploration is drawn for so many steps at a time, or for so many numbers if that is less.
BLOCK_STEPS, BLOCK_NUMBERS = 1024, 1 << 18


class QPolicy(Policy):
    """Q(s, a) of each of `n_actions` choices by an MLP; the best one acts.

    Parameters
    ----------
    obs_dim : length of the observation vector
    n_actions : number of choices
    net_arch : hidden widths
    activation : `tanh`, `relu`, `elu` or `silu`
    dueling : separate streams for value and advantage
    epsilon : how often `sample` takes any choice
    """

    def __init__(
        self,
        obs_dim: int,
        n_actions: int,
        net_arch: Sequence[int] = (64, 64),
        activation: str = "relu",
        dueling: bool = False,
        epsilon: float = 0.05,
    ) -> None:
        super().__init__()
        self.n_actions = n_actions
        self.epsilon = epsilon
        self.q: nn.Module = (
            DuelingMLP(obs_dim, n_actions, net_arch, activation)
            if dueling
            else mlp((obs_dim, *net_arch, n_actions), activation)
        )

    def forward(self, obs: Tensor) -> Tensor:
        """Q-values `[..., n_actions]` for `obs` `[..., obs_dim]`."""
        values: Tensor = self.q(obs)
        return values

    def fast_values(self) -> Callable[[Tensor], Tensor]:
        """The Q-values for many small calls without gradients."""
        return inference(self.q) if isinstance(self.q, nn.Sequential) else self.q

    def mode(self, obs: Tensor) -> Tensor:
        """The best choice `[B]`."""
        best: Tensor = self(obs).argmax(-1)
        return best

    def sample(self, obs: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """The best choice `[B]`, or with probability `epsilon` any."""
        best = self.mode(obs)
        u = torch.rand((2, *best.shape), generator=generator, device=best.device)
        return torch.where(u[0] < self.epsilon, (u[1] * self.n_actions).long(), best)


class EpsilonGreedy:
    """Explores with a `QPolicy`: the best choice, or with probability epsilon any.

    Parameters
    ----------
    policy : whose values decide
    n_envs : environments that are acted in side by side
    epsilon : from the part of the run that is over, 0 to 1, to the probability
    seed : of the run; the draws of step t are numbers of the stream "explore"
    device : where the policy is
    """

    def __init__(
        self,
        policy: QPolicy,
        n_envs: int,
        epsilon: Callable[[float], float],
        seed: int,
        device: torch.device,
    ) -> None:
        self.policy = policy
        self.epsilon = epsilon
        self._shape = (max(1, min(BLOCK_STEPS, BLOCK_NUMBERS // n_envs)), n_envs)
        self._seed = seed
        self._device = device
        self._values = policy.fast_values()
        self._block = -1

    def random(self, step: int, obs: NDArray[np.float32]) -> NDArray[np.int64]:
        """Any choice, `[N]`."""
        row = self._row(step)
        choices: NDArray[np.int64] = self._choices[row]
        return choices

    def act(self, obs: NDArray[np.float32], step: int, elapsed: float) -> NDArray[np.int64]:
        """Choices `[N]` for `obs` `[N, obs_dim]`; without gradients."""
        choices = self.random(step, obs)
        exploring = self._u[self._row(step)] < self.epsilon(elapsed)
        if exploring.all():
            return choices
        seen = torch.from_numpy(obs).to(self._device)
        best: NDArray[np.int64] = self._values(seen).argmax(-1).cpu().numpy()
        return np.where(exploring, choices, best) if exploring.any() else best

    def _row(self, step: int) -> int:
        """Where the draws of `step` are in the block that has them."""
        block, row = divmod(step, self._shape[0])
        if block != self._block:
            count = self._shape[0] * self._shape[1]
            draws = Stream(self._seed, "explore", block).uniform(2 * count)
            self._u, self._picks = draws.reshape(2, *self._shape)
            self._choices = (self._picks * self.policy.n_actions).astype(np.int64)
            self._block = block
        return row
