"""Exploring in Rust: step by step, or for a stretch of steps in one call, with the same bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rlox._core import Explorer
from rlox.policies.blocks import StepBlocks
from rlox.policies.draws import EpsilonDraws, NormalDraws
from rlox.policies.native_q import NativeQ
from rlox.policies.native_vectors import NativeDeterministic, NativeSquashed
from rlox.sources.replay import Behaviour

__all__ = ["Explores", "NativeExploration", "NativeGreedy"]


@runtime_checkable
class Explores(Behaviour, Protocol):
    """How a learner explores in Rust."""

    explorer: Explorer

    @property
    def vector(self) -> NDArray[np.float32]:
        """The parameters of what acts."""

    def ahead(
        self, step: int, actions: NDArray[np.float32], elapsed: Sequence[float]
    ) -> NDArray[np.float32] | None:
        """What the explorer acts with from step number `step` on; `actions` `[T, N, ...]` get what is chance.

        `elapsed` are the parts of the run that are over at the last of the T steps; at the others no policy
        chooses.
        """


class NativeGreedy(EpsilonDraws):
    """Explores with a network in Rust, by the draws of `rlox.policies.q.EpsilonGreedy`, as parameters are."""

    def __init__(
        self, native: NativeQ, n_envs: int, epsilon: Callable[[float], float], seed: int
    ) -> None:
        super().__init__(native.sizes.size, n_envs, epsilon, seed)
        self._native = native
        self.explorer = native.explorer

    @property
    def vector(self) -> NDArray[np.float32]:
        """The parameters of the network."""
        return self._native.vector

    def act(self, obs: NDArray[np.float32], step: int, elapsed: float) -> NDArray[np.int64]:
        """Choices `[N]` for `obs` `[N, obs_dim]`."""
        u, _, choices = self._draws[step]
        chosen: NDArray[np.int64] = np.where(u < self.epsilon(elapsed), choices, -1)
        with self._native.using:
            self.explorer.act(self.vector, obs, chosen)
        return chosen

    def ahead(self, step: int, actions: NDArray[np.int64], elapsed: Sequence[float]) -> None:
        """Choices of chance into `actions` `[T, N]`, -1 where the network decides."""
        draws = [self._draws[at] for at in range(step, step + len(actions))]
        actions[:] = [choices for *_, choices in draws]
        if elapsed:
            decided = actions[-len(elapsed) :]
            u = np.array([u for u, *_ in draws[-len(elapsed) :]])
            epsilon = np.array([self.epsilon(part) for part in elapsed])
            decided[u >= epsilon[:, None]] = -1


class NativeExploration(NormalDraws):
    """Explores with an actor in Rust, by the draws of `rlox.policies.exploration.NoisyExploration`."""

    def __init__(
        self, native: NativeSquashed | NativeDeterministic, n_envs: int, seed: int
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
        """The parameters of the actor."""
        return self._native.vector

    def act(self, obs: NDArray[np.float32], step: int, elapsed: float) -> NDArray[np.float32]:
        """Vectors `[N, act_dim]` for `obs` `[N, obs_dim]`."""
        actions = np.empty(self._action_shape, np.float32)
        with self._native.using:
            self.explorer.act(self.vector, obs, actions, self._noise[step])
        return actions

    def ahead(
        self, step: int, actions: NDArray[np.float32], elapsed: Sequence[float]
    ) -> NDArray[np.float32] | None:
        """The noise `[len(elapsed), N, act_dim]`; vectors of chance into the first `actions`."""
        given = len(actions) - len(elapsed)
        for t in range(given):
            actions[t] = self.random(step + t, actions[t])
        if not elapsed:
            return None
        return np.stack([self._noise[at] for at in range(step + given, step + len(actions))])
