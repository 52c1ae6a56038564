"""Means of metrics between two log rows, and the check whether a row is due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["DueCheck", "MetricMeans"]


class MetricMeans:
    """Sums and counts by name.

    A row has every name that was added so far, with None for a name without a value since the last row.
    """

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}

    def add(self, *trainings: Mapping[str, float]) -> None:
        """Add the metrics of one training or several."""
        for metrics in trainings:
            for name, value in metrics.items():
                self._sums[name] = self._sums.get(name, 0.0) + value
                self._counts[name] = self._counts.get(name, 0) + 1

    def row(self) -> dict[str, float | None]:
        """Return the means since the last call, and reset."""
        means = {n: self._sums[n] / count if count else None for n, count in self._counts.items()}
        self._sums = dict.fromkeys(self._sums, 0.0)
        self._counts = dict.fromkeys(self._counts, 0)
        return means

    def state(self) -> dict[str, Any]:
        """Return the sums and counts for a resumed run."""
        return {"sums": dict(self._sums), "counts": dict(self._counts)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self._sums = {str(name): float(total) for name, total in state["sums"].items()}
        self._counts = {str(name): int(count) for name, count in state["counts"].items()}


@dataclass(frozen=True)
class DueCheck:
    """Whether a tick from `previous_step` to `step` passed a multiple of `every`; never for 0."""

    previous_step: int
    step: int

    def __call__(self, every: int) -> bool:
        """Whether a multiple of `every` was passed."""
        return every > 0 and self.step // every > self.previous_step // every
