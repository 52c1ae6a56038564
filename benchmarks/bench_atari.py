"""Train PPO on Pong and DQN on Breakout beside Stable-Baselines3: time, memory, and a check of the scores.

Each training has 200,000 frames. The whole training, its collection and its updates are timed. The scores
that a run reports are compared with those of the games.

`rlox train` steps the games in its own process, with ALE's engine and with EnvPool; Stable-Baselines3 uses
its AtariWrapper and VecFrameStack. All systems take their hyperparameters from
conf/tuned/{ppo,dqn}/ALE.yaml (rl-zoo3), except that DQN's updates begin after 2% of the run. Each training
runs in its own process and its result is kept; a repeated command makes only the missing ones.

    pip install -c constraints.txt -e '.[peers,atari,envpool]' opencv-python-headless
    python benchmarks/bench_atari.py
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness import atari, machine, peers
from harness.agreement import DisagreementError
from harness.atari import AtariWorkload
from harness.case import Case, Goal, System, Tolerance
from harness.cli import EXIT_PASSED, EXIT_UNUSABLE, RESULTS, announce
from harness.measure import measure_case
from harness.original import CACHE
from harness.record import Report
from harness.scores import score_problems
from harness.table import render
from harness.threads import SINGLE_THREAD_ENV
from harness.timing import Protocol
from harness.training import PartRunner, RunCache, RunTimes

from rlox_cli.bench.intervals import RESAMPLES

STEPS = 50_000  # environment steps, of 4 frames each
BACKEND_BY_SYSTEM = {
    "rlox": "auto",
    "rlox, ALE's engine": "ale",
    "rlox, EnvPool": "envpool",
    "SB3": None,
}
PACKAGE_BY_SYSTEM = {
    "rlox": "ale",
    "rlox, ALE's engine": "ale",
    "rlox, EnvPool": "envpool",
    "SB3": "sb3",
}
PART_TITLES = {
    "total": "training",
    "collect": "collection",
    "update": "updates",
    "cpu": "training, CPU",
}
MIN_RATIO = 1.5  # goal for the whole training, by wall-clock time


@dataclass(frozen=True)
class Task:
    """An algorithm, a game and the range of its scores."""

    row: str
    algo: str
    env: str
    min_score: int
    max_score: int

    @property
    def name(self) -> str:
        """The task's name in tables."""
        return f"{self.algo.upper()} on {self.env.removeprefix('ALE/').removesuffix('-v5')}"


TASKS = {
    "ppo": Task("A1", "ppo", "ALE/Pong-v5", -21, 21),
    "dqn": Task("A2", "dqn", "ALE/Breakout-v5", 0, 864),
}


