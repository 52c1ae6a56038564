"""How the rows of a dataset come to a learner: what is done to observations, actions and rewards."""

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

STD_EPSILON = 1e-3  # beside the deviation of an observation (Fujimoto & Gu 2021, eq. 6)
RETURN_TOLERANCE = 1e-9  # of the largest return: what sums in another order differ by is no width
RETURN_RANGE = 1000.0  # between the lowest and the highest return (Kostrikov et al. 2022)


class LoadedDataset(NamedTuple):
    """The rows of a dataset, their digest and columns."""

    dataset: OfflineDatasetBuffer | DatasetOnDisk
    digest: str
    columns: Mapping[str, Any]


@dataclass(frozen=True)
class Preparation:
    """What a learner is given of a row.

    Parameters
    ----------
    gamma : discount of one step
    images : whether observations are rows of bytes; else they are numbers
    normalize : standardise observations by the dataset's mean and deviation + 1e-3, unless the dataset
        does so by itself
    reward_factor : what rewards are multiplied by; None: 1000 / (highest - lowest return)
    actions : of policies that act in [-1, 1]: the bounds that this stands for
    """

    gamma: float = 1.0
    images: bool = False
    normalize: bool = False
    reward_factor: float | None = 1.0
    actions: UnitCodec | None = None


NO_PREPARATION = Preparation()


def complete_returns(columns: Mapping[str, Any]) -> NDArray[np.float64]:
    """Undiscounted returns of the complete episodes, in their order.

    Each is the sum of its own rewards: equal episodes have equal returns, whatever is before them.
    """
    end_rows = np.flatnonzero(columns["terminated"] | columns["truncated"]) + 1
    if not end_rows.size:
        return np.zeros(0)
    rewards = np.asarray(columns["rewards"][: end_rows[-1]], np.float64)
    return np.add.reduceat(rewards, np.concatenate([[0], end_rows[:-1]]))


def reward_factor(columns: Mapping[str, Any]) -> float:
    """1000 / (highest - lowest return) of the complete episodes; `ConfigError` if they have one return."""
    returns = complete_returns(columns)
    if are_equal(returns):
        raise ConfigError(
            f"algo.scale_rewards=returns: the dataset has {len(returns)} complete episodes with no two "
            "returns, expected at least two that differ; give a number, algo.scale_rewards=1"
        )
    return RETURN_RANGE / float(np.ptp(returns))


def are_equal(returns: NDArray[np.float64]) -> bool:
    """Whether no two of them differ by more than what sums in another order do."""
    return not (len(returns) and float(np.ptp(returns)) > RETURN_TOLERANCE * float(np.abs(returns).max()))
