"""Check that `rlox bench` notices slow-downs: ten of 1.5x, one at a time.

Each is a copy of rlox in which one kind of work runs three times for every two calls. The gate has to name a
case that does this work, and should name no case that does not.

    python benchmarks/regressions.py
    python benchmarks/regressions.py --baseline before.json --near

`--near` measures only the rows that contain the slow-down, which takes a fifth of the time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PASSED, MISSED = 0, 1
MIN_NAMED = 9  # of ten
SLOW_DOWN_CODE = '''

def _again(call):
    """Every second call is made twice."""
    turn = [False]

    def slowed(*args, **options):
        turn[0] = not turn[0]
        if turn[0]:
            call(*args, **options)
        return call(*args, **options)

    return slowed


class _Slowed:
    """A class of the extension, some methods of whose objects are slowed."""

    def __init__(self, kind, *methods):
        self.kind, self.methods = kind, methods

    def __call__(self, *args, **options):
        made = self.kind(*args, **options)
        return _Beside(made, {name: _again(getattr(made, name)) for name in self.methods})


class _Beside:
    """An object with other methods."""

    def __init__(self, made, methods):
        self.__dict__.update(methods)
        self._made = made

    def __getattr__(self, name):
        return getattr(self._made, name)

'''


@dataclass(frozen=True)
class SlowDown:
    """A slow-down: lines at the end of a file, and the first words of the cases that it affects."""

    name: str
    lines: str
    cases: tuple[str, ...]
    case_filter: str  # text in the names of the cases that --near measures
    file: str = "rlox/__init__.py"


def function_slow_down(name: str, case: str, case_filter: str) -> SlowDown:
    """Slow down a public function of the extension."""
    lines = f"import rlox._core\n{name} = _again(rlox._core.{name})\n"
    return SlowDown(name, lines, (case,), case_filter)


def method_slow_down(kind: str, names: tuple[str, ...], case_filter: str, *cases: str) -> SlowDown:
    """Slow down methods of a class of the extension."""
    lines = f"import rlox._core\n{kind} = _Slowed(rlox._core.{kind}, *{names!r})\n"
    return SlowDown(f"{kind}.{' and '.join(names)}", lines, cases, case_filter)


SLOW_DOWNS = (
    function_slow_down("compute_gae", "P1 ", "GAE of one"),
    function_slow_down("compute_gae_time_major", "P2 ", "GAE of 256"),
    method_slow_down("ReplayBuffer", ("push_batch",), "push of many", "P4 "),
    method_slow_down("ReplayBuffer", ("sample",), "sample, obs", "P6 "),
    method_slow_down("PrioritizedReplayBuffer", ("sample", "update_priorities"), "prioritized", "P8 "),
    method_slow_down("VecEnv", ("step_all",), "one step", "P9 one step of n x CartPole", "P12 "),
    method_slow_down("VecEnv", ("step_into",), "one step", "P9 one step of n x Acrobot", "P12 "),
    function_slow_down("compute_batch_group_advantages", "P10 ", "group advantages"),
    function_slow_down("compute_token_kl_schulman", "P11 ", "k3 token"),
    SlowDown(
        "PPO's update",
        # Minibatches are slowed: a sample has only one update, so every second sample would keep its speed.
        "PPOLearner._step = _again(PPOLearner._step)\n",
        ("U1 an update of PPO",),
        "an update of PPO",
        "rlox/algorithms/ppo/learner.py",
    ),
)


def run_bench(source: Path, out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `rlox bench suite=ci` with the rlox in `source`."""
    command = [sys.executable, "-m", "rlox_cli.main", "bench", "suite=ci", f"out={out}"]
    return subprocess.run(
        [*command, *arguments],
        cwd=source,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )


def copy_checkout(folder: Path) -> Path:
    """Copy rlox into the folder; link the rest of the checkout."""
    shutil.copytree(ROOT / "rlox", folder / "rlox", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "rlox_cli").symlink_to(ROOT / "rlox_cli")
    return folder


def copy_with_slow_down(slow_down: SlowDown, folder: Path) -> Path:
    """Copy rlox and add a slow-down."""
    path = copy_checkout(folder) / slow_down.file
    path.write_text(path.read_text(encoding="utf-8") + SLOW_DOWN_CODE + slow_down.lines, encoding="utf-8")
    return folder


def slower_cases(output: str) -> list[str]:
    """Return the cases that the report calls slower."""
    start = "**slower**: "
    return [line.removeprefix(start) for line in output.splitlines() if line.startswith(start)]


def attempt(
    slow_down: SlowDown,
    baseline: Path,
    scratch_dir: Path,
    only_near: bool,
    extra_arguments: list[str],
) -> bool:
    """Return whether the report names the slow-down; print the cases it names."""
    with tempfile.TemporaryDirectory(dir=scratch_dir) as folder:
        source = copy_with_slow_down(slow_down, Path(folder))
        filter_arguments = [f"only={slow_down.case_filter}"] if only_near else []
        result = run_bench(
            source, source / "now.json", f"baseline={baseline}", *filter_arguments, *extra_arguments
        )
    if "### rlox bench" not in result.stdout:
        raise SystemExit(f"{slow_down.name}: exit code {result.returncode}\n{result.stderr[-2000:]}")
    cases_named = slower_cases(result.stdout)
    expected_cases = [case for case in cases_named if case.startswith(slow_down.cases)]
    unexpected_cases = [case for case in cases_named if case not in expected_cases]
    print(f"{'named ' if expected_cases else 'MISSED'} {slow_down.name}", flush=True)
    for case in expected_cases:
        print(f"       {case}", flush=True)
    for case in unexpected_cases:
        print(f"       NOT SLOWED: {case}", flush=True)
    return bool(expected_cases)


def main() -> int:
    """Parse the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--baseline", type=Path, help="baseline of the unchanged tree (default: measure it)")
    parser.add_argument("--only", default="", help="text in the names of the slow-downs")
    parser.add_argument("--near", action="store_true", help="measure only the rows of the slow-down")
    parser.add_argument("more", nargs="*", help="further keys of rlox bench")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rlox-regressions-") as folder:
        scratch_dir = Path(folder)
        baseline = args.baseline and args.baseline.resolve()
        if baseline is None:
            (scratch_dir / "as_it_is").mkdir()
            baseline = scratch_dir / "baseline.json"
            run_bench(copy_checkout(scratch_dir / "as_it_is"), baseline, *args.more).check_returncode()
        results = [
            attempt(slow_down, baseline, scratch_dir, args.near, args.more)
            for slow_down in SLOW_DOWNS
            if args.only in slow_down.name
        ]
    print(f"{sum(results)} of {len(results)} named")
    return PASSED if sum(results) >= min(MIN_NAMED, len(results)) else MISSED


if __name__ == "__main__":
    sys.exit(main())
