"""What became slower, beyond what the noise of both runs explains."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from rlox_cli.bench.intervals import RatioEstimate
from rlox_cli.bench.record import CLOCKS, Baseline, CaseMeasurements

# Standard errors that chance may explain. There are some twenty cases by two clocks, errors of nine
# passes are known to two fifths, and whatever lies beyond is measured again before it counts.
NOISE_STANDARD_ERRORS = 4.0
MAX_TOLERANCE = 0.4  # a tolerance above this would let 1.5 times the time pass
# CPU time without a reason: where the instructions are as many as before, caches that others fill and
# where memory lies make such times, up to 1.5 times as long on a machine with neighbours.
UNEXPLAINED_RATIO = 2.0
SAME, SLOWER, FASTER, NOISY, NEW = "same", "slower", "faster", "noisy", "new"
UNPROVEN = "unproven"  # longer, by less than that


@dataclass(frozen=True)
class BaselineVerdict:
    """How a case stands against the baseline."""

    name: str
    state: str
    clock: str = CLOCKS[0]
    old: float = math.nan  # times the yardstick
    new: float = math.nan
    tolerance: float = math.nan  # 0.2: 1.2 times the time is called the same
    instructions: tuple[float, float] | None = None  # then and now, where they can be compared

    @property
    def time_ratio(self) -> float:
        """How many times as long it takes now."""
        return self.new / self.old

    @property
    def instruction_ratio(self) -> float | None:
        """How many times as many instructions it takes now."""
        return self.instructions[1] / self.instructions[0] if self.instructions else None


def judge(
    case: CaseMeasurements, baseline: Baseline, minimum_tolerance: float, counts: Mapping[str, float]
) -> BaselineVerdict:
    """CPU time decides, which the work of others on the machine moves least; time of the clock shows
    what only waits. Where time is too noisy to show 1.5 times as much, the instructions decide, and where it
    may be as much longer as there are more of them, they are believed. Where there are no more of them,
    longer CPU time is believed from twice the time on.
    """
    name = case.name
    if name not in baseline.passes or baseline.yardsticks[name] != case.yardstick:
        return BaselineVerdict(name, NEW)
    old_count, new_count = counts.get(name), case.instructions
    instructions = (old_count, new_count) if old_count and new_count else None
    verdicts = [
        _judge_clock(
            name, clock, baseline.estimate(name, clock), case.estimate(clock), minimum_tolerance, instructions
        )
        for clock in CLOCKS
    ]
    if verdicts[0].state == UNPROVEN:  # the clock says no more than the same
        return verdicts[0]
    return next((verdict for verdict in verdicts if verdict.state == SLOWER), verdicts[0])


def _judge_clock(
    name: str,
    clock: str,
    old: RatioEstimate,
    new: RatioEstimate,
    minimum_tolerance: float,
    instructions: tuple[float, float] | None,
) -> BaselineVerdict:
    """One clock's verdict."""
    noise = NOISE_STANDARD_ERRORS * math.hypot(old.log_error, new.log_error)
    bound, log_change = max(math.log1p(minimum_tolerance), noise), new.log_ratio - old.log_ratio
    tolerance = math.expm1(bound)
    log_instructions = math.log(instructions[1] / instructions[0]) if instructions else 0.0
    is_cpu_clock = clock == CLOCKS[0]
    does_more_work = log_instructions > math.log1p(minimum_tolerance) and is_cpu_clock
    is_unexplained = (
        bool(instructions)
        and not does_more_work
        and is_cpu_clock
        and log_change <= math.log(UNEXPLAINED_RATIO)
    )
    if tolerance > MAX_TOLERANCE and instructions:
        state = SLOWER if does_more_work else NOISY
    elif log_change > bound or (
        does_more_work and log_instructions <= log_change + bound
    ):  # which the time does not deny
        state = UNPROVEN if is_unexplained else SLOWER
    elif tolerance > MAX_TOLERANCE:
        state = NOISY
    else:
        state = FASTER if log_change < -bound else SAME
    return BaselineVerdict(name, state, clock, old.ratio, new.ratio, tolerance, instructions)


def comparable_counts(
    baseline: Baseline, versions: Mapping[str, str], machine: Mapping[str, object]
) -> dict[str, float]:
    """The baseline's instructions, if the same interpreter and NumPy ran on the same kind of machine."""
    is_comparable = all(
        baseline.versions.get(name) == versions.get(name) for name in ("python", "numpy")
    ) and baseline.machine.get("architecture") == machine.get("architecture")
    return baseline.instructions if is_comparable else {}
