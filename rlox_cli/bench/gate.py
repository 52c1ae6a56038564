"""What became slower, beyond what the noise of both runs explains."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from rlox_cli.bench.intervals import Estimate
from rlox_cli.bench.record import CLOCKS, Baseline, CaseRecord

# Standard errors that chance may explain. There are some twenty cases by two clocks, errors of nine
# passes are known to two fifths, and whatever lies beyond is measured again before it counts.
ERRORS = 4.0
UNCLEAR = 0.4  # a tolerance above this would let 1.5 times the time pass
# CPU time without a reason: where the instructions are as many as before, caches that others fill and
# where memory lies make such times, up to 1.5 times as long on a machine with neighbours.
UNEXPLAINED = 2.0
SAME, SLOWER, FASTER, NOISY, NEW = "same", "slower", "faster", "noisy", "new"
UNPROVEN = "unproven"  # longer, by less than that


@dataclass(frozen=True)
class Verdict:
    """How a case stands against the baseline."""

    name: str
    state: str
    clock: str = CLOCKS[0]
    old: float = math.nan  # times the yardstick
    new: float = math.nan
    tolerance: float = math.nan  # 0.2: 1.2 times the time is called the same
    instructions: tuple[float, float] | None = None  # then and now, where they can be compared

    @property
    def change(self) -> float:
        """How many times as long it takes now."""
        return self.new / self.old

    @property
    def counted(self) -> float | None:
        """How many times as many instructions it takes now."""
        return self.instructions[1] / self.instructions[0] if self.instructions else None


def judge(
    case: CaseRecord, baseline: Baseline, floor: float, counts: Mapping[str, float]
) -> Verdict:
    """CPU time decides, which the work of others on the machine moves least; time of the clock shows
    what only waits. Where time is too noisy to show 1.5 times as much, the instructions decide, and where it
    may be as much longer as there are more of them, they are believed. Where there are no more of them,
    longer CPU time is believed from twice the time on.
    """
    name = case.name
    if name not in baseline.passes or baseline.yardsticks[name] != case.yardstick:
        return Verdict(name, NEW)
    then, now = counts.get(name), case.instructions
    pair = (then, now) if then and now else None
    found = [
        _compare(name, clock, baseline.estimate(name, clock), case.estimate(clock), floor, pair)
        for clock in CLOCKS
    ]
    if found[0].state == UNPROVEN:  # the clock says no more than the same
        return found[0]
    return next((verdict for verdict in found if verdict.state == SLOWER), found[0])


def _compare(
    name: str,
    clock: str,
    old: Estimate,
    new: Estimate,
    floor: float,
    counted: tuple[float, float] | None,
) -> Verdict:
    """One clock's verdict."""
    noise = ERRORS * math.hypot(old.error, new.error)
    bound, moved = max(math.log1p(floor), noise), new.log - old.log
    tolerance = math.expm1(bound)
    more = math.log(counted[1] / counted[0]) if counted else 0.0
    of_cpu = clock == CLOCKS[0]
    works = more > math.log1p(floor) and of_cpu
    unexplained = bool(counted) and not works and of_cpu and moved <= math.log(UNEXPLAINED)
    if tolerance > UNCLEAR and counted:
        state = SLOWER if works else NOISY
    elif moved > bound or (works and more <= moved + bound):  # which the time does not deny
        state = UNPROVEN if unexplained else SLOWER
    elif tolerance > UNCLEAR:
        state = NOISY
    else:
        state = FASTER if moved < -bound else SAME
    return Verdict(name, state, clock, old.ratio, new.ratio, tolerance, counted)


def comparable_counts(
    baseline: Baseline, versions: Mapping[str, str], machine: Mapping[str, object]
) -> dict[str, float]:
    """The baseline's instructions, if the same interpreter and NumPy ran on the same kind of machine."""
    same = all(
        baseline.versions.get(name) == versions.get(name) for name in ("python", "numpy")
    ) and baseline.machine.get("architecture") == machine.get("architecture")
    return baseline.instructions if same else {}