@dataclass(frozen=True)
class Plan:
    """The length and torch threads of a training, and the folder of the results."""

    steps: int = STEPS
    torch_threads: int = 1
    is_fresh: bool = False
    folder: Path = CACHE / "atari"

    def path(self, task: Task, system: str, number: int) -> Path:
        """Return the path of a training's result."""
        name = f"{self.steps}_t{self.torch_threads}_s{number}"
        return self.folder / f"{task.algo}_{BACKEND_BY_SYSTEM[system] or 'sb3'}_{name}.json"

    def run(self, task: Task, system: str, number: int) -> dict[str, Any]:
        """Train in a process, with the number as seed, unless the result exists; return the result."""
        path = self.path(task, system, number)
        if self.is_fresh or not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            threads = str(self.torch_threads)
            thread_variables = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
            options = ["--steps", str(self.steps), "--torch-threads", threads]
            child_arguments = ["--one", task.algo, system, str(number), str(path)]
            result = subprocess.run(
                [sys.executable, __file__, *options, *child_arguments],
                env={**os.environ, **SINGLE_THREAD_ENV, **thread_variables},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            if result.returncode:
                raise SystemExit(f"{task.name}, {system}: ended with {result.returncode}\n{result.stderr}")
        else:
            print(f"{path.name} is kept; --fresh makes it anew", flush=True)
        return self.read_result(task, system, number)

    def read_result(self, task: Task, system: str, number: int) -> dict[str, Any]:
        """Read the result of a training."""
        run: dict[str, Any] = json.loads(self.path(task, system, number).read_text())
        return run


def cases(plan: Plan, task: Task, systems: Sequence[str]) -> Iterator[Case]:
    """Yield a case for whole trainings, with its goal, then a case for each part."""

    def train(system: str, number: int) -> RunTimes:
        run = plan.run(task, system, number)
        return RunTimes(run["seconds"], run["counts"])

    run_caches = {system: RunCache(partial(train, system)) for system in systems}
    for part, title in PART_TITLES.items():
        goals = (Goal(MIN_RATIO, "SB3"),) if part == "total" and "SB3" in systems else ()
        systems_by_name = {
            name: System(name, PACKAGE_BY_SYSTEM[name], partial(PartRunner, runs, part), goals)
            for name, runs in run_caches.items()
        }
        yield Case(
            row=task.row,
            work=f"{task.name}: {title}",
            size=f"{plan.steps:,} steps",
            ours=tuple(systems_by_name[name] for name in systems if name != "SB3"),
            peers=tuple(systems_by_name[name] for name in systems if name == "SB3"),
            tolerance=Tolerance(0.0),  # the counts of steps and updates are equal
            elements=plan.steps,
        )


def measure(plan: Plan, tasks: Sequence[Task], systems: Sequence[str], repeats: int) -> Report:
    """Time every case and print each when it is done."""
    protocol = Protocol(repeats, 0.0)
    date, host, records = machine.utc_now(), machine.describe_machine(), []
    for case in (case for task in tasks for case in cases(plan, task, systems)):
        records.append(measure_case(case, protocol))
        announce(f"[{case.row}]", records[-1])
    return Report(
        benchmark="atari",
        date=date,
        quick=plan.steps < STEPS,
        commit=machine.describe_commit(),
        machine=host,
        versions=machine.installed_versions(None),
        threads={
            **SINGLE_THREAD_ENV,
            "torch": str(plan.torch_threads),
            "engines": "all CPUs, by default",
        },
        protocol={**asdict(protocol), "resamples": RESAMPLES},
        cases=tuple(records),
    )


def write(report: Report, runs: dict[tuple[str, str], list[dict[str, Any]]], folder: Path) -> None:
    """Write the JSON, with every run, and the tables."""
    folder.mkdir(parents=True, exist_ok=True)
    all_runs = [{"work": w, "system": s, "runs": system_runs} for (w, s), system_runs in runs.items()]
    text = json.dumps(asdict(report) | {"runs": all_runs}, indent=1)
    (folder / "atari.json").write_text(text + "\n", encoding="utf-8")
    runs_table = atari.render({key: system_runs[0] for key, system_runs in runs.items()})
    page = f"{render(report)}\n## Speed, memory and scores\n\n{runs_table}"
    (folder / "atari.md").write_text(page, encoding="utf-8")
    print(f"{runs_table}wrote {folder / 'atari.json'} and .md")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    add("--systems", nargs="+", choices=list(BACKEND_BY_SYSTEM), default=list(BACKEND_BY_SYSTEM))
    add("--steps", type=int, default=STEPS, help="environment steps of 4 frames each (default %(default)s)")
    add("--repeats", type=int, default=1, help="trainings of each system, with seeds 0, 1, ...")
    add("--torch-threads", type=int, default=1, help="torch threads of every system (default %(default)s)")
    add("--fresh", action="store_true", help="repeat all trainings, also those with a result")
    add("--out", type=Path, help="folder for the results")
    add("--one", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.systems == ["SB3"]:
        parser.error("--systems SB3: it is what rlox is held against; name one of rlox beside it")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the missing trainings and write the results; return the exit status."""
    args = parse(argv)
    if args.one:
        algo, system, number, path = args.one
        work = AtariWorkload(algo, TASKS[algo].env, args.steps, int(number), args.torch_threads)
        Path(path).write_text(json.dumps(atari.measure_training(work, BACKEND_BY_SYSTEM[system])) + "\n")
        return EXIT_PASSED
    needed = {"ale", *(PACKAGE_BY_SYSTEM[system] for system in args.systems)}
    needed |= {"opencv"} if "SB3" in args.systems else set()
    if absent := sorted(name for name in needed if not peers.is_importable(name)):
        message = peers.explain_missing(absent, "--systems with those that are here")
        print(f"atari: {message}", file=sys.stderr)
        return EXIT_UNUSABLE
    plan = Plan(args.steps, args.torch_threads, args.fresh)
    tasks = [TASKS[name] for name in args.tasks]
    try:
        report = measure(plan, tasks, args.systems, args.repeats)
    except DisagreementError as error:
        print(f"atari: {error}", file=sys.stderr)
        return EXIT_UNUSABLE
    runs = {
        (task.name, system): [plan.read_result(task, system, number) for number in range(args.repeats)]
        for task in tasks
        for system in args.systems
    }
    write(report, runs, args.out or (RESULTS if not report.quick else CACHE / "results"))
    return check_scores(runs)


def check_scores(runs: dict[tuple[str, str], list[dict[str, Any]]]) -> int:
    """Print every problem with the scores; return the exit status."""
    bounds = {task.name: (task.min_score, task.max_score) for task in TASKS.values()}
    problems = [
        f"WRONG  {work}, {system}: {sentence}"
        for (work, system), system_runs in runs.items()
        for run in system_runs
        for sentence in score_problems(run, *bounds[work])
    ]
    print(*problems, sep="\n", end="\n" if problems else "")
    return EXIT_UNUSABLE if problems else EXIT_PASSED


if __name__ == "__main__":
    sys.exit(main())
