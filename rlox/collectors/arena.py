"""The time-major memory of one rollout, allocated once; numpy and torch see the same bytes."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rlox.envs.spaces import ActionCodec

__all__ = ["Arena"]


class Arena:
    """Columns `[T, N, ...]`; `obs` has a row more, for the observation after the last step.

    Environments write rows of the numpy arrays in place; the policy reads the torch views.
    """

    def __init__(self, n_steps: int, n_envs: int, obs_dim: int, actions: ActionCodec) -> None:
        self.shape = (n_steps, n_envs)
        self.obs = np.zeros((n_steps + 1, n_envs, obs_dim), np.float32)
        self.actions: NDArray[np.int64] | NDArray[np.float32] = (
            np.zeros((n_steps, n_envs), np.int64)
            if actions.discrete
            else np.zeros((n_steps, n_envs, actions.size), np.float32)
        )
        self.rewards = np.zeros(self.shape, np.float32)
        self.terminated = np.zeros(self.shape, np.bool_)
        self.truncated = np.zeros(self.shape, np.bool_)
        self.log_probs = np.zeros(self.shape, np.float32)
        # V(s_t), and row T: V of the observation after the last step
        self.values = np.zeros((n_steps + 1, n_envs), np.float32)
        # V of the state step t reached: the final observation's value where an episode was cut off
        self.next_values = np.zeros(self.shape, np.float32)
        self.advantages = np.zeros(self.shape, np.float32)
        self.returns = np.zeros(self.shape, np.float32)
        self.obs_rows: tuple[Tensor, ...] = torch.from_numpy(self.obs).unbind(0)
        self.action_rows: tuple[Tensor, ...] = torch.from_numpy(self.actions).unbind(0)

    @staticmethod
    def bytes_of(n_steps: int, n_envs: int, obs_dim: int, actions: ActionCodec) -> int:
        """The memory of an arena of these sizes."""
        action = 8 if actions.discrete else 4 * actions.size
        # obs and values have a row more; six float columns and two of flags besides
        row = 4 * obs_dim + action + 6 * 4 + 2
        return n_envs * (n_steps * row + 4 * (obs_dim + 1))

    def flat(self, column: NDArray[np.generic]) -> Tensor:
        """A torch view `[T*N, ...]` of a column's first T rows."""
        rows = column[: self.shape[0]]
        return torch.from_numpy(rows.reshape(-1, *rows.shape[2:]))
