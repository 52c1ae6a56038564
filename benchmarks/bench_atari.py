"""PPO on Pong and DQN on Breakout, 200,000 frames each, beside Stable-Baselines3: the whole of a training,
its collection and its updates, memory, and whether the scores that are told are those of the games.

`rlox train` steps the games in its process, by ALE's own engine and by EnvPool; Stable-Baselines3 has its
AtariWrapper and VecFrameStack. Hyperparameters of all are conf/tuned/{ppo,dqn}/ALE.yaml (rl-zoo3), but that
DQN's updates begin after 2% of the run. Each training is a process, whose result is kept; given again, the
command makes those that are missing.

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
from harness.atari import Work
from harness.case import Case, Goal, System, Tolerance
from harness.cli import PASSED, RESULTS, UNUSABLE, announce
from harness.measure import measure_case
from harness.original import CACHE
from harness.record import Report
from harness.scores import wrong
from harness.table import render
from harness.threads import SINGLE
from harness.timing import Protocol
from harness.training import PartRunner, Recorded, Trained

from rlox_cli.bench.intervals import RESAMPLES

STEPS = 50_000  # of 4 frames
BACKENDS = {"rlox": "auto", "rlox, ALE's engine": "ale", "rlox, EnvPool": "envpool", "SB3": None}
PACKAGES = {"rlox": "ale", "rlox, ALE's engine": "ale", "rlox, EnvPool": "envpool", "SB3": "sb3"}
PARTS = {"total": "training", "collect": "collection", "update": "updates", "cpu": "training, CPU"}
GOAL = 1.5  # of the whole, by the clock


@dataclass(frozen=True)
class Task:
    """An algorithm, a game and the scores that it can have."""

    row: str
    algo: str
    env: str
    lowest: int
    highest: int

    @property
    def name(self) -> str:
        """For tables."""
        return f"{self.algo.upper()} on {self.env.removeprefix('ALE/').removesuffix('-v5')}"


TASKS = {
    "ppo": Task("A1", "ppo", "ALE/Pong-v5", -21, 21),
    "dqn": Task("A2", "dqn", "ALE/Breakout-v5", 0, 864),
}


@dataclass(frozen=True)
class Plan:
    """How long and with how many of torch's threads, and where results are kept."""

    steps: int = STEPS
    torch_threads: int = 1
    fresh: bool = False
    folder: Path = CACHE / "atari"

    def path(self, task: Task, system: str, number: int) -> Path:
        """The result of a training."""
        of = f"{self.steps}_t{self.torch_threads}_s{number}"
        return self.folder / f"{task.algo}_{BACKENDS[system] or 'sb3'}_{of}.json"

    def run(self, task: Task, system: str, number: int) -> dict[str, Any]:
        """A training with its number as seed, in a process, unless its result is there."""
        path = self.path(task, system, number)
        if self.fresh or not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            threads = str(self.torch_threads)
            more = {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
            options = ["--steps", str(self.steps), "--torch-threads", threads]
            one = ["--one", task.algo, system, str(number), str(path)]
            done = subprocess.run(
                [sys.executable, __file__, *options, *one],
                env={**os.environ, **SINGLE, **more},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            if done.returncode:
                raise SystemExit(
                    f"{task.name}, {system}: ended with {done.returncode}\n{done.stderr}"
                )
        else:
            print(f"{path.name} is kept; --fresh makes it anew", flush=True)
        return self.kept(task, system, number)

    def kept(self, task: Task, system: str, number: int) -> dict[str, Any]:
        """What is there of a training."""
        run: dict[str, Any] = json.loads(self.path(task, system, number).read_text())
        return run


def cases(plan: Plan, task: Task, systems: Sequence[str]) -> Iterator[Case]:
    """The whole of the trainings with its goal, then their parts."""

    def train(system: str, number: int) -> Trained:
        run = plan.run(task, system, number)
        return Trained(run["seconds"], run["counts"])

    recorded = {system: Recorded(partial(train, system)) for system in systems}
    for part, what in PARTS.items():
        goals = (Goal(GOAL, "SB3"),) if part == "total" and "SB3" in systems else ()
        made = {
            name: System(name, PACKAGES[name], partial(PartRunner, runs, part), goals)
            for name, runs in recorded.items()
        }
        yield Case(
            row=task.row,
            work=f"{task.name}: {what}",
            size=f"{plan.steps:,} steps",
            ours=tuple(made[name] for name in systems if name != "SB3"),
            peers=tuple(made[name] for name in systems if name == "SB3"),
            tolerance=Tolerance(0.0),  # as many steps and updates
            elements=plan.steps,
        )


def measure(plan: Plan, tasks: Sequence[Task], systems: Sequence[str], repeats: int) -> Report:
    """Times every case, printing each as it is done."""
    protocol = Protocol(repeats, 0.0)
    date, host, records = machine.now(), machine.describe_machine(), []
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
        threads={**SINGLE, "torch": str(plan.torch_threads), "engines": "all CPUs, by default"},
        protocol={**asdict(protocol), "resamples": RESAMPLES},
        cases=tuple(records),
    )


def write(report: Report, runs: dict[tuple[str, str], list[dict[str, Any]]], folder: Path) -> None:
    """The JSON, with every run, and the tables."""
    folder.mkdir(parents=True, exist_ok=True)
    told = [{"work": w, "system": s, "runs": of} for (w, s), of in runs.items()]
    text = json.dumps(asdict(report) | {"runs": told}, indent=1)
    (folder / "atari.json").write_text(text + "\n", encoding="utf-8")
    more = atari.render({key: of[0] for key, of in runs.items()})
    page = f"{render(report)}\n## Speed, memory and scores\n\n{more}"
    (folder / "atari.md").write_text(page, encoding="utf-8")
    print(f"{more}wrote {folder / 'atari.json'} and .md")


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    add("--systems", nargs="+", choices=list(BACKENDS), default=list(BACKENDS))
    add("--steps", type=int, default=STEPS, help="environment steps, of 4 frames: %(default)s")
    add("--repeats", type=int, default=1, help="trainings of each system, with seeds 0, 1, ...")
    add("--torch-threads", type=int, default=1, help="of every system: %(default)s")
    add("--fresh", action="store_true", help="make all trainings anew")
    add("--out", type=Path, help="folder of the results")
    add("--one", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.systems == ["SB3"]:
        parser.error("--systems SB3: it is what rlox is held against; name one of rlox beside it")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Measures what is missing and writes the results; returns the exit status."""
    args = parse(argv)
    if args.one:
        algo, system, number, path = args.one
        work = Work(algo, TASKS[algo].env, args.steps, int(number), args.torch_threads)
        Path(path).write_text(json.dumps(atari.measured(work, BACKENDS[system])) + "\n")
        return PASSED
    needed = {"ale", *(PACKAGES[system] for system in args.systems)}
    needed |= {"opencv"} if "SB3" in args.systems else set()
    if absent := sorted(name for name in needed if not peers.is_importable(name)):
        told = peers.explain_missing(absent, "--systems with those that are here")
        print(f"atari: {told}", file=sys.stderr)
        return UNUSABLE
    plan = Plan(args.steps, args.torch_threads, args.fresh)
    tasks = [TASKS[name] for name in args.tasks]
    try:
        report = measure(plan, tasks, args.systems, args.repeats)
    except DisagreementError as error:
        print(f"atari: {error}", file=sys.stderr)
        return UNUSABLE
    runs = {
        (task.name, system): [plan.kept(task, system, number) for number in range(args.repeats)]
        for task in tasks
        for system in args.systems
    }
    write(report, runs, args.out or (RESULTS if not report.quick else CACHE / "results"))
    return told_truly(runs)


def told_truly(runs: dict[tuple[str, str], list[dict[str, Any]]]) -> int:
    """Prints what is wrong with scores; the exit status."""
    ends = {task.name: (task.lowest, task.highest) for task in TASKS.values()}
    found = [
        f"WRONG  {work}, {system}: {sentence}"
        for (work, system), of in runs.items()
        for run in of
        for sentence in wrong(run, *ends[work])
    ]
    print(*found, sep="\n", end="\n" if found else "")
    return UNUSABLE if found else PASSED


if __name__ == "__main__":
    sys.exit(main())
