"""Which tests run when: by the rule of their folder, or by their own mark.

| tier | `RLOX_TIER` | what |
|---|---|---|
| default | none | what a bare `pytest` runs: quick, and any number of processes may share it |
| ci | `ci` | what takes longer; property tests once more, with more examples |
| serial | `serial` | what measures time or another process's share of a core: alone, without `-n` |

`RLOX_TIER=all` and `RLOX_FULL=1` choose every tier, and so does naming files or folders.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

FULL = os.environ.get("RLOX_FULL") == "1"
TIERS = ("default", "ci", "serial")
FOLDERS: Mapping[str, tuple[str, ...]] = {
    "contract": ("default",),
    "learning": ("ci",),
    "meta": ("default",),
    "packaging": ("ci",),
    "parity": ("default",),
    "property": ("default", "ci"),
    "reliability": ("ci",),
    "security": ("default",),
    "unit": ("default",),
}
MARKS = {
    "smoke": "default",  # the one of its fault that every run tries
    "ci": "ci",
    "serial": "serial",
}
# Built once and used by all of its tests: one process runs the whole folder.
TOGETHER = ("packaging",)
# Few tests that take minutes: begun last, they would leave the other processes with nothing to do.
FIRST = ("packaging", "learning")


def folder_of(nodeid: str) -> str:
    """The folder below `tests` that a test is in, e.g. `unit`; empty for none."""
    parts = nodeid.split("::")[0].split("/")
    below = parts[parts.index("tests") + 1 :] if "tests" in parts else parts
    return below[0] if len(below) > 1 else ""


def tiers_of(nodeid: str, marks: Iterable[str]) -> tuple[str, ...]:
    """The tiers of a test; `marks` are the names of its marks, its own before its module's.

    Raises `pytest.UsageError` for a test without one.
    """
    for name in marks:
        if name in MARKS:
            return (MARKS[name],)
    folder = folder_of(nodeid)
    if folder not in FOLDERS:
        raise pytest.UsageError(
            f"{nodeid} has no tier: expected a test below tests/{{{','.join(FOLDERS)}}}; "
            "give its folder a rule in tests/helpers/tiers.py"
        )
    return FOLDERS[folder]


def chosen(environ: Mapping[str, str], named: bool) -> str:
    """The tier that runs, or `all`; `named`: files or folders were named on the command line."""
    asked = environ.get("RLOX_TIER", "")
    if asked and asked not in (*TIERS, "all"):
        raise pytest.UsageError(f"RLOX_TIER={asked!r}: expected one of {', '.join(TIERS)}, all")
    return asked or ("all" if named or environ.get("RLOX_FULL") == "1" else "default")


def examples(default: int, ci: int, full: int) -> int:
    """How many examples a property test tries."""
    if FULL:
        return full
    return ci if os.environ.get("RLOX_TIER") in ("ci", "all") else default


def scope_of(nodeid: str) -> str:
    """What one process runs as a whole: a file, or a folder of `TOGETHER`."""
    folder = folder_of(nodeid)
    return folder if folder in TOGETHER else nodeid.split("::")[0]


def longest_first(nodeids: Sequence[str]) -> list[int]:
    """The places of tests in the order in which processes that share them should take them."""
    sizes = Counter(map(scope_of, nodeids))

    def key(at: int) -> tuple[int, int, str]:
        folder, scope = folder_of(nodeids[at]), scope_of(nodeids[at])
        return (FIRST.index(folder) if folder in FIRST else len(FIRST), -sizes[scope], scope)

    return sorted(range(len(nodeids)), key=key)


class Selection:
    """The plugin that leaves out the other tiers' tests."""

    def __init__(self, config: pytest.Config) -> None:
        inherited = getattr(config, "workerinput", {}).get("tier")
        self.parallel = inherited is not None or bool(getattr(config.option, "numprocesses", None))
        named = config.args_source is pytest.Config.ArgsSource.ARGS
        self.tier: str = inherited or chosen(os.environ, named)
        if self.tier == "serial" and self.parallel:
            raise pytest.UsageError("RLOX_TIER=serial: these tests run one by one, without -n")

    @property
    def rest(self) -> str:
        """What is left out, in words."""
        if self.tier != "all":
            return "" if self.tier != "default" else "; the others: RLOX_TIER=ci, RLOX_TIER=serial"
        return "; without the serial ones, which run without -n" if self.parallel else ""

    def pytest_report_header(self) -> str:
        return f"tier: {self.tier}{self.rest}"

    def runs(self, tiers: tuple[str, ...]) -> bool:
        """Whether a test of these tiers runs here and now."""
        if self.parallel and "serial" in tiers:
            return False
        return self.tier == "all" or self.tier in tiers

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        kept, left = [], []
        for item in items:
            tiers = tiers_of(item.nodeid, (mark.name for mark in item.iter_markers()))
            (kept if self.runs(tiers) else left).append(item)
        if left:
            config.hook.pytest_deselected(items=left)
            items[:] = kept
        if self.parallel:
            items[:] = [items[at] for at in longest_first([item.nodeid for item in items])]

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tells a worker of pytest-xdist the tier: what was named is known here only."""
        node.workerinput["tier"] = self.tier

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


def folders_with_tests(tests: Path) -> set[str]:
    """Names of the folders that have test files."""
    return {p.relative_to(tests).parts[0] for p in tests.rglob("test_*.py")}
