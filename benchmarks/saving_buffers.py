"""Save and load beside a learner (P21): how long a sample waits, and how much memory a load takes.

A thread samples 256 rows repeatedly while another one saves the whole buffer. The longest call is compared
with the longest call without a save. A load is measured in its own process: its peak resident memory minus
the resident memory afterwards, as a fraction of the buffer.

    python benchmarks/saving_buffers.py --gate
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from harness import machine
from harness.cli import RESULTS
from memory_buffers import resident_bytes

import rlox

SCHEMA_VERSION = 1
OBS, BATCH = 64, 256
BYTES = 200 << 20
LONGEST_WAIT, TRANSIENT = 0.020, 0.10  # seconds; fraction of the buffer


@dataclass(frozen=True)
class Measurements:
    """The measured values."""

    bytes: int
    save_seconds: float
    longest_sample: float
    longest_sample_otherwise: float
    load_transient: float


def make_full_buffer(size: int) -> rlox.ReplayBuffer:
    """Return a full buffer of about `size` bytes."""
    capacity = size // (4 * (OBS + 2) + 5)
    buffer = rlox.ReplayBuffer(capacity, OBS, 1)
    obs = np.random.default_rng(0).normal(size=(10_000, OBS)).astype(np.float32)
    no_ends, next_obs = np.zeros(len(obs), bool), np.roll(obs, -1, axis=0)
    for _ in range(-(-capacity // len(obs))):
        buffer.push_batch(obs, obs[:, :1], obs[:, 0], no_ends, no_ends, next_obs)
    return buffer


def longest_sample(buffer: rlox.ReplayBuffer, stop_event: threading.Event) -> float:
    """Return the seconds of the longest call until the event."""
    longest_seconds, out = 0.0, buffer.sample(BATCH)
    while not stop_event.is_set():
        start = time.perf_counter()
        buffer.sample(BATCH, out=out)
        longest_seconds = max(longest_seconds, time.perf_counter() - start)
    return longest_seconds


def measure_during_save(
    buffer: rlox.ReplayBuffer, folder: Path | None, pause: float = 0.0
) -> tuple[float, float]:
    """Return the seconds of a save (or of a pause), and of the longest sample meanwhile."""
    finished, longest_samples = threading.Event(), []
    thread = threading.Thread(target=lambda: longest_samples.append(longest_sample(buffer, finished)))
    thread.start()
    time.sleep(0.05)
    start = time.perf_counter()
    if folder is None:
        time.sleep(pause)
    else:
        buffer.save(folder)
    seconds = time.perf_counter() - start
    finished.set()
    thread.join()
    return seconds, longest_samples[0]


def measure_load_memory(folder: Path, capacity: int) -> float:
    """Return the temporary memory of a load, as a fraction of the buffer, in its own process."""
    command = [sys.executable, __file__, "--load", str(folder), str(capacity)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(result.stdout)


def peak_bytes() -> int:
    """Return this program's peak resident memory; `ru_maxrss` would include the process that started it."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))


def load_in_this_process(folder: Path, capacity: int) -> float:
    """Measure the temporary memory of a load in this process."""
    buffer = rlox.ReplayBuffer(capacity, OBS, 1)
    before = resident_bytes()
    spare = peak_bytes() - before
    assert spare < 16 << 20, f"this process had {spare} bytes more before"
    buffer.load(folder)
    after = resident_bytes()
    # The peak is counted in pages, so it can be a little lower.
    return max(peak_bytes() - after, 0) / (after - before)


def measure(size: int, folder: Path) -> Measurements:
    """Measure everything for a buffer of `size` bytes."""
    buffer = make_full_buffer(size)
    save_seconds, longest_wait = measure_during_save(buffer, folder / "saved")
    _, longest_without_save = measure_during_save(buffer, None, pause=save_seconds)
    load = measure_load_memory(folder / "saved", buffer.capacity)
    return Measurements(buffer.nbytes, save_seconds, longest_wait, longest_without_save, load)


def failures(measurements: Measurements) -> list[str]:
    """Return one sentence for every missed goal."""
    missed = []
    if measurements.longest_sample >= LONGEST_WAIT:
        ms, goal = 1e3 * measurements.longest_sample, 1e3 * LONGEST_WAIT
        missed.append(f"P21: a sample took {ms:.1f} ms during a save, the goal is below {goal:g} ms")
    if measurements.load_transient >= TRANSIENT:
        part = f"{measurements.load_transient:.0%} of the buffer"
        missed.append(f"P21: a load took {part} for a time, the goal is below {TRANSIENT:.0%}")
    return missed


def table(measurements: Measurements) -> str:
    """Return the figures as Markdown."""
    rows = [
        ("a save", f"{1e3 * measurements.save_seconds:,.0f} ms", ""),
        ("longest sample meanwhile", f"{1e3 * measurements.longest_sample:.1f} ms", "< 20 ms"),
        ("longest sample otherwise", f"{1e3 * measurements.longest_sample_otherwise:.1f} ms", ""),
        ("memory of a load, besides the buffer", f"{measurements.load_transient:.1%}", "< 10%"),
    ]
    head = f"| {measurements.bytes / 1e6:,.0f} MB | measured | goal |\n|---|---|---|\n"
    return head + "\n".join("| " + " | ".join(row) + " |" for row in rows)


def write(measurements: Measurements, folder: Path) -> None:
    """Write buffer_saving.json and .md."""
    report = {
        "schema_version": SCHEMA_VERSION,
        "date": machine.utc_now(),
        "commit": machine.describe_commit(),
        "machine": machine.describe_machine(),
        "saving": asdict(measurements),
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "buffer_saving.json").write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    about = (__doc__ or "").split("\n\n")[:2]
    text = ["# Saving and loading replay buffers", *about, table(measurements)]
    (folder / "buffer_saving.md").write_text("\n\n".join(text) + "\n", "utf-8")


def main() -> int:
    """Parse the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gate", action="store_true", help="exit 1 if a goal is missed")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    parser.add_argument("--load", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.load:
        print(load_in_this_process(Path(args.load[0]), int(args.load[1])))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        measurements = measure(BYTES, Path(folder))
    print(table(measurements))
    write(measurements, args.out)
    missed = failures(measurements)
    print("\n".join(missed))
    return int(args.gate and bool(missed))


if __name__ == "__main__":
    sys.exit(main())
