"""Summary of a dataset: episodes, how they end, and their returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.sources.preparation import complete_returns
from rlox.statistics import bootstrap_ci

__all__ = ["ReturnStatistics", "describe_dataset", "episode_lengths"]

Columns = Mapping[str, Any]  # as `read_dataset` returns them


@dataclass(frozen=True)
class ReturnStatistics:
    """Statistics of undiscounted episode returns.

    `ci95` is the 95% bootstrap interval of the mean over episodes; None for a single episode.
    """

    episodes: int
    mean: float
    ci95: tuple[float, float] | None
    min: float
    max: float

    @classmethod
    def from_returns(cls, returns: Any) -> ReturnStatistics:
        """Compute the statistics of `returns` `[episodes]`, at least one."""
        values = np.asarray(returns, np.float64)
        interval = bootstrap_ci(values) if len(values) > 1 else None
        limits = float(values.min()), float(values.max())
        return cls(len(values), float(values.mean()), interval, *limits)


def episode_lengths(columns: Columns) -> NDArray[np.int64]:
    """Return the number of transitions of each complete episode, in order."""
    ends = np.flatnonzero(columns["terminated"] | columns["truncated"]) + 1
    return np.diff(ends, prepend=0)


def describe_dataset(columns: Columns) -> dict[str, Any]:
    """Return sizes, ends of episodes, returns and lengths as plain data.

    `incomplete` counts transitions after the last end of an episode.
    """
    returns, lengths = complete_returns(columns), episode_lengths(columns)
    n = len(columns["rewards"])
    rewards = columns["rewards"].astype(np.float64)
    return {
        "transitions": n,
        "episodes": len(returns),
        "terminations": int(columns["terminated"].sum()),
        "time_limits": int((columns["truncated"] & ~columns["terminated"]).sum()),
        "incomplete": int(n - lengths.sum()),
        "returns": asdict(ReturnStatistics.from_returns(returns)) if len(returns) else None,
        "lengths": [int(lengths.min()), int(lengths.max())] if len(lengths) else None,
        "rewards": [float(rewards.min()), float(rewards.mean()), float(rewards.max())],
    }
