"""One pass over a suite in a process of its own, for `rlox bench`: a request is read, a line for each case
is printed.

The request is a line of JSON on standard input: `suite`, `mode` (measure, list or count), `only` (a text
that is in the names of the cases, or null), `names` (of the cases, or null), and to measure `rounds`,
`sample_seconds`, `peers` (whether they are measured too) and `first` (whether results are compared); to count
`counts`, the file that callgrind writes to. Standard output has a line of JSON an event.
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
COUNTED = 1_000_000  # instructions of the calls that are counted, about
MOST_COUNTED = 100  # calls


@dataclass
class Metered:
    """A runner whose samples are also taken by the clocks of this process: CPU and wall."""

    runner: Runner
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    def sample(self, loops: int) -> float:
        """What the runner says; each clock's seconds of one loop are noted."""
        cpu, wall = time.process_time(), time.perf_counter()
        seconds = self.runner.sample(loops)
        self.wall.append((time.perf_counter() - wall) / loops)
        self.cpu.append((time.process_time() - cpu) / loops)
        return seconds

    def result(self) -> Results:
        """The runner's."""
        return self.runner.result()

    def close(self) -> None:
        """The runner's."""
        self.runner.close()


def main(given: Mapping[str, Any], say: Any) -> int:
    """Do what is asked; 0, or 1 with an event `failed`."""
    try:
        python = find_python(None)
        original = Original(python)
        known = list(SUITES[given["suite"]](Context(original, quick=True)))
        text, names = (given["only"] or "").lower(), given["names"]
        chosen = [e for e in known if text in e.name.lower() and (names is None or e.name in names)]
        cases = [entry.case for entry in chosen]
        absent = peers.missing_packages(
            cases, lambda p: python is not None if p == "original" else peers.is_importable(p)
        )
        say(
            event="cases",
            names=[entry.name for entry in chosen],
            known=[entry.name for entry in known],
            absent=describe_absent(absent),
        )
        if given["mode"] == "count":
            count(chosen, Path(given["counts"]), say)
        elif given["mode"] == "measure":
            measure(chosen, given, absent, say)
    except (OriginalError, DisagreementError, CountError) as error:
        say(event="failed", reason=str(error))
        return 1
    return 0


def describe_absent(absent: Iterable[str]) -> dict[str, str]:
    """Distributions that are not installed, and what brings them."""
    return {peers.PACKAGES[name].distribution: peers.PACKAGES[name].install for name in absent}


def measure(
    chosen: Iterable[Entry], given: Mapping[str, Any], absent: Collection[str], say: Any
) -> None:
    """Every case in turn."""
    protocol = Protocol(given["rounds"], given["sample_seconds"])
    if given["first"]:
        say(
            event="about",
            machine=machine.describe_machine(),
            versions=machine.installed_versions(None),
        )
    for entry in chosen:
        say(event="case", name=entry.name, **measured(entry, protocol, absent, given))


def measured(
    entry: Entry, protocol: Protocol, absent: Collection[str], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Samples of ours, of its yardstick and of the peers, taken in turn."""
    beside = [p for p in entry.case.peers if p.package not in absent and given["peers"]]
    with ExitStack() as stack:
        runners: dict[str, Metered] = {}
        for system in (entry.system, *beside):
            runners[system.name] = Metered(system.prepare())
            stack.callback(runners[system.name].close)
        if given["first"]:
            compared = [s for s in (entry.system, *beside) if s.compared]
            results = {s.name: runners[s.name].result() for s in compared}
            check_agreement(entry.system.name, results, entry.case.tolerance, entry.name)
        runners[YARDSTICK] = Metered(yardstick(entry.yardstick))
        samples = interleave(runners, protocol)
    last = -protocol.repeats  # what came before sought the number of loops
    return {
        "yardstick": entry.yardstick,
        "ours": {c: getattr(runners[entry.system.name], c)[last:] for c in ("cpu", "wall")},
        "beside": {c: getattr(runners[YARDSTICK], c)[last:] for c in ("cpu", "wall")},
        "seconds": list(samples[entry.system.name].seconds),
        "peers": [
            {
                "name": peer.name,
                "bound": peer.bound,
                "seconds": [s * peer.scale for s in samples[peer.name].seconds],
            }
            for peer in beside
        ],
    }


def count(chosen: Iterable[Entry], counts: Path, say: Any) -> None:
    """Instructions of one call, between some calls and twice as many, under callgrind with
    `--dump-before=getppid`: it writes what it has counted whenever `getppid` is called.
    """
    dumps = itertools.count(1)

    def counted(runner: Runner, loops: int) -> int:
        os.getppid()
        runner.sample(loops)
        os.getppid()
        next(dumps)  # what came before
        return instructions(counts.with_name(f"{counts.name}.{next(dumps)}"))

    for entry in chosen:
        if not entry.counted:
            continue
        runner = entry.system.prepare()
        try:
            runner.sample(2)
            loops = min(MOST_COUNTED, max(1, COUNTED // counted(runner, 1)))
            few, many = counted(runner, loops), counted(runner, 2 * loops)
        finally:
            runner.close()
        say(event="count", name=entry.name, instructions=(many - few) / loops)


def instructions(dump: Path) -> int:
    """The total of one file of callgrind's."""
    found = re.search(r"^totals: (\d+)", dump.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise CountError(f"{dump.name} of callgrind has no total")
    return int(found[1])


class CountError(Exception):
    """Callgrind did not write what it should."""


if __name__ == "__main__":

    def tell(**event: Any) -> None:
        """Print an event."""
        print(json.dumps(event), flush=True)

    sys.exit(main(json.loads(sys.stdin.readline()), tell))
