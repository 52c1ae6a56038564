"""Sample several systems in turn, so that a change of the machine's speed affects all alike."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.case import Results, Runner

MAX_LOOPS = 10_000_000


@dataclass(frozen=True)
class Protocol:
    """The number of samples and their shortest duration."""

    repeats: int = 15
    # The shortest sample: the inner loop is repeated until it takes this long. 0: a sample is one loop,
    # without calibration.
    min_seconds: float = 0.005


@dataclass
class LocalRunner:
    """A system of this process: `operation` does the work, `answer` returns its results."""

    operation: Callable[[], object]
    answer: Callable[[], Results]
    clock: Callable[[], float] = time.perf_counter
    on_close: Callable[[], object] | None = None

    def sample(self, loops: int) -> float:
        """Return the seconds of `loops` calls; the garbage collector is off, as in `timeit`."""
        operation, loop_range = self.operation, range(loops)
        gc_enabled = gc.isenabled()
        gc.disable()
        try:
            start = self.clock()
            for _ in loop_range:
                operation()
            return self.clock() - start
        finally:
            if gc_enabled:
                gc.enable()

    def result(self) -> Results:
        """Return the results of the work."""
        return self.answer()

    def close(self) -> None:
        """Call `on_close`, if there is one."""
        if self.on_close is not None:
            self.on_close()


def calibrate(runner: Runner, min_seconds: float) -> int:
    """Return the number of loops in a sample of `min_seconds`; the search also warms the system up."""
    loops = 1
    while min_seconds:
        seconds = runner.sample(loops)
        if seconds >= min_seconds or loops >= MAX_LOOPS:
            return loops
        growth = 1.2 * min_seconds / max(seconds, min_seconds / 100)
        loops = min(MAX_LOOPS, max(loops + 1, math.ceil(loops * growth)))
    return loops


def interleave(runners: Mapping[str, Runner], protocol: Protocol) -> dict[str, Samples]:
    """Sample all systems in turn; each round begins with the next system."""
    loops = {name: calibrate(runner, protocol.min_seconds) for name, runner in runners.items()}
    samples: dict[str, list[float]] = {name: [] for name in runners}
    names = list(runners)
    for turn in range(protocol.repeats):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            samples[name].append(runners[name].sample(loops[name]) / loops[name])
    return {name: Samples(loops[name], tuple(samples[name])) for name in names}


@dataclass(frozen=True)
class Samples:
    """The seconds of one loop in each round."""

    loops: int
    seconds: Sequence[float]
