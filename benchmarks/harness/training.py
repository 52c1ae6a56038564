"""Training runs as systems of cases: one case for the whole of a run, others for its parts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.case import Results


@dataclass(frozen=True)
class RunTimes:
    """What one run took, and how much it did."""

    seconds: dict[str, float]  # by part, among them "total"
    counts: dict[str, int]  # which every system has to have done as often


class Stopwatch:
    """Seconds by part, of this process's CPU unless another clock is given: where a run has one thread,
    others' work does not count. `wall` is the clock of what calls say themselves.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.process_time,
        wall: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.seconds: dict[str, float] = {}
        self._clock, self._wall = clock, wall
        self._n_split_calls = 0  # calls under way that tell themselves what their parts take

    def time_call(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """`call`, its seconds added to `part`, unless `time_split_call` makes it, which tells of them."""

        def timed_call(*args: Any, **kwargs: Any) -> Any:
            if self._n_split_calls:
                return call(*args, **kwargs)
            start = self._clock()
            try:
                return call(*args, **kwargs)
            finally:
                self._add(part, self._clock() - start)

        return timed_call

    def time_split_call(
        self, part: str, call: Callable[..., Any], other: str, other_seconds: Callable[[Any], float]
    ) -> Callable[..., Any]:
        """The same of a call that does two things, and what it returns tells the seconds of the `other`.

        Those are by the wall, so that the part of them in the whole is what counts.
        """

        def timed_call(*args: Any, **kwargs: Any) -> Any:
            wall, start = self._wall(), self._clock()
            self._n_split_calls += 1
            try:
                result = call(*args, **kwargs)
            finally:
                self._n_split_calls -= 1
            cpu_seconds, wall = self._clock() - start, self._wall() - wall
            other_share = cpu_seconds * min(1.0, other_seconds(result) / wall)
            self._add(other, other_share)
            self._add(part, cpu_seconds - other_share)
            return result

        return timed_call

    def _add(self, part: str, seconds: float) -> None:
        self.seconds[part] = self.seconds.get(part, 0.0) + seconds


class RunCache:
    """One system's runs by number, each with its number as seed.

    A run is made when it is first asked for, so that cases of its parts are about the same runs and
    cost none of their own.
    """

    def __init__(self, train: Callable[[int], RunTimes]) -> None:
        self._train = train
        self._runs: list[RunTimes] = []

    def run(self, number: int) -> RunTimes:
        """Run `number`, with those before it."""
        while len(self._runs) <= number:
            self._runs.append(self._train(len(self._runs)))
        return self._runs[number]


class PartRunner:
    """One part of the runs of one system, from run 0 on."""

    def __init__(self, run_cache: RunCache, part: str) -> None:
        self._run_cache, self._part = run_cache, part
        self._next = 0

    def sample(self, loops: int) -> float:
        """Seconds of this part in the next `loops` runs."""
        first, self._next = self._next, self._next + loops
        runs = (self._run_cache.run(number) for number in range(first, self._next))
        return sum(run.seconds[self._part] for run in runs)

    def result(self) -> Results:
        """How much a run does."""
        return {name: np.array(count) for name, count in self._run_cache.run(0).counts.items()}

    def close(self) -> None:
        """Nothing is kept but numbers."""
