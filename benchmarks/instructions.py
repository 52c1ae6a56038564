"""Count instructions per element of the hottest kernels; the count repeats exactly on a busy machine.

Each kernel runs twice under `valgrind --tool=callgrind`: a few times, then more times. The difference of the
two counts contains no start-up and no drawing of inputs. Counts depend on the compiler and the instruction
set (valgrind has AVX2), not on the load.

    python benchmarks/instructions.py
    python benchmarks/instructions.py --kernels env/CartPole-v1/f64/2048

It needs cargo and valgrind.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from harness import machine
from harness.cli import RESULTS

ROOT = Path(__file__).resolve().parents[1]
BUILD_COMMAND = "cargo build --release --locked -p rlox-bench --bin kernels"
VALGRIND_COMMAND = "valgrind --tool=callgrind --callgrind-out-file=/dev/null"
BINARY = "target/release/kernels"
SCHEMA_VERSION = 1
BASE_RUNS, TARGET_ELEMENTS = (
    2,
    1_000_000,
)  # runs of the base count; approximate number of elements in the counted runs
DEFAULT_KERNELS = (
    "env/CartPole-v1/f64/2048",
    "env/CartPole-v1/f32/2048",
    "env/Pendulum-v1/f64/2048",
    "env/Acrobot-v1/f64/2048",
    "env/MountainCar-v0/f64/2048",
    "env/MountainCarContinuous-v0/f64/2048",
    "gae/trajectory/f64/2048",
    "gae/env_major/f32/256x256",
    "gae/time_major/f32/256x256",
    "vtrace/f32/2048",
    "group_advantages/f64/256x16",
    "k3/f32/32x2048",
    "k3/f64/32x2048",
    "exact_kl/f64/32x2048",
    "exp/f32/8192",
    "tanh/f32/8192",
    "sigmoid/f32/8192",
    "log_softmax/f32/2048x2",
    "normal/f64/8192",
    "replay/push/f32/1x4",
    "replay/sample/f32/256x4",
    "replay/sample/f32/256x17",
    "prioritized/sample/f32/256x4",
    "prioritized/update/f64/256",
)


class CountError(Exception):
    """A tool has failed, or its output has no count."""


@dataclass(frozen=True)
class Count:
    """The instructions of `runs` runs beyond the base runs, and of one element."""

    kernel: str
    elements: int
    runs: int
    instructions: int
    per_element: float
    command: str


def run_command(command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the checkout.

    Raises:
        CountError: it is not installed, or it fails; the message ends with its last lines.
    """
    try:
        result = subprocess.run(shlex.split(command), cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise CountError(f"{command.split()[0]} is not installed") from error
    if result.returncode != 0:
        raise CountError(f"{command}:\n{result.stderr[-2000:]}")
    return result


def kernel_sizes() -> dict[str, int]:
    """Return every kernel of the binary with its number of elements."""
    lines = run_command(BINARY).stdout.splitlines()
    return {name: int(elements) for name, elements in (line.split() for line in lines)}


def parse_instructions(output: str) -> int:
    """Return the number of instructions that callgrind reports.

    Raises:
        CountError: the output has no such line.
    """
    match = re.search(r"Collected : (\d+)", output)
    if match is None:
        raise CountError(f"callgrind reported no count:\n{output[-2000:]}")
    return int(match[1])


def count(kernel: str, elements: int) -> Count:
    """Count the instructions of the runs beyond `BASE_RUNS`."""
    runs = max(1, TARGET_ELEMENTS // elements)
    base_count, full_count = (
        parse_instructions(run_command(f"{VALGRIND_COMMAND} {BINARY} {kernel} {times}").stderr)
        for times in (BASE_RUNS, BASE_RUNS + runs)
    )
    command = f"{VALGRIND_COMMAND} {BINARY} {kernel} {BASE_RUNS + runs}"
    return Count(
        kernel,
        elements,
        runs,
        full_count - base_count,
        (full_count - base_count) / (runs * elements),
        command,
    )


def render(report: dict[str, object], counts: list[Count]) -> str:
    """Return the counts as Markdown."""
    commit = str(report["commit"] or "unknown")[:12]
    lines = [
        "# Instructions per element",
        "",
        f"{report['date']}, commit {commit}, {report['compiler']}. The difference between {BASE_RUNS} runs "
        f"and more of them:",
        "",
        "```sh",
        BUILD_COMMAND,
        f"{VALGRIND_COMMAND} {BINARY} KERNEL TIMES",
        "```",
        "",
        "| kernel | elements of a run | runs counted | instructions per element |",
        "|---|---|---|---|",
    ]
    lines += [f"| {c.kernel} | {c.elements:,} | {c.runs:,} | {c.per_element:.2f} |" for c in counts]
    return "\n".join(lines) + "\n"


def measure(kernels: list[str], out: Path) -> None:
    """Count the kernels and write instructions.json and .md."""
    run_command(BUILD_COMMAND)
    sizes = kernel_sizes()
    unknown = [name for name in kernels if name not in sizes]
    if unknown:
        raise CountError(f"no kernel {', '.join(unknown)}; there are {', '.join(sizes)}")
    counts = []
    for name in kernels:
        counts.append(count(name, sizes[name]))
        print(f"{name:32} {counts[-1].per_element:10.2f} instructions per element", flush=True)
    report: dict[str, object] = {
        "schema_version": SCHEMA_VERSION,
        "date": machine.utc_now(),
        "commit": machine.describe_commit()["id"],
        "machine": machine.describe_machine(),
        "compiler": run_command("rustc --version").stdout.strip(),
        "valgrind": run_command("valgrind --version").stdout.strip(),
        "build": BUILD_COMMAND,
        "kernels": [asdict(c) for c in counts],
    }
    out.mkdir(parents=True, exist_ok=True)
    (out / "instructions.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    (out / "instructions.md").write_text(render(report, counts), encoding="utf-8")


def main() -> int:
    """Parse the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernels", default=",".join(DEFAULT_KERNELS), help="kernels, comma-separated")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    args = parser.parse_args()
    try:
        measure(args.kernels.split(","), args.out)
    except CountError as error:
        print(f"instructions: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
