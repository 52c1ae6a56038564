"""Random draws for exploration: a function of the number of the step, the same for all backends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlox._core import Stream

__all__ = ["EpsilonDraws", "NormalDraws", "StepBlocks"]

# Draws are made for this many steps at a time, or for this many numbers if that is less.
BLOCK_STEPS, MAX_BLOCK_NUMBERS = 1024, 1 << 18

T = TypeVar("T")


class StepBlocks(Generic[T]):
    """The draws of the steps 0, 1, ..., by step number; those of a block of steps are made and kept together.

    Parameters
    ----------
    draw : `draw(block, rows)` returns the draws of the `rows` steps of block 0, 1, ...; they must depend only
        on the block's number, so that a step's draws do not depend on the order of requests
    numbers_per_step : random numbers for each step
    """

    def __init__(self, draw: Callable[[int, int], Sequence[T]], numbers_per_step: int) -> None:
        self._draw = draw
        self._steps_per_block = max(1, min(BLOCK_STEPS, MAX_BLOCK_NUMBERS // numbers_per_step))
        self._block = -1
        self._draws: Sequence[T] = ()

    def __getitem__(self, step: int) -> T:
        block, row = divmod(step, self._steps_per_block)
        if block != self._block:
            self._draws, self._block = self._draw(block, self._steps_per_block), block
        return self._draws[row]


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
