"""Measure a suite once in its own process, for `rlox bench`: read a request, print a line for each case.

The request is a line of JSON on standard input. `suite` names the suite; `mode` is measure, list or count;
`only` is a text in the names of the cases, or null; `names` are names of cases, or null. The mode measure
needs `rounds`, `sample_seconds`, `peers` (whether they are measured too) and `first` (whether results are
compared). The mode count needs `counts`, the file that callgrind writes to. Standard output has a line of
JSON for each event.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import machine, peers
from harness.agreement import DisagreementError, check_agreement
from harness.case import Results, Runner
from harness.cli import Context
from harness.original import Original, OriginalError, find_python
from harness.suites import SUITES, Entry
from harness.timing import Protocol, interleave
from harness.yardsticks import yardstick

YARDSTICK = "yardstick"
TARGET_INSTRUCTIONS = 1_000_000  # approximate number of instructions in the counted calls
MAX_COUNTED_CALLS = 100  # most calls that are counted


@dataclass
class MeteredRunner:
    """A runner whose samples are also timed by this process's CPU and wall clocks."""

    runner: Runner
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    def sample(self, loops: int) -> float:
        """Return the runner's sample; note each clock's seconds of one loop."""
        cpu, wall = time.process_time(), time.perf_counter()
        seconds = self.runner.sample(loops)
        self.wall.append((time.perf_counter() - wall) / loops)
        self.cpu.append((time.process_time() - cpu) / loops)
        return seconds

    def result(self) -> Results:
        """Return the runner's result."""
        return self.runner.result()

    def close(self) -> None:
        """Close the runner."""
        self.runner.close()


def main(request: Mapping[str, Any], send_event: Any) -> int:
    """Do the request; return 0, or 1 with an event `failed`."""
    try:
        python = find_python(None)
        original = Original(python)
        all_entries = list(SUITES[request["suite"]](Context(original, is_quick=True)))
        text, names = (request["only"] or "").lower(), request["names"]
        selected_entries = [
            e for e in all_entries if text in e.name.lower() and (names is None or e.name in names)
        ]
        cases = [entry.case for entry in selected_entries]
        absent = peers.missing_packages(
            cases, lambda p: python is not None if p == "original" else peers.is_importable(p)
        )
        send_event(
            event="cases",
            names=[entry.name for entry in selected_entries],
            known=[entry.name for entry in all_entries],
            absent=describe_absent(absent),
        )
        if request["mode"] == "count":
            count_instructions(selected_entries, Path(request["counts"]), send_event)
        elif request["mode"] == "measure":
            measure(selected_entries, request, absent, send_event)
    except (OriginalError, DisagreementError, CountError) as error:
        send_event(event="failed", reason=str(error))
        return 1
    return 0


def describe_absent(absent: Iterable[str]) -> dict[str, str]:
    """Return the missing distributions and the commands that install them."""
    return {peers.PACKAGES[name].distribution: peers.PACKAGES[name].install for name in absent}


def measure(
    selected_entries: Iterable[Entry],
    request: Mapping[str, Any],
    absent: Collection[str],
    send_event: Any,
) -> None:
    """Measure every case in turn."""
    protocol = Protocol(request["rounds"], request["sample_seconds"])
    if request["first"]:
        send_event(
            event="about",
            machine=machine.describe_machine(),
            versions=machine.installed_versions(None),
        )
    for entry in selected_entries:
        send_event(event="case", name=entry.name, **measure_entry(entry, protocol, absent, request))


def measure_entry(
    entry: Entry, protocol: Protocol, absent: Collection[str], request: Mapping[str, Any]
) -> dict[str, Any]:
    """Sample rlox's system, its yardstick and the peers in turn."""
    peers_measured = [p for p in entry.case.peers if p.package not in absent and request["peers"]]
    with ExitStack() as stack:
        runners: dict[str, MeteredRunner] = {}
        for system in (entry.system, *peers_measured):
            runners[system.name] = MeteredRunner(system.prepare())
            stack.callback(runners[system.name].close)
        if request["first"]:
            compared_systems = [s for s in (entry.system, *peers_measured) if s.is_compared]
            results = {s.name: runners[s.name].result() for s in compared_systems}
            check_agreement(entry.system.name, results, entry.case.tolerance, entry.name)
        runners[YARDSTICK] = MeteredRunner(yardstick(entry.yardstick))
        samples = interleave(runners, protocol)
    n_kept = -protocol.repeats  # earlier samples searched for the number of loops
    return {
        "yardstick": entry.yardstick,
        "ours": {c: getattr(runners[entry.system.name], c)[n_kept:] for c in ("cpu", "wall")},
        "beside": {c: getattr(runners[YARDSTICK], c)[n_kept:] for c in ("cpu", "wall")},
        "seconds": list(samples[entry.system.name].seconds),
        "peers": [
            {
                "name": peer.name,
                "bound": peer.is_bound,
                "seconds": [s * peer.scale for s in samples[peer.name].seconds],
            }
            for peer in peers_measured
        ],
    }


def count_instructions(selected_entries: Iterable[Entry], dump_path: Path, send_event: Any) -> None:
    """Count the instructions of one call, as the difference of n calls and 2n calls.

    Callgrind runs with `--dump-before=getppid`: it writes its counts whenever `getppid` is called.
    """
    dumps = itertools.count(1)

    def count_calls(runner: Runner, loops: int) -> int:
        os.getppid()
        runner.sample(loops)
        os.getppid()
        next(dumps)  # skips the counts before these calls
        return read_total(dump_path.with_name(f"{dump_path.name}.{next(dumps)}"))

    for entry in selected_entries:
        if not entry.is_counted:
            continue
        runner = entry.system.prepare()
        try:
            runner.sample(2)
            loops = min(MAX_COUNTED_CALLS, max(1, TARGET_INSTRUCTIONS // count_calls(runner, 1)))
            base_count, double_count = count_calls(runner, loops), count_calls(runner, 2 * loops)
        finally:
            runner.close()
        send_event(event="count", name=entry.name, instructions=(double_count - base_count) / loops)


def read_total(dump: Path) -> int:
    """Read the total from a file of callgrind."""
    match = re.search(r"^totals: (\d+)", dump.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise CountError(f"{dump.name} of callgrind has no total")
    return int(match[1])


class CountError(Exception):
    """A file of callgrind has no total."""


if __name__ == "__main__":

    def print_event(**event: Any) -> None:
        """Print an event."""
        print(json.dumps(event), flush=True)

    sys.exit(main(json.loads(sys.stdin.readline()), print_event))
