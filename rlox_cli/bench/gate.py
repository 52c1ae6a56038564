"""Find what became slower by more than the noise of both runs explains."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from rlox_cli.bench.intervals import RatioEstimate
from rlox_cli.bench.record import CLOCKS, Baseline, CaseMeasurements

# Differences of up to this many standard errors count as noise. The limit is high because about twenty cases
# are compared by two clocks, and because nine passes tell the standard error only to within two fifths.
# Larger differences are measured again before they count.
NOISE_STANDARD_ERRORS = 4.0
MAX_TOLERANCE = 0.4  # with a larger tolerance, 1.5 times the time might pass as noise
# Longer CPU time up to this ratio needs more instructions as proof. On a machine that others use, their
# load on the caches and the placement of memory make the same instructions take up to 1.5 times as long.
UNEXPLAINED_RATIO = 2.0
SAME, SLOWER, FASTER, NOISY, NEW = "same", "slower", "faster", "noisy", "new"
UNPROVEN = "unproven"  # up to `UNEXPLAINED_RATIO` times as long, with no more instructions


@dataclass(frozen=True)
class BaselineVerdict:
    """The result of a case's comparison with the baseline."""

    name: str
    state: str
    clock: str = CLOCKS[0]
    old: float = math.nan  # ratio to the yardstick
    new: float = math.nan
    tolerance: float = math.nan  # 0.2: up to 1.2 times the time counts as the same
    instructions: tuple[float, float] | None = None  # old and new, if they can be compared

    @property
    def time_ratio(self) -> float:
        """New time divided by old time."""
        return self.new / self.old

    @property
    def instruction_ratio(self) -> float | None:
        """New instructions divided by old instructions; `None` if they cannot be compared."""
        return self.instructions[1] / self.instructions[0] if self.instructions else None


def judge(
    case: CaseMeasurements, baseline: Baseline, minimum_tolerance: float, counts: Mapping[str, float]
) -> BaselineVerdict:
    """Compare a case with the baseline.

    CPU time decides, as the load of others on the machine changes it least; wall time shows cases that only
    wait. If time is too noisy to show a factor of 1.5, the instructions decide. More instructions count as
    slower if the time is compatible with them. Without more instructions, longer CPU time counts as slower
    only above twice the time.
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
    if verdicts[0].state == UNPROVEN:  # longer wall time would prove no more
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
    """Return the verdict of one clock."""
    noise = NOISE_STANDARD_ERRORS * math.hypot(old.log_error, new.log_error)
    bound, log_change = max(math.log1p(minimum_tolerance), noise), new.log_ratio - old.log_ratio
    tolerance = math.expm1(bound)
    log_instruction_ratio = math.log(instructions[1] / instructions[0]) if instructions else 0.0
    is_cpu_clock = clock == CLOCKS[0]
    does_more_work = log_instruction_ratio > math.log1p(minimum_tolerance) and is_cpu_clock
    is_unexplained = (
        bool(instructions)
        and not does_more_work
        and is_cpu_clock
        and log_change <= math.log(UNEXPLAINED_RATIO)
    )
    if tolerance > MAX_TOLERANCE and instructions:
        state = SLOWER if does_more_work else NOISY
    elif log_change > bound or (
        does_more_work and log_instruction_ratio <= log_change + bound
    ):  # the time is compatible with the instructions
        state = UNPROVEN if is_unexplained else SLOWER
    elif tolerance > MAX_TOLERANCE:
        state = NOISY
    else:
        state = FASTER if log_change < -bound else SAME
    return BaselineVerdict(name, state, clock, old.ratio, new.ratio, tolerance, instructions)


def comparable_counts(
    baseline: Baseline, versions: Mapping[str, str], machine: Mapping[str, object]
) -> dict[str, float]:
    """Return the baseline's instructions if Python, NumPy and the architecture are the same, else none."""
    is_comparable = all(
        baseline.versions.get(name) == versions.get(name) for name in ("python", "numpy")
    ) and baseline.machine.get("architecture") == machine.get("architecture")
    return baseline.instructions if is_comparable else {}
