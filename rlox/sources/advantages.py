"""Advantage estimation on collected rollouts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rlox._core import compute_gae_time_major
from rlox.types import Rollout

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from torch import Tensor

__all__ = ["gae"]


def gae(rollout: Rollout, gamma: float, lam: float) -> tuple[Tensor, Tensor]:
    """Compute generalised advantage estimates (Schulman et al. 2016) and returns, each `[T*N]`.

    A_t = delta_t + gamma lam A_{t+1} within an episode and delta_t at its end, with delta_t = r_t + gamma
    V'_t - V_t; the returns are A_t + V_t. V'_t is `next_values`, the value of the state after step t: 0 after
    termination, the value of the final observation after truncation.

    Results are written to `rollout.advantages` and `rollout.returns`, which are returned. The rollout must be
    on the CPU, where its columns are read in place.
    """

    def grid(column: Tensor) -> NDArray[Any]:
        return np.asarray(column).reshape(rollout.n_steps, rollout.n_envs)

    compute_gae_time_major(
        grid(rollout.rewards),
        grid(rollout.values),
        grid(rollout.next_values),
        grid(rollout.terminated),
        grid(rollout.truncated),
        gamma,
        lam,
        advantages=grid(rollout.advantages),
        returns=grid(rollout.returns),
    )
    return rollout.advantages, rollout.returns
