"""The record that `rlox bench` writes, and an earlier record read as the baseline."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlox.errors import ConfigError
from rlox_cli.bench.intervals import Ratio, RatioEstimate, estimate_ratio, ratio_of_medians

SCHEMA_VERSION = 1
CLOCKS = ("cpu", "wall")
Passes = list[tuple[list[float], list[float]]]  # seconds of ours and of the yardstick, per round


@dataclass
class CaseMeasurements:
    """All measurements of one case."""

    name: str
    yardstick: str = ""
    seconds: list[float] = field(default_factory=list)
    passes: dict[str, Passes] = field(default_factory=lambda: {clock: [] for clock in CLOCKS})
    peers: dict[str, list[float]] = field(default_factory=dict)
    bounds: set[str] = field(default_factory=set)  # peers that are only a limit, such as a bare copy
    instructions: float | None = None  # per call

    def add(self, event: Mapping[str, Any]) -> None:
        """Add the measurements of one pass."""
        self.yardstick = event["yardstick"]
        self.seconds += event["seconds"]
        for clock in CLOCKS:
            self.passes[clock].append((event["ours"][clock], event["beside"][clock]))
        for peer in event["peers"]:
            self.peers.setdefault(peer["name"], []).extend(peer["seconds"])
            if peer["bound"]:
                self.bounds.add(peer["name"])

    def estimate(self, clock: str) -> RatioEstimate:
        """Estimate the ratio to its yardstick."""
        return estimate_ratio(self.passes[clock])

    def peer_ratios(self) -> dict[str, Ratio]:
        """Return each peer's time divided by ours."""
        return {name: ratio_of_medians(self.seconds, peer) for name, peer in self.peers.items()}

    def fastest(self) -> tuple[str, Ratio] | None:
        """Return the fastest peer that is not a bound, and its ratio; `None` if there is none."""
        peer_ratios = {n: r for n, r in self.peer_ratios().items() if n not in self.bounds}
        return min(peer_ratios.items(), key=lambda item: item[1].value) if peer_ratios else None


@dataclass
class BenchRecord:
    """The record of one `rlox bench`."""

    suite: str
    protocol: dict[str, Any]
    date: str
    commit: str | None
    machine: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)  # peers that are not installed
    cases: dict[str, CaseMeasurements] = field(default_factory=dict)

    def case_measurements(self, name: str) -> CaseMeasurements:
        """Return the measurements of a case, created at the first call."""
        return self.cases.setdefault(name, CaseMeasurements(name))

    @property
    def measured_cases(self) -> list[CaseMeasurements]:
        """The cases with at least one finished pass."""
        return [
            case_measurements for case_measurements in self.cases.values() if case_measurements.passes["cpu"]
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON data."""
        return {
            "schema_version": SCHEMA_VERSION,
            "suite": self.suite,
            "date": self.date,
            "commit": self.commit,
            "machine": self.machine,
            "versions": self.versions,
            "absent": self.absent,
            "protocol": self.protocol,
            "cases": [_case_dict(case_measurements) for case_measurements in self.measured_cases],
        }


def _case_dict(case: CaseMeasurements) -> dict[str, Any]:
    return {
        "name": case.name,
        "yardstick": case.yardstick,
        "seconds": sorted(case.seconds)[len(case.seconds) // 2],
        "to_yardstick": {clock: _estimate_dict(case.estimate(clock)) for clock in CLOCKS},
        "to_peers": {name: vars(ratio) for name, ratio in case.peer_ratios().items()},
        "instructions": case.instructions,
        "passes": case.passes,
    }


def _estimate_dict(estimate: RatioEstimate) -> dict[str, float]:
    return {
        "value": estimate.ratio,
        "low": estimate.low,
        "high": estimate.high,
        "noise": estimate.relative_error,
    }


@dataclass(frozen=True)
class Baseline:
    """The parts of an earlier record with which a later one is compared."""

    suite: str
    date: str
    machine: dict[str, Any]
    versions: dict[str, str]
    passes: dict[str, dict[str, Passes]]
    yardsticks: dict[str, str]
    instructions: dict[str, float]

    def estimate(self, name: str, clock: str) -> RatioEstimate:
        """Estimate the ratio of a case to its yardstick."""
        return estimate_ratio(self.passes[name][clock])


def read_baseline(path: Path) -> Baseline:
    """Read the record at `path`; raise `ConfigError` if the file is no record."""
    try:
        tree = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"baseline={path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"baseline={path}: not JSON: {error}") from error
    version = tree.get("schema_version") if isinstance(tree, dict) else None
    if version != SCHEMA_VERSION:
        raise ConfigError(
            f"baseline={path}: schema_version {version}, expected {SCHEMA_VERSION}; "
            f"write it again with rlox bench out={path}"
        )
    try:
        cases: dict[str, Any] = {case["name"]: case for case in tree["cases"]}
        return Baseline(
            suite=str(tree["suite"]),
            date=str(tree["date"]),
            machine=dict(tree["machine"]),
            versions=dict(tree["versions"]),
            passes={name: _read_passes(case["passes"]) for name, case in cases.items()},
            yardsticks={name: str(case["yardstick"]) for name, case in cases.items()},
            instructions={
                name: float(case["instructions"])
                for name, case in cases.items()
                if case["instructions"] is not None
            },
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"baseline={path}: not written by rlox bench: {error!r}") from error


def _read_passes(tree: Mapping[str, Any]) -> dict[str, Passes]:
    passes = {clock: [_read_pair(*pair) for pair in tree[clock]] for clock in CLOCKS}
    if not all(passes.values()):
        raise ValueError("a case without passes")
    return passes


def _read_pair(ours: Sequence[float], yardstick: Sequence[float]) -> tuple[list[float], list[float]]:
    pair = [float(x) for x in ours], [float(x) for x in yardstick]
    is_valid = all(0 < x < math.inf for side in pair for x in side)  # false for NaN, too
    if len(pair[0]) != len(pair[1]) or not pair[0] or not is_valid:
        raise ValueError("seconds that are missing or not above 0")
    return pair
