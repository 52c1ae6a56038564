"""Training runs as systems of cases: one case for the whole run, others for its parts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from harness.case import Results


@dataclass(frozen=True)
class RunTimes:
    """The seconds of one run, and its counts of steps and updates."""

    seconds: dict[str, float]  # by part; one of them is "total"
    counts: dict[str, int]  # must be equal in every system


class Stopwatch:
    """Measure seconds by part, by default of this process's CPU.

    With one thread, the CPU clock does not count the work of other programs. `wall` is the clock of the
    seconds that calls report themselves.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.process_time,
        wall: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.seconds: dict[str, float] = {}
        self._clock, self._wall = clock, wall
        self._n_split_calls = 0  # running calls that report the seconds of their parts themselves

    def time_call(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap `call` so that its seconds are added to `part`.

        Inside a call of `time_split_call` nothing is added, because that call reports the seconds itself.
        """

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
        """Wrap a call that does two things; `other_seconds` reads the seconds of the `other` from its result.

        Those are wall-clock seconds, so their share of the whole call is used.
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
    """The runs of one system by number; the number is the seed.

    A run is made when it is first needed. So the cases of its parts use the same runs, and need none of their
    own.
    """

    def __init__(self, train: Callable[[int], RunTimes]) -> None:
        self._train = train
        self._runs: list[RunTimes] = []

    def run(self, number: int) -> RunTimes:
        """Return run `number`; make the runs before it first."""
        while len(self._runs) <= number:
            self._runs.append(self._train(len(self._runs)))
        return self._runs[number]


class PartRunner:
    """One part of the runs of one system, from run 0 on."""

    def __init__(self, run_cache: RunCache, part: str) -> None:
        self._run_cache, self._part = run_cache, part
        self._next = 0

    def sample(self, loops: int) -> float:
        """Return the seconds of this part in the next `loops` runs."""
        first, self._next = self._next, self._next + loops
        runs = (self._run_cache.run(number) for number in range(first, self._next))
        return sum(run.seconds[self._part] for run in runs)

    def result(self) -> Results:
        """Return the counts of a run."""
        return {name: np.array(count) for name, count in self._run_cache.run(0).counts.items()}

    def close(self) -> None:
        """Do nothing: the runner holds only numbers."""
