"""How rows of a dataset are prepared for a learner: observations, actions and rewards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlox._core import OfflineDatasetBuffer
from rlox.envs.actions import UnitCodec
from rlox.errors import ConfigError
from rlox.sources.dataset_on_disk import DatasetOnDisk

__all__ = ["NO_PREPARATION", "LoadedDataset", "Preparation", "are_equal", "complete_returns", "reward_factor"]

STD_EPSILON = 1e-3  # added to the deviation of observations (Fujimoto & Gu 2021, eq. 6)
RETURN_TOLERANCE = 1e-9  # as a fraction of the largest return; summing in another order changes less
RETURN_RANGE = 1000.0  # difference of highest and lowest return after scaling (Kostrikov et al. 2022)


class LoadedDataset(NamedTuple):
    """A dataset to sample from, its digest and its columns."""

    dataset: OfflineDatasetBuffer | DatasetOnDisk
    digest: str
    columns: Mapping[str, Any]


@dataclass(frozen=True)
class Preparation:
    """How rows are changed before they are learned from.

    Parameters
    ----------
    gamma : discount of one step
    images : whether observations contain images, which are stored as bytes
    normalize : standardise observations by the dataset's mean and deviation + 1e-3, unless the dataset
        standardises them itself
    reward_factor : multiplies rewards; None: 1000 / (highest - lowest return)
    actions : for policies that act in [-1, 1]: the bounds that this range stands for
    """

    gamma: float = 1.0
    images: bool = False
    normalize: bool = False
    reward_factor: float | None = 1.0
    actions: UnitCodec | None = None


NO_PREPARATION = Preparation()


def complete_returns(columns: Mapping[str, Any]) -> NDArray[np.float64]:
    """Return the undiscounted returns of the complete episodes, in order.

    Each return sums only the rewards of its episode, so equal episodes have equal returns wherever they are.
    """
    end_rows = np.flatnonzero(columns["terminated"] | columns["truncated"]) + 1
    if not end_rows.size:
        return np.zeros(0)
    rewards = np.asarray(columns["rewards"][: end_rows[-1]], np.float64)
    return np.add.reduceat(rewards, np.concatenate([[0], end_rows[:-1]]))


def reward_factor(columns: Mapping[str, Any]) -> float:
    """Return 1000 / (highest - lowest return) of complete episodes; `ConfigError` if all are equal."""
    returns = complete_returns(columns)
    if are_equal(returns):
        raise ConfigError(
            f"algo.scale_rewards=returns: the dataset has {len(returns)} complete episodes without two "
            "different returns, from which the factor is computed; set a number, such as algo.scale_rewards=1"
        )
    return RETURN_RANGE / float(np.ptp(returns))


def are_equal(returns: NDArray[np.float64]) -> bool:
    """Whether all returns are equal up to rounding: summing in another order may change them."""
    return not (len(returns) and float(np.ptp(returns)) > RETURN_TOLERANCE * float(np.abs(returns).max()))
