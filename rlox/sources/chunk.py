"""A stretch of steps of every environment, time-major, as it is gathered for a replay buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlox.envs.base import NOBODY, Finals, VectorEnv
from rlox.envs.spaces import what_came
from rlox.errors import NonFiniteError

__all__ = ["Chunk", "Stretch"]

Array = NDArray[Any]
Written = tuple[Array, Array, Array, Array, Array]


class Stretch(NamedTuple):
    """Transitions `[n, ...]` in time order, as a buffer takes them, and who begins another episode then."""

    columns: dict[str, NDArray[Any]]
    env_ids: NDArray[np.int64]  # [n]
    lost: NDArray[np.int64] = NOBODY


@dataclass(frozen=True)
class Chunk:
    """Arrays for up to `T` steps of `N` environments."""

    obs: NDArray[Any]  # [T + 1, N, obs_dim], raw; row t + 1 after a reset where one ended
    next_obs: NDArray[Any]  # [T, N, obs_dim]: what the step led to, an episode's last one too
    actions: NDArray[Any]  # [T, N, ...], the policy's: rows of `rlox.envs.actions`
    rewards: NDArray[np.float64]  # [T, N], the environment's own
    terminated: NDArray[np.bool_]  # [T, N]
    truncated: NDArray[np.bool_]  # [T, N]
    numbers_of: Callable[[NDArray[Any]], NDArray[Any]]  # of rows, that might not be finite
    lost: list[tuple[int, NDArray[np.int64]]] = field(default_factory=list)  # t and whose step
    idle: list[tuple[int, NDArray[np.int64]]] = field(default_factory=list)  # the same

    @classmethod
    def of(cls, n_steps: int, env: VectorEnv) -> Chunk:
        """An empty one for `env`."""
        shape, blank = (n_steps, env.n_envs), env.observations.rows
        return cls(
            obs=blank(n_steps + 1, env.n_envs),
            next_obs=blank(*shape),
            actions=np.zeros((*shape, *env.actions.shape), env.actions.dtype),
            rewards=np.zeros(shape, np.float64),
            terminated=np.zeros(shape, np.bool_),
            truncated=np.zeros(shape, np.bool_),
            numbers_of=env.observations.numbers_of,
        )

    def follow(self, t: int, finals: Finals | None) -> None:
        """Fill `next_obs` of step t: what came after it, or the last observation of its episode."""
        self.next_obs[t] = self.obs[t + 1]
        if finals is not None:
            self.next_obs[t, finals.envs] = finals.obs
            self.next_obs[t, finals.void] = self.obs[t, finals.void]
            if len(finals.lost):
                self.lost.append((t, finals.lost))
            if len(finals.idle):
                self.idle.append((t, finals.idle))

    def written(self, n: int) -> Written:
        """What the first `n` steps write besides `obs`, as `_core.Explorer.collect` takes it."""
        flags = self.terminated[:n], self.truncated[:n]
        return (self.next_obs[:n], self.actions[:n], self.rewards[:n], *flags)

    def clear(self) -> None:
        """Forget which rows were no transitions, before it is filled again."""
        self.lost.clear()
        self.idle.clear()

    def stretches(self, n_steps: int) -> Iterator[Stretch]:
        """The transitions of the first `n_steps`, in stretches that end where episodes were lost."""
        n_envs = self.rewards.shape[1]
        columns, everyone = self.columns(n_steps), np.tile(np.arange(n_envs), n_steps)
        kept = np.ones(len(everyone), np.bool_)
        for t, envs in (*self.lost, *self.idle):
            kept[t * n_envs + envs] = False
        begin = 0
        for t, lost in self.lost:
            end = (t + 1) * n_envs
            rows = begin + np.flatnonzero(kept[begin:end])
            yield Stretch({k: v[rows] for k, v in columns.items()}, everyone[rows], lost)
            begin = end
        rest: Any = begin + np.flatnonzero(kept[begin:]) if self.idle else slice(begin, None)
        yield Stretch({k: v[rest] for k, v in columns.items()}, everyone[rest])

    def columns(self, n_steps: int) -> dict[str, NDArray[Any]]:
        """The first `n_steps` as rows `[n_steps * N, ...]`, for `push_batch`."""
        named = {
            "obs": self.obs,
            "next_obs": self.next_obs,
            "actions": self.actions,
            "rewards": self.rewards,
            "terminated": self.terminated,
            "truncated": self.truncated,
        }
        return {k: v[:n_steps].reshape(-1, *v.shape[2:]) for k, v in named.items()}

    def require_finite(self, n_steps: int, before: int) -> None:
        """Raise `NonFiniteError` naming the array, the environment and the step of the run.

        `before` counts the environment steps that were taken before the chunk.
        """
        for name in ("obs", "next_obs", "rewards", "actions"):
            column = getattr(self, name)[:n_steps]
            if name.endswith("obs"):
                column = self.numbers_of(column)
            # a sum is finite only if every element is (or it overflows, which is worth a stop too)
            if not np.isfinite(column.sum(dtype=np.float64)):
                place = np.argwhere(~np.isfinite(column))[0]
                t, n = place[:2]
                came = what_came(column[tuple(place)])
                steps = t if name == "obs" else t + 1  # it is seen before the step of its row
                step = before + steps * column.shape[1]
                raise NonFiniteError(
                    f"{name} is not finite in environment {n} (env_steps {step}){came}"
                )
