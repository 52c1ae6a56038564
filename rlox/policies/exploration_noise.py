"""Random draws for exploration; they depend on the step number and are the same for all backends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rlox._core import Stream
from rlox.policies.step_blocks import StepBlocks

__all__ = ["EpsilonDraws", "NormalDraws"]

StepDraws = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]


class EpsilonDraws:
    """Draws for epsilon-greedy exploration: which environments explore in a step, and the random actions.

    Parameters
    ----------
    n_actions : number of discrete actions
    n_envs : number of environments
    epsilon : function from the elapsed fraction of the run, 0 to 1, to the probability of exploring
    seed : seed of the run; the draws of step t come from the stream "explore"
    """

    def __init__(self, n_actions: int, n_envs: int, epsilon: Callable[[float], float], seed: int) -> None:
        self.epsilon = epsilon
        self._n_actions, self._n_envs, self._seed = n_actions, n_envs, seed
        self._draws = StepBlocks(self._draw, n_envs)

    def random_actions(self, step: int, obs: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return uniformly random actions `[N]`."""
        return self._draws[step][2]

    def _draw(self, block: int, rows: int) -> Sequence[StepDraws]:
        """Draw two uniform numbers and an action for each step, `[N]` each; the second gives the action."""
        shape = (2, rows, self._n_envs)
        u, picks = Stream(self._seed, "explore", block).uniform(math.prod(shape)).reshape(shape)
        choices: NDArray[np.int64] = (picks * self._n_actions).astype(np.int64)
        return list(zip(u, picks, choices, strict=True))


class NormalDraws:
    """Standard normal noise for each step, and uniformly random actions.

    Parameters
    ----------
    shape : shape of the noise of one environment
    act_dim : length of the action vector
    n_envs : number of environments
    seed : seed of the run; the noise of step t comes from the stream "explore"
    """

    def __init__(self, shape: tuple[int, ...], act_dim: int, n_envs: int, seed: int) -> None:
        self._noise_shape, self._action_shape = (n_envs, *shape), (n_envs, act_dim)
        self._seed = seed

    def random_actions(self, step: int, obs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return uniformly random actions `[N, act_dim]`."""
        u = Stream(self._seed, "random", step).uniform(math.prod(self._action_shape))
        return (2.0 * u - 1.0).astype(np.float32).reshape(self._action_shape)

    def _normal(self, block: int, rows: int) -> NDArray[np.float32]:
        """Draw the noise of a block of steps, `[rows, N, *shape]`."""
        shape = (rows, *self._noise_shape)
        noise = Stream(self._seed, "explore", block).normal(math.prod(shape))
        return noise.reshape(shape).astype(np.float32)
