"""The time-major memory of one rollout, allocated once; NumPy and torch share the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlox.envs.actions import ActionCodec
from rlox.envs.base import EpisodeEnds
from rlox.envs.spaces import FLOAT
from rlox.types import FinalObs, Rollout

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from torch import Tensor

__all__ = ["Arena", "FinalObsTable"]

# Steps t `[K]`, environments n `[K]` and last observations `[K, obs_dim]` of the ended episodes.
FinalObsTable = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]


class Arena:
    """Columns `[T, N, ...]`; `obs` and `values` have one more row, for the state after the last step.

    Environments write rows of the NumPy arrays in place; the policy reads the torch views. Final observations
    are sparse: `ends` gets one entry for each step that ended episodes.
    """

    def __init__(
        self,
        n_steps: int,
        n_envs: int,
        obs_dim: int,
        actions: ActionCodec,
        obs_dtype: np.dtype[Any] = FLOAT,
    ) -> None:
        self.shape = (n_steps, n_envs)
        self.obs = np.zeros((n_steps + 1, n_envs, obs_dim), obs_dtype)
        self.actions: NDArray[Any] = np.zeros((*self.shape, *actions.shape), actions.dtype)
        self.rewards = np.zeros(self.shape, np.float32)
        self.terminated = np.zeros(self.shape, np.bool_)
        self.truncated = np.zeros(self.shape, np.bool_)
        self.log_probs = np.zeros(self.shape, np.float32)
        self.values = np.zeros((n_steps + 1, n_envs), np.float32)
        # V of the state after step t: 0 after termination, the value of the final observation after
        # truncation
        self.next_values = np.zeros(self.shape, np.float32)
        self.advantages = np.zeros(self.shape, np.float32)
        self.returns = np.zeros(self.shape, np.float32)
        # the columns that collection fills, in the order of the Rust call
        self.collected_columns = (
            self.obs,
            self.actions,
            self.rewards,
            self.terminated,
            self.truncated,
            self.log_probs,
            self.values,
            self.next_values,
        )
        self.ends: list[tuple[int, EpisodeEnds]] = []  # t and the episode ends of step t
        self.valid: NDArray[np.bool_] | None = None  # None: every row is a transition

    @cached_property
    def obs_rows(self) -> tuple[Tensor, ...]:
        """Torch views of the observations of each step."""
        import torch

        return torch.from_numpy(self.obs).unbind(0)

    @cached_property
    def action_rows(self) -> tuple[Tensor, ...]:
        """Torch views of the actions of each step."""
        import torch

        return torch.from_numpy(self.actions).unbind(0)

    @staticmethod
    def byte_size(
        n_steps: int,
        n_envs: int,
        obs_dim: int,
        actions: ActionCodec,
        obs_dtype: np.dtype[Any] = FLOAT,
    ) -> int:
        """Return the bytes of an arena of these sizes, without `ends`."""
        # six float32 columns and two bool columns; `obs` and `values` have one more row
        obs_bytes = obs_dtype.itemsize * obs_dim
        row = obs_bytes + actions.row_bytes + 6 * 4 + 2
        return n_envs * (n_steps * row + obs_bytes + 4)

    def clear(self) -> None:
        """Clear the episode ends and fill estimates with NaN, so that stale values are noticed."""
        self.ends.clear()
        self.valid = None
        self.advantages.fill(np.nan)
        self.returns.fill(np.nan)

    def cut_lost_episodes(self, t: int, envs: NDArray[np.int64]) -> None:
        """Truncate the episodes of `envs`, whose step t was lost, at their last observation before it.

        Row t is no transition. It is truncated too, so that no estimate flows into it.
        """
        if self.valid is None:
            self.valid = np.ones(self.shape, np.bool_)
        self.valid[t, envs] = False
        if t:
            running_envs = envs[~(self.terminated[t - 1, envs] | self.truncated[t - 1, envs])]
            self.truncated[t - 1, running_envs] = True
            self.ends.append((t - 1, EpisodeEnds(running_envs, self.obs[t, running_envs])))
        self.ends.append((t, EpisodeEnds(envs, self.obs[t, envs])))

    def final_obs_table(self) -> FinalObsTable | None:
        """Return `ends` as one table; `None` if no episode ended."""
        if not self.ends:
            return None
        if self.valid is not None:
            self.ends = _merge_by_step(self.ends)
        steps = [t for t, _ in self.ends]
        tables = [finals for _, finals in self.ends]
        return (
            np.repeat(np.array(steps, np.int64), [len(f.envs) for f in tables]),
            np.concatenate([f.envs for f in tables]),
            np.concatenate([f.obs for f in tables]),
        )

    def flat(self, column: NDArray[np.generic]) -> Tensor:
        """Return a torch view `[T*N, ...]` of a column's first T rows."""
        return _tensor(self._rows(column))

    def _rows(self, column: NDArray[np.generic]) -> NDArray[Any]:
        rows = column[: self.shape[0]]
        return rows.reshape(-1, *rows.shape[2:])

    def rollout(self, final_obs: FinalObsTable | None, index: int, as_tensors: bool = True) -> Rollout[Any]:
        """Return rollout number `index` with views of all columns, as torch tensors or NumPy arrays."""
        n_steps, n_envs = self.shape
        convert: Callable[[NDArray[Any]], Any] = _tensor if as_tensors else lambda column: column

        def flat(column: NDArray[Any]) -> Any:
            return convert(self._rows(column))

        return Rollout(
            obs=flat(self.obs),
            actions=flat(self.actions),
            log_probs=flat(self.log_probs),
            values=flat(self.values),
            rewards=flat(self.rewards),
            terminated=flat(self.terminated),
            truncated=flat(self.truncated),
            next_values=flat(self.next_values),
            advantages=flat(self.advantages),
            returns=flat(self.returns),
            last_obs=convert(self.obs[n_steps]),
            last_values=convert(self.values[n_steps]),
            n_envs=n_envs,
            index=index,
            final_obs=None if final_obs is None else FinalObs(*map(convert, final_obs)),
            valid=None if self.valid is None else flat(self.valid),
        )


def _tensor(column: NDArray[Any]) -> Tensor:
    import torch

    return torch.from_numpy(column)


def _merge_by_step(tables: list[tuple[int, EpisodeEnds]]) -> list[tuple[int, EpisodeEnds]]:
    """Merge the tables of each step; order by step and environment.

    A step has more than one table if it or the next step was lost in some environments.
    """
    merged_tables = []
    for t in sorted({t for t, _ in tables}):
        step_ends = [finals for at, finals in tables if at == t]
        envs, obs = np.concatenate([f.envs for f in step_ends]), np.concatenate([f.obs for f in step_ends])
        order = np.argsort(envs)
        merged_tables.append((t, EpisodeEnds(envs[order], obs[order])))
    return merged_tables
