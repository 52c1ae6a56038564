"""Which tests run, by two marks, and in which order processes take their files.

| mark | a test with it |
|---|---|
| `slow` | runs nightly: under `RLOX_NIGHTLY=1`, with `-m slow`, or when its id is named; it may take 900 s |
| `alone` | measures time, or another process's share of a core: never beside others, so not with `-n` |

All others run with a bare `pytest`, in CI and nightly; each may take 120 s. `RLOX_LOADED=1` says that
other work shares the machine: the limits are five times as long.
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
"""What a test may take by the clock, and a slow one."""
CAMPAIGN = 7200
"""What each may take when campaigns run at full size."""
MEASURED = Path(__file__).resolve().parents[1] / "seconds.json"
"""Seconds of each file, measured: `python tests/seconds.py` writes it."""
UNMEASURED = 20.0
TOGETHER = ("tests/packaging/",)
"""Folders that one process runs as a whole, because their files share what is built once."""


def examples(ci: int, nightly: int, full: int) -> int:
    """How many examples a property test tries."""
    return full if FULL else nightly if NIGHTLY else ci


def each_value_once(cases: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Parameters of a test: cases that together have every value of every position run always, others slow.

    Cases are taken with a stride, so that those that run are spread over the combinations.
    """
    stride = next(k for k in range(len(cases) // 3 + 1, len(cases) + 2) if gcd(k, len(cases)) == 1)
    seen: set[tuple[int, Any]] = set()
    kept = set[int]()
    for at in (k * stride % len(cases) for k in range(len(cases))):
        values = set(enumerate(cases[at]))
        if not values <= seen:
            seen |= values
            kept.add(at)
    return [
        pytest.param(*case, marks=[] if at in kept else pytest.mark.slow)
        for at, case in enumerate(cases)
    ]


def scope_of(nodeid: str) -> str:
    """What one process runs as a whole: a file, or a folder of `TOGETHER`."""
    path = nodeid.split("::")[0]
    return next((folder for folder in TOGETHER if path.startswith(folder)), path)


def longest_first(nodeids: Sequence[str], seconds: Mapping[str, float]) -> list[int]:
    """The positions of tests in the order in which processes take them, the longest file first."""
    scopes = list(map(scope_of, nodeids))
    files = {node.split("::")[0]: scope for node, scope in zip(nodeids, scopes, strict=True)}
    total = dict.fromkeys(scopes, 0.0)
    for file, scope in files.items():
        total[scope] += seconds.get(file, UNMEASURED)
    return sorted(range(len(nodeids)), key=lambda at: (-total[scopes[at]], scopes[at]))


def ids(config: pytest.Config) -> list[str]:
    """Ids among the arguments of the command line, as pytest writes them."""
    split = [argument.partition("::") for argument in config.args if "::" in argument]
    folder, root = config.invocation_params.dir, config.rootpath
    return [f"{os.path.relpath(folder / path, root)}::{name}" for path, _, name in split]


class Selection:
    """The plugin that leaves out slow tests, and with `-n` those that run alone."""

    def __init__(self, config: pytest.Config) -> None:
        inherited: dict[str, Any] = getattr(config, "workerinput", {})
        asked = NIGHTLY or "slow" in config.option.markexpr
        self.slow: bool = inherited.get("slow", asked)
        self.ids: list[str] = inherited.get("ids", ids(config))
        self.parallel = bool(inherited) or bool(getattr(config.option, "numprocesses", None))

    def pytest_report_header(self) -> str:
        left = ["slow ones (-m slow)"] * (not self.slow)
        left += ["those that run alone (-m alone, without -n)"] * self.parallel
        return f"tests left out: {' and '.join(left) or 'none'}"

    def runs(self, item: pytest.Item) -> bool:
        """Whether a test runs here and now."""
        if self.parallel and item.get_closest_marker("alone"):
            return False
        return self.slow or not item.get_closest_marker("slow") or self.named(item.nodeid)

    def named(self, nodeid: str) -> bool:
        """Whether the command line has the id of a test, or that of its function or class."""
        return any(nodeid == own or nodeid.startswith((f"{own}[", f"{own}::")) for own in self.ids)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        for item in items:
            own = item.get_closest_marker("timeout")
            seconds = own.args[0] if own else SECONDS[item.get_closest_marker("slow") is not None]
            seconds = max(seconds, CAMPAIGN) if FULL else seconds
            # the closest counts: the first of its own
            item.add_marker(pytest.mark.timeout(seconds * (5 if LOADED else 1)), append=False)
        left = [item for item in items if not self.runs(item)]
        if left:
            config.hook.pytest_deselected(items=left)
            items[:] = [item for item in items if self.runs(item)]
        if self.parallel:
            seconds = json.loads(MEASURED.read_text(encoding="utf-8"))["seconds"]
            items[:] = [items[at] for at in longest_first([i.nodeid for i in items], seconds)]

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell a worker of pytest-xdist what was asked for: only this process knows."""
        node.workerinput |= {"slow": self.slow, "ids": self.ids}

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        """With `-n` alone a file stays in one process, with what its module makes for it."""
        if config.getoption("dist") not in ("load", "loadfile"):
            return None
        from xdist.scheduler import LoadScopeScheduling

        class ByFile(LoadScopeScheduling):
            def _split_scope(self, nodeid: str) -> str:
                return scope_of(nodeid)

        config.option.loadscopereorder = False  # the collection has its order
        return ByFile(config, log)
