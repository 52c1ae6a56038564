"""Memory of full replay buffers; each is filled in its own process.

A figure is the process's peak resident memory while the buffer is made and filled, minus the memory that was
resident before. The arithmetic minimum stores every observation once (for stacked frames: every frame), with
actions, rewards and one byte of flags.

    pip install -c constraints.txt -e '.[peers]'
    python benchmarks/memory_buffers.py --install-original
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness import machine
from harness import replay_systems as systems
from harness.cli import RESULTS
from harness.original import Original, find_python, install
from harness.replay import FRAME_SHAPE, Trajectory, fill
from harness.systems import ORIGINAL

SCHEMA_VERSION = 1
LOCAL_BUFFERS = {
    "rlox": systems.RloxBuffer,
    "rlox frame stack": partial(systems.RloxBuffer, frame_stack=True),
    "SB3": systems.SB3Buffer,
    "TorchRL": systems.TorchRLBuffer,
}


@dataclass(frozen=True)
class BufferWorkload:
    """The rows that fill the buffers."""

    rows: int
    kind: str  # "obs 17", "image float32" or "image uint8"

    def trajectory(self) -> Trajectory:
        """Return the data."""
        name, detail = self.kind.split()
        if name == "image":
            return Trajectory.images(64, detail)
        return Trajectory.vectors(10_000, int(detail), 6)

    def minimum(self, system: str) -> int:
        """Return the bytes without any bookkeeping."""
        data = self.trajectory()
        bytes_per_row = data.pool[0].nbytes
        if system == "rlox frame stack":
            bytes_per_row = math.prod(FRAME_SHAPE) * data.pool.itemsize
        return self.rows * (bytes_per_row + data.actions[0].nbytes + 4 + 1)

    def systems(self) -> list[str]:
        """Return the systems that can store this type."""
        image = self.kind.startswith("image")
        names = [name for name in LOCAL_BUFFERS if image or name != "rlox frame stack"]
        return names if self.kind == "image uint8" else [*names, ORIGINAL]


WORKLOADS = (
    BufferWorkload(1_000_000, "obs 17"),
    BufferWorkload(4_096, "image float32"),
    BufferWorkload(4_096, "image uint8"),
)


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    pages = Path("/proc/self/statm").read_text("utf-8").split()[1]
    return int(pages) * resource.getpagesize()


def peak_bytes() -> int:
    """Return the peak resident memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def fill_here(system: str, workload: BufferWorkload) -> int:
    """Fill a buffer in this process; return the bytes it takes."""
    data = workload.trajectory()
    shape = systems.BufferShape.of(data, 64)
    fill(LOCAL_BUFFERS[system](shape), data, 64, one_by_one=False)  # loads code and data of a first use
    before = resident_bytes()
    replay = LOCAL_BUFFERS[system](systems.BufferShape.of(data, workload.rows))
    fill(replay, data, workload.rows, one_by_one=False)
    return peak_bytes() - before


def fill_in_a_child(system: str, workload: BufferWorkload) -> int:
    """Run `fill_here` in its own process."""
    command = [sys.executable, __file__, "--child", system, str(workload.rows), workload.kind]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(result.stdout.split()[-1])


def fill_the_original(python: Path, workload: BufferWorkload) -> int:
    """Fill a buffer in a process of the original; return the bytes it takes."""
    data = workload.trajectory()
    arrays = [data.pool.reshape(len(data.pool), -1), data.actions]
    with closing(Original(python)) as original:
        runner = original.runner("memory", arrays, capacity=workload.rows)
        return int(runner.result()["bytes"])


def measure(python: Path) -> list[dict[str, Any]]:
    """Measure every system with every workload."""
    entries = []
    for workload in WORKLOADS:
        for system in workload.systems():
            n_bytes = (
                fill_the_original(python, workload)
                if system == ORIGINAL
                else fill_in_a_child(system, workload)
            )
            minimum_bytes = workload.minimum(system)
            entries.append(
                {
                    "system": system,
                    **vars(workload),
                    "bytes": n_bytes,
                    "minimum_bytes": minimum_bytes,
                }
            )
            print(table_row(entries[-1]), flush=True)
    return entries


def table_row(entry: dict[str, Any]) -> str:
    """Return one row of the table."""
    n_bytes, minimum_bytes = entry["bytes"], entry["minimum_bytes"]
    workload_text = f"{entry['rows']:,} x {entry['kind']}"
    return (
        f"| {workload_text} | {entry['system']} | {n_bytes / 1e6:,.0f} MB | {minimum_bytes / 1e6:,.0f} MB "
        f"| {n_bytes / minimum_bytes:.2f} |"
    )


def write(entries: list[dict[str, Any]], folder: Path) -> None:
    """Write buffer_memory.json and .md."""
    report = {
        "schema_version": SCHEMA_VERSION,
        "date": machine.utc_now(),
        "commit": machine.describe_commit(),
        "machine": machine.describe_machine(),
        "memory": entries,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "buffer_memory.json").write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    head = "| transitions | system | taken | arithmetic minimum | ratio |\n|---|---|---|---|---|"
    about = (__doc__ or "").split("\n\n")[:2]
    text = ["# Memory of replay buffers", *about, "\n".join([head, *map(table_row, entries)])]
    (folder / "buffer_memory.md").write_text("\n\n".join(text) + "\n", "utf-8")


def main() -> int:
    """Parse the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--original", metavar="PYTHON", help="interpreter with rlox 1.2.0")
    parser.add_argument("--install-original", action="store_true", help="make an environment with rlox 1.2.0")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        system, rows, kind = args.child
        print(fill_here(system, BufferWorkload(int(rows), kind)))
        return 0
    python = install() if args.install_original else find_python(args.original)
    if python is None:
        parser.error("no interpreter with rlox 1.2.0; pass --install-original or --original")
    write(measure(python), args.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
