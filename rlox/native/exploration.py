"""Exploration in Rust: step by step, or several steps in one call, with bit-identical results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rlox._core import Explorer
from rlox.native.q_policy import NativeQPolicy
from rlox.native.vector_policies import NativeDeterministicPolicy, NativeSquashedPolicy
from rlox.policies.exploration_noise import EpsilonDraws, NormalDraws, StepBlocks
from rlox.sources.replay import ExplorationPolicy

__all__ = ["NativeEpsilonGreedy", "NativeExplorationPolicy", "NativeNoisyExploration"]


@runtime_checkable
class NativeExplorationPolicy(ExplorationPolicy, Protocol):
    """The interface of exploration in Rust."""

    explorer: Explorer

    @property
    def vector(self) -> NDArray[np.float32]:
        """The parameters of the acting network."""

    def draw_ahead(
        self, step: int, actions: NDArray[np.float32], elapsed: Sequence[float]
    ) -> NDArray[np.float32] | None:
        """Draw the random numbers of T steps from step number `step` on; return the noise, or None.

        Random actions are written into `actions` `[T, N, ...]`. `elapsed` has the elapsed fraction of the
        run for each of the last `len(elapsed)` steps; in the steps before, all actions are random.
        """


class NativeEpsilonGreedy(EpsilonDraws):
    """Explores with a network in Rust and the draws of `rlox.policies.q_policy.EpsilonGreedy`."""

    def __init__(
        self, native: NativeQPolicy, n_envs: int, epsilon: Callable[[float], float], seed: int
    ) -> None:
        super().__init__(native.sizes.size, n_envs, epsilon, seed)
        self._native = native
        self.explorer = native.explorer

    @property
    def vector(self) -> NDArray[np.float32]:
        """The network's parameters."""
        return self._native.vector

    def act(self, obs: NDArray[np.float32], step: int, elapsed: float) -> NDArray[np.int64]:
        """Return actions `[N]` for `obs` `[N, obs_dim]`."""
        u, _, choices = self._draws[step]
        actions: NDArray[np.int64] = np.where(u < self.epsilon(elapsed), choices, -1)
        with self._native.lock:
            self.explorer.act(self.vector, obs, actions)
        return actions

    def draw_ahead(self, step: int, actions: NDArray[np.int64], elapsed: Sequence[float]) -> None:
        """Write random actions into `actions` `[T, N]`, and -1 where the network chooses the action."""
        draws = [self._draws[t] for t in range(step, step + len(actions))]
        actions[:] = [choices for *_, choices in draws]
        if elapsed:
            network_steps = actions[-len(elapsed) :]
            u = np.array([u for u, *_ in draws[-len(elapsed) :]])
            epsilon = np.array([self.epsilon(progress) for progress in elapsed])
            network_steps[u >= epsilon[:, None]] = -1


class NativeNoisyExploration(NormalDraws):
    """Explores with an actor in Rust and the draws of `rlox.policies.exploration.NoisyExploration`."""

    def __init__(
        self, native: NativeSquashedPolicy | NativeDeterministicPolicy, n_envs: int, seed: int
    ) -> None:
        size = native.sizes.size
        super().__init__((size,), size, n_envs, seed)
        self._native = native
        self.explorer = native.explorer
        self._noise: StepBlocks[NDArray[np.float32]] = StepBlocks(
            lambda block, rows: list(self._normal(block, rows)), math.prod(self._noise_shape)
        )

    @property
    def vector(self) -> NDArray[np.float32]:
        """The actor's parameters."""
        return self._native.vector

    def act(self, obs: NDArray[np.float32], step: int, elapsed: float) -> NDArray[np.float32]:
        """Return actions `[N, act_dim]` for `obs` `[N, obs_dim]`."""
        actions = np.empty(self._action_shape, np.float32)
        with self._native.lock:
            self.explorer.act(self.vector, obs, actions, self._noise[step])
        return actions

    def draw_ahead(
        self, step: int, actions: NDArray[np.float32], elapsed: Sequence[float]
    ) -> NDArray[np.float32] | None:
        """Return the noise `[len(elapsed), N, act_dim]` of the last steps; the others get random actions."""
        n_random = len(actions) - len(elapsed)
        for t in range(n_random):
            actions[t] = self.random_actions(step + t, actions[t])
        if not elapsed:
            return None
        return np.stack([self._noise[at] for at in range(step + n_random, step + len(actions))])
