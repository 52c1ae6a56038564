"""Selects tests by two marks, and orders the files for parallel processes.

| mark | meaning |
|---|---|
| `slow` | runs nightly: under `RLOX_NIGHTLY=1`, with `-m slow`, or when its id is named; it may take 900 s |
| `alone` | measures time, or another process's share of a core: never beside others, so not with `-n` |

All others run with a bare `pytest`, in CI and nightly; each may take 120 s. `RLOX_LOADED=1` means that other
work shares the machine: the limits are five times as long.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from math import gcd
from pathlib import Path
from typing import Any

import pytest

from helpers.waiting import LOADED

FULL = os.environ.get("RLOX_FULL") == "1"
"""Whether campaigns run at full size, which takes hours."""
NIGHTLY = FULL or os.environ.get("RLOX_NIGHTLY") == "1"
"""Whether slow tests run too, and property tests try more examples."""
SECONDS = 120, 900
"""Time limits of a test and of a slow test, by the clock."""
CAMPAIGN_SECONDS = 7200
"""Time limit of each test when campaigns run at full size."""
SECONDS_FILE = Path(__file__).resolve().parents[1] / "seconds.json"
"""Measured seconds of each file; `python tests/seconds.py` writes them."""
DEFAULT_SECONDS = 20.0
SINGLE_PROCESS_FOLDERS = ("tests/packaging/",)
"""Folders whose files one process runs, because the files share a build."""


def examples(ci: int, nightly: int, full: int) -> int:
    """Return how many examples a property test tries."""
    return full if FULL else nightly if NIGHTLY else ci


def each_value_once(cases: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return parameters of a test: cases that cover each value of each position always run, others are slow.

    It takes cases with a stride, so that those in CI are spread over the combinations.
    """
    stride = next(k for k in range(len(cases) // 3 + 1, len(cases) + 2) if gcd(k, len(cases)) == 1)
    covered: set[tuple[int, Any]] = set()
    always_run = set[int]()
    for index in (k * stride % len(cases) for k in range(len(cases))):
        values = set(enumerate(cases[index]))
        if not values <= covered:
            covered |= values
            always_run.add(index)
    return [
        pytest.param(*case, marks=[] if index in always_run else pytest.mark.slow)
        for index, case in enumerate(cases)
    ]


def scope_of(nodeid: str) -> str:
    """Return the unit that one process runs: a file, or a folder of `SINGLE_PROCESS_FOLDERS`."""
    path = nodeid.split("::")[0]
    return next((folder for folder in SINGLE_PROCESS_FOLDERS if path.startswith(folder)), path)


def longest_first(nodeids: Sequence[str], seconds: Mapping[str, float]) -> list[int]:
    """Return the positions of tests in the order in which processes run them, the longest file first."""
    scopes = list(map(scope_of, nodeids))
    files = {node.split("::")[0]: scope for node, scope in zip(nodeids, scopes, strict=True)}
    total = dict.fromkeys(scopes, 0.0)
    for file, scope in files.items():
        total[scope] += seconds.get(file, DEFAULT_SECONDS)
    return sorted(range(len(nodeids)), key=lambda at: (-total[scopes[at]], scopes[at]))


def parse_ids(config: pytest.Config) -> list[str]:
    """Return the test ids among the arguments of the command line, as pytest writes them."""
    parts = [argument.partition("::") for argument in config.args if "::" in argument]
    folder, root = config.invocation_params.dir, config.rootpath
    return [f"{os.path.relpath(folder / path, root)}::{name}" for path, _, name in parts]


class Selection:
    """A plugin that leaves out slow tests, and with `-n` the tests that run alone."""

    def __init__(self, config: pytest.Config) -> None:
        worker_input: dict[str, Any] = getattr(config, "workerinput", {})
        is_explicit = NIGHTLY or "slow" in config.option.markexpr
        self.runs_slow: bool = worker_input.get("slow", is_explicit)
        self.ids: list[str] = worker_input.get("ids", parse_ids(config))
        self.is_parallel = bool(worker_input) or bool(getattr(config.option, "numprocesses", None))

    def pytest_report_header(self) -> str:
        left_out = ["slow ones (-m slow)"] * (not self.runs_slow)
        left_out += ["those that run alone (-m alone, without -n)"] * self.is_parallel
        return f"tests left out: {' and '.join(left_out) or 'none'}"

    def runs(self, item: pytest.Item) -> bool:
        """Return whether a test runs in this process now."""
        if self.is_parallel and item.get_closest_marker("alone"):
            return False
        return self.runs_slow or not item.get_closest_marker("slow") or self.is_named(item.nodeid)

    def is_named(self, nodeid: str) -> bool:
        """Return whether the command line has the id of a test, or of its function or class."""
        return any(
            nodeid == test_id or nodeid.startswith((f"{test_id}[", f"{test_id}::")) for test_id in self.ids
        )

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        for item in items:
            timeout_marker = item.get_closest_marker("timeout")
            seconds = (
                timeout_marker.args[0]
                if timeout_marker
                else SECONDS[item.get_closest_marker("slow") is not None]
            )
            seconds = max(seconds, CAMPAIGN_SECONDS) if FULL else seconds
            # The closest marker counts; this one is closest.
            item.add_marker(pytest.mark.timeout(seconds * (5 if LOADED else 1)), append=False)
        deselected = [item for item in items if not self.runs(item)]
        if deselected:
            config.hook.pytest_deselected(items=deselected)
            items[:] = [item for item in items if self.runs(item)]
        if self.is_parallel:
            seconds = json.loads(SECONDS_FILE.read_text(encoding="utf-8"))["seconds"]
            items[:] = [items[index] for index in longest_first([i.nodeid for i in items], seconds)]

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Send a pytest-xdist worker the selection, which only this process knows."""
        node.workerinput |= {"slow": self.runs_slow, "ids": self.ids}

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        """Keep a file in one process with `-n`, so that module fixtures are made once."""
        if config.getoption("dist") not in ("load", "loadfile"):
            return None
        from xdist.scheduler import LoadScopeScheduling

        class ByFile(LoadScopeScheduling):
            def _split_scope(self, nodeid: str) -> str:
                return scope_of(nodeid)

        config.option.loadscopereorder = False  # keep the order of the collection
        return ByFile(config, log)
