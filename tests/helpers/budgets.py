"""Compares the CPU seconds of each part of the tests with `tests/budgets.toml`.

The seconds are processor time of the test process and of the children that it waited for. They are divided by
the slowness of the processor during the tests: every process times a loop of known work once a minute. A part
is a folder, `unit/core` or `security`, or the longest entry of the table that begins its path.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

WARN, FAIL = 2.0, 4.0
"""Ratios of CPU time to budget: above the first a part is reported, above the second CI fails."""
REFERENCE = 0.055
"""CPU seconds of `known_work` on the machine where the budgets were measured."""
EVERY = 60.0
"""Seconds between two samples of the processor's speed."""
CPU, SPEED = "cpu seconds", "known work"


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of the ended children that it waited for."""
    now = os.times()
    return now.user + now.system + now.children_user + now.children_system


def part_of(nodeid: str, listed: Iterable[str]) -> str:
    """Return the part of a test: its folder, or the longest entry that begins its path."""
    path = nodeid.split("::")[0].partition("tests/")[2] or nodeid.split("::")[0]
    fits = [name for name in listed if path == name or path.startswith(name + "/")]
    if fits:
        return max(fits, key=len)
    return "/".join(path.split("/")[:-1][:2]) or path


def known_work() -> float:
    """Return the CPU seconds of a fixed amount of work."""
    start = time.process_time()
    for size in range(1, 1_500):
        sum(i * i for i in range(size))
    return time.process_time() - start


@dataclass(frozen=True)
class Table:
    """Budgets in CPU seconds; `commit` is the commit at which they were measured."""

    budgets: Mapping[str, float]
    new: float
    commit: str

    @classmethod
    def read(cls, path: Path) -> Table:
        read = tomllib.loads(path.read_text(encoding="utf-8"))
        return cls(read["budgets"], read["new"], read["commit"])

    def over_budget(self, spent: Mapping[str, float], slowness: float) -> dict[str, float]:
        """Return the ratio of CPU time to budget of each part beyond `WARN`."""
        ratios = {part: s / slowness / self.budgets.get(part, self.new) for part, s in spent.items()}
        return {part: ratio for part, ratio in ratios.items() if ratio > WARN}

    def changed_parts(self, tests: Path) -> set[str]:
        """Return the parts whose files changed since the budgets were measured; empty if git cannot tell."""
        process = subprocess.run(
            ["git", "diff", "--name-only", self.commit, "HEAD", "--", tests],
            cwd=tests, capture_output=True, text=True, check=False,
        )  # fmt: skip
        files = process.stdout.split() if process.returncode == 0 else []
        return {part_of(file, self.budgets) for file in files}


def watch(config: pytest.Config, path: Path) -> None:
    """Count the seconds of a complete run; in CI a part far beyond its budget fails the run."""
    if config.args_source is pytest.Config.ArgsSource.ARGS or config.option.markexpr:
        return  # only some tests run
    is_enforced = bool(os.environ.get("CI")) and not hasattr(config, "workerinput")
    config.pluginmanager.register(Budgets(path, is_enforced), "rlox-budgets")


class Budgets:
    """A plugin that counts and reports CPU seconds, and in CI fails a run beyond `FAIL`."""

    def __init__(self, path: Path, is_enforced: bool) -> None:
        self.table, self.tests, self.is_enforced = Table.read(path), path.parent, is_enforced
        self.mark, self.sampled = cpu_seconds(), -EVERY
        self.spent: dict[str, float] = defaultdict(float)
        self.samples: list[float] = []

    def since(self) -> float:
        """Return the CPU seconds since the last call."""
        before, self.mark = self.mark, cpu_seconds()
        return self.mark - before

    def pytest_runtest_logstart(self) -> None:
        self.since()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Iterator[Any]:
        """Add the CPU seconds to each report, and once a minute a sample of speed, also in workers."""
        report = yield
        report.user_properties = [*report.user_properties, (CPU, self.since())]
        if call.when == "teardown" and time.monotonic() - self.sampled >= EVERY:
            self.sampled = time.monotonic()
            report.user_properties.append((SPEED, known_work()))
            self.since()
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == CPU:
                self.spent[part_of(report.nodeid, self.table.budgets)] += float(value)
            elif name == SPEED:
                self.samples.append(float(value))

    @property
    def slowness(self) -> float:
        """The ratio of this machine's CPU seconds to the reference machine's."""
        return statistics.median(self.samples) / REFERENCE if self.samples else 1.0

    def failing_parts(self) -> dict[str, float]:
        """Return the parts that fail the run: far beyond their budget, and changed since it was measured."""
        beyond = self.table.over_budget(self.spent, self.slowness)
        if not self.is_enforced or not any(ratio > FAIL for ratio in beyond.values()):
            return {}
        changed = self.table.changed_parts(self.tests)
        return {part: r for part, r in beyond.items() if r > FAIL and part in changed}

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == 0 and self.failing_parts():
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self.spent:
            return
        write = terminalreporter.write_line
        terminalreporter.section(f"CPU seconds; known work took {self.slowness:.2f} of its time")
        for part, seconds in sorted(self.spent.items(), key=lambda entry: -entry[1]):
            write(f"{seconds:7.1f} of {self.table.budgets.get(part, self.table.new):5.0f}  {part}")
        write(f"{sum(self.spent.values()):7.1f} of {sum(self.table.budgets.values()):5.0f}  all")
        failing = self.failing_parts()
        for part, ratio in self.table.over_budget(self.spent, self.slowness).items():
            verdict = "over budget, which fails this run" if part in failing else "over budget"
            write(f"{part}: {verdict}: {ratio:.1f} times what tests/budgets.toml allows it")
