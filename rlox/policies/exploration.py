"""Exploration in torch; its random draws depend on the step number."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlox._core import Stream
from rlox.devices import to_device
from rlox.policies.exploration_noise import NormalDraws, StepBlocks

__all__ = ["CategoricalExploration", "NoisyExploration"]


class NoisyExploration(NormalDraws):
    """Acts by `act(obs, noise)` with standard normal `noise` `[N, *shape]`.

    Parameters
    ----------
    act : function of observations `[N, obs_dim]` and noise; returns actions `[N, act_dim]` in [-1, 1]
    shape : shape of the noise of one environment
    act_dim : length of the action vector
    n_envs : number of environments
    seed : seed of the run; the noise of step t comes from the stream "explore"
    device : device of the policy
    noise_interval : number of steps that use the same noise
    """

    def __init__(
        self,
        act: Callable[[Tensor, Tensor], Tensor],
        shape: tuple[int, ...],
        act_dim: int,
        n_envs: int,
        seed: int,
        device: torch.device,
        noise_interval: int = 1,
    ) -> None:
        super().__init__(shape, act_dim, n_envs, seed)
        self._act, self._device, self._noise_interval = act, device, noise_interval
        self._noise = StepBlocks(self._draw, math.prod(self._noise_shape))

    def act(self, obs: NDArray[np.float32], step: int, elapsed: float) -> NDArray[np.float32]:
        """Return actions `[N, act_dim]` for `obs` `[N, obs_dim]`; it is called in inference mode."""
        obs_tensor = torch.from_numpy(obs).to(self._device)
        noise = self._noise[step // self._noise_interval]
        actions: NDArray[np.float32] = self._act(obs_tensor, noise).cpu().numpy()
        return actions

    def _draw(self, block: int, rows: int) -> tuple[Tensor, ...]:
        return to_device(torch.from_numpy(self._normal(block, rows)), self._device).unbind(0)


class CategoricalExploration:
    """Samples actions from a distribution over `n_actions`, given by its logits.

    Parameters
    ----------
    logits : function from observations `[N, obs_dim]` to logits `[N, n_actions]`
    n_actions : number of discrete actions
    n_envs : number of environments
    seed : seed of the run; the draws of step t come from the stream "explore"
    device : device of the policy
    """

    def __init__(
        self,
        logits: Callable[[Tensor], Tensor],
        n_actions: int,
        n_envs: int,
        seed: int,
        device: torch.device,
    ) -> None:
        self._logits = logits
        self._seed, self._device, self._shape = seed, device, (n_envs, n_actions)

    def random_actions(self, step: int, obs: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return uniformly random actions `[N]`."""
        n_envs, n_actions = self._shape
        u = Stream(self._seed, "random", step).uniform(n_envs)
        choices: NDArray[np.int64] = (u * n_actions).astype(np.int64)
        return choices

    def act(self, obs: NDArray[np.float32], step: int, elapsed: float) -> NDArray[np.int64]:
        """Return actions `[N]` for `obs` `[N, obs_dim]`; it is called in inference mode.

        argmax(logits - log(-log u)) is a draw from softmax(logits).
        """
        u = Stream(self._seed, "explore", step).uniform(math.prod(self._shape))
        gumbel = -np.log(-np.log(u.clip(1e-20))).reshape(self._shape)
        logits = self._logits(torch.from_numpy(obs).to(self._device)).cpu().numpy()
        choices: NDArray[np.int64] = (logits + gumbel).argmax(-1)
        return choices
