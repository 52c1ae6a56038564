"""CPU seconds of each part of the tests beside what `tests/budgets.toml` allows.

Seconds are of processor time, of the test process and the children it waited for, so a machine
that is busy with others counts the same. They are scaled by how slow this processor is (`slowness`).
A part is a folder, `unit/core` or `security`, or the longest beginning that the table lists.
"""

from __future__ import annotations

import os
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

LIMIT = 2.0
"""Times its budget that a part may take before a run that is judged fails."""
REFERENCE = 0.12
"""CPU seconds of `_known_work` on the machine that the budgets were written on."""
PROPERTY = "cpu seconds"


def cpu_seconds() -> float:
    """Of this process and its children that have ended and were waited for."""
    now = os.times()
    return now.user + now.system + now.children_user + now.children_system


def part_of(nodeid: str, listed: Mapping[str, float]) -> str:
    """The part that a test belongs to: its folder, or the longest entry that begins its path."""
    path = nodeid.split("::")[0].partition("tests/")[2] or nodeid.split("::")[0]
    fits = [name for name in listed if path == name or path.startswith(name + "/")]
    if fits:
        return max(fits, key=len)
    return "/".join(path.split("/")[:-1][:2]) or path


def overspent(
    spent: Mapping[str, float], listed: Mapping[str, float], new: float, slowness: float
) -> dict[str, float]:
    """How many times its budget each part took, of those beyond `LIMIT`."""
    ratios = {part: s / slowness / listed.get(part, new) for part, s in spent.items()}
    return {part: ratio for part, ratio in ratios.items() if ratio > LIMIT}


def _known_work() -> float:
    """CPU seconds of work that is the same everywhere."""
    begun = time.process_time()
    for size in range(1, 1_500):
        sum(i * i for i in range(size))
    return time.process_time() - begun


def slowness() -> float:
    """How many times the CPU seconds of the reference machine this one needs, at least 1."""
    return max(1.0, min(_known_work() for _ in range(3)) / REFERENCE)


def table(path: Path, tier: str) -> tuple[dict[str, float], float]:
    """The budgets of a tier, and that of a part without one."""
    read = tomllib.loads(path.read_text(encoding="utf-8"))
    return read[tier], read["new"][tier]


def watch(config: pytest.Config, path: Path, tier: str) -> None:
    """Count the seconds of a run of one whole tier; a tier that was asked for is judged as well."""
    if tier == "all" or os.environ.get("RLOX_FULL") == "1":
        return
    # by the process that collects the reports
    judged = bool(os.environ.get("RLOX_TIER")) and not hasattr(config, "workerinput")
    config.pluginmanager.register(Budgets(path, tier, judged), "rlox-budgets")


class Budgets:
    """The plugin that counts, reports, and fails a run of a named tier beyond `LIMIT`."""

    def __init__(self, path: Path, tier: str, judged: bool) -> None:
        self.listed, self.new = table(path, tier)
        self.tier, self.judged, self.mark = tier, judged, cpu_seconds()
        self.spent: dict[str, float] = defaultdict(float)

    def since(self) -> float:
        """CPU seconds since it was last asked."""
        before, self.mark = self.mark, cpu_seconds()
        return self.mark - before

    def pytest_runtest_logstart(self) -> None:
        self.since()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[Any]:
        """Each phase's report carries its seconds, from a worker of pytest-xdist too."""
        report = yield
        report.user_properties = [*report.user_properties, (PROPERTY, self.since())]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        seconds = sum(float(s) for name, s in report.user_properties if name == PROPERTY)
        self.spent[part_of(report.nodeid, self.listed)] += seconds

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.judged and session.exitstatus == 0 and self.beyond():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def beyond(self) -> dict[str, float]:
        """The parts beyond the limit; the processor is only measured when it matters."""
        if not overspent(self.spent, self.listed, self.new, 1.0):
            return {}
        return overspent(self.spent, self.listed, self.new, slowness())

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self.spent:
            return
        write = terminalreporter.write_line
        terminalreporter.section(f"CPU seconds, tier {self.tier}")
        for part, seconds in sorted(self.spent.items(), key=lambda entry: -entry[1]):
            budget = self.listed.get(part, self.new)
            write(f"{seconds:7.1f} of {budget:5.0f}  {part}")
        write(f"{sum(self.spent.values()):7.1f} of {sum(self.listed.values()):5.0f}  all")
        for part, ratio in self.beyond().items():
            word = "over budget, which fails this run" if self.judged else "over budget"
            write(f"{part}: {word}: {ratio:.1f} times what tests/budgets.toml allows it")
