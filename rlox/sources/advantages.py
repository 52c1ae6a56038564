"""Advantages of a rollout: functions of what was collected, apart from collecting it."""

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
    """Generalised advantage estimates (Schulman et al. 2016) and returns, each `[T*N]`.

    A_t = delta_t + gamma lam A_{t+1} within an episode and delta_t where one ended, with
    delta_t = r_t + gamma V'_t - V_t; the returns are A_t + V_t. V' is `next_values`: nothing is
    bootstrapped after termination, the final observation's value is after truncation.

    Written into `rollout.advantages` and `rollout.returns`, which are returned; the rollout must be
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
