"""Exploring in Rust: step by step, or for a stretch of steps in one call, with the same bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlox._core import Explorer
from rlox.policies.exploration import NoisyExploration
from rlox.policies.native_q import NativeQ
from rlox.policies.native_vectors import NativeDeterministic, NativeSquashed
from rlox.policies.q import EpsilonGreedy, QPolicy
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


class NativeGreedy(EpsilonGreedy):
    """An `EpsilonGreedy` whose network is asked in Rust; what is drawn is the same."""

    def __init__(
        self,
        native: NativeQ,
        policy: QPolicy,
        n_envs: int,
        epsilon: Callable[[float], float],
        seed: int,
        device: torch.device,
    ) -> None:
        super().__init__(policy, n_envs, epsilon, seed, device)
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


class NativeExploration(NoisyExploration):
    """A `NoisyExploration` whose actor is asked in Rust; `deviation` is of a deterministic one's noise."""

    def __init__(
        self,
        native: NativeSquashed | NativeDeterministic,
        act_dim: int,
        n_envs: int,
        seed: int,
        device: torch.device,
        deviation: float = 0.0,
    ) -> None:
        super().__init__(self._acted, (act_dim,), act_dim, n_envs, seed, device)
        self._native = native
        self.explorer = Explorer(native.engine, deviation)

    @property
    def vector(self) -> NDArray[np.float32]:
        """The parameters of the actor."""
        return self._native.vector

    def ahead(
        self, step: int, actions: NDArray[np.float32], elapsed: Sequence[float]
    ) -> NDArray[np.float32] | None:
        """The noise `[len(elapsed), N, act_dim]`; vectors of chance into the first `actions`."""
        given = len(actions) - len(elapsed)
        for t in range(given):
            actions[t] = self.random(step + t, actions[t])
        if not elapsed:
            return None
        drawn = [self._noise[at] for at in range(step + given, step + len(actions))]
        noise: NDArray[np.float32] = torch.stack(drawn).numpy()
        return noise

    def _acted(self, obs: Tensor, noise: Tensor) -> Tensor:
        actions = torch.empty(noise.shape)
        self.explorer.act(self.vector, obs.numpy(), actions.numpy(), noise.numpy())
        return actions
