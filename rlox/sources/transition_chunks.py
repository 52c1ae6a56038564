"""Time-major arrays for several steps of every environment, which become transitions for a replay buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlox.envs.base import NO_ENVS, EpisodeEnds, VectorEnv
from rlox.envs.spaces import infinity_note
from rlox.errors import NonFiniteError

__all__ = ["StepArrays", "TransitionChunk"]

Array = NDArray[Any]
StepOutputs = tuple[Array, Array, Array, Array, Array]


class TransitionChunk(NamedTuple):
    """Transitions `[n, ...]` in time order, for a buffer, and the environments that lost an episode."""

    columns: dict[str, NDArray[Any]]
    env_ids: NDArray[np.int64]  # [n]
    lost_envs: NDArray[np.int64] = NO_ENVS


@dataclass(frozen=True)
class StepArrays:
    """Arrays for up to `T` steps of `N` environments."""

    obs: NDArray[Any]  # [T + 1, N, obs_dim], raw; row t + 1 is after the reset if an episode ended
    next_obs: NDArray[Any]  # [T, N, obs_dim]: the observation after the step, final ones included
    actions: NDArray[Any]  # [T, N, ...], of the policy: rows of `rlox.envs.actions`
    rewards: NDArray[np.float64]  # [T, N], raw
    terminated: NDArray[np.bool_]  # [T, N]
    truncated: NDArray[np.bool_]  # [T, N]
    numeric_view: Callable[[NDArray[Any]], NDArray[Any]]  # returns the numbers in rows, which are checked
    lost_envs: list[tuple[int, NDArray[np.int64]]] = field(default_factory=list)  # t, environments
    autoreset_envs: list[tuple[int, NDArray[np.int64]]] = field(default_factory=list)  # t, environments

    @classmethod
    def of(cls, n_steps: int, env: VectorEnv) -> StepArrays:
        """Allocate arrays for `n_steps` steps of `env`."""
        shape, zero_rows = (n_steps, env.n_envs), env.observations.rows
        return cls(
            obs=zero_rows(n_steps + 1, env.n_envs),
            next_obs=zero_rows(*shape),
            actions=np.zeros((*shape, *env.actions.shape), env.actions.dtype),
            rewards=np.zeros(shape, np.float64),
            terminated=np.zeros(shape, np.bool_),
            truncated=np.zeros(shape, np.bool_),
            numeric_view=env.observations.numeric_view,
        )

    def set_next_obs(self, t: int, ends: EpisodeEnds | None) -> None:
        """Fill `next_obs` of step t: the next observation, or the final one of an ended episode."""
        self.next_obs[t] = self.obs[t + 1]
        if ends is not None:
            self.next_obs[t, ends.envs] = ends.obs
            self.next_obs[t, ends.invalid_envs] = self.obs[t, ends.invalid_envs]
            if len(ends.lost_envs):
                self.lost_envs.append((t, ends.lost_envs))
            if len(ends.autoreset_envs):
                self.autoreset_envs.append((t, ends.autoreset_envs))

    def step_outputs(self, n: int) -> StepOutputs:
        """Return the arrays besides `obs` that the first `n` steps fill, for `_core.Explorer.collect`."""
        flags = self.terminated[:n], self.truncated[:n]
        return (self.next_obs[:n], self.actions[:n], self.rewards[:n], *flags)

    def clear(self) -> None:
        """Clear the lists of lost and autoreset steps before the arrays are filled again."""
        self.lost_envs.clear()
        self.autoreset_envs.clear()

    def transition_chunks(self, n_steps: int) -> Iterator[TransitionChunk]:
        """Yield the transitions of the first `n_steps`, in chunks that end where episodes were lost."""
        n_envs = self.rewards.shape[1]
        columns, env_ids = self.columns(n_steps), np.tile(np.arange(n_envs), n_steps)
        is_transition = np.ones(len(env_ids), np.bool_)
        for t, envs in (*self.lost_envs, *self.autoreset_envs):
            is_transition[t * n_envs + envs] = False
        begin = 0
        for t, lost_envs in self.lost_envs:
            end = (t + 1) * n_envs
            rows = begin + np.flatnonzero(is_transition[begin:end])
            yield TransitionChunk({k: v[rows] for k, v in columns.items()}, env_ids[rows], lost_envs)
            begin = end
        remaining_rows: Any = (
            begin + np.flatnonzero(is_transition[begin:]) if self.autoreset_envs else slice(begin, None)
        )
        yield TransitionChunk({k: v[remaining_rows] for k, v in columns.items()}, env_ids[remaining_rows])

    def columns(self, n_steps: int) -> dict[str, NDArray[Any]]:
        """Return the first `n_steps` as rows `[n_steps * N, ...]`, for `push_batch`."""
        columns_by_name = {
            "obs": self.obs,
            "next_obs": self.next_obs,
            "actions": self.actions,
            "rewards": self.rewards,
            "terminated": self.terminated,
            "truncated": self.truncated,
        }
        return {k: v[:n_steps].reshape(-1, *v.shape[2:]) for k, v in columns_by_name.items()}

    def require_finite(self, n_steps: int, steps_before: int) -> None:
        """Raise `NonFiniteError` naming the array, the environment and the step of the run.

        `steps_before` counts the environment steps of the run before the first step of these arrays.
        """
        for name in ("obs", "next_obs", "rewards", "actions"):
            column = getattr(self, name)[:n_steps]
            if name.endswith("obs"):
                column = self.numeric_view(column)
            # fast: a sum is finite only if every element is; an overflow should stop the run too
            if not np.isfinite(column.sum(dtype=np.float64)):
                index = np.argwhere(~np.isfinite(column))[0]
                t, n = index[:2]
                note = infinity_note(column[tuple(index)])
                steps = t if name == "obs" else t + 1  # `obs` is seen before the step of its row
                step = steps_before + steps * column.shape[1]
                raise NonFiniteError(f"{name} is not finite in environment {n} (env_steps {step}){note}")
