"""Sends signals at random moments of runs and writes each result as one line of JSON.

The file keeps its lines, so an interrupted campaign continues with the next signal. The first line holds the
seed and the code version. With another seed or other code the campaign starts again.
"""

from __future__ import annotations

import json
import random
import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from faults.child import ChildServer
from faults.command import CommandResult, command
from faults.fingerprint import difference, fingerprint
from rlox.runs.checkpoint import newest_checkpoint, read_checkpoint

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SCRIPT = Path(sys.executable).with_name("rlox")
_COMMON = (
    "train", "tuned=null", "env=CartPole-v1", "seed=5", "eval.episodes=2", "algo.backend=torch",
)  # fmt: skip
# SMALL has 12 short updates. LARGE has two updates, each of one minibatch that takes seconds.
SMALL = (
    *_COMMON, "env.n_envs=8", "algo.n_steps=16", "algo.batch_size=64", "algo.n_epochs=2",
    "algo.net_arch=[16]", "total_steps=1536", "checkpoint.every=256", "eval.every=512", "log.every=128",
)  # fmt: skip
LARGE = (
    *_COMMON, "env.n_envs=2048", "algo.n_steps=48", "algo.batch_size=98304", "algo.n_epochs=1",
    "algo.net_arch=[256,256]", "total_steps=196608", "checkpoint.every=98304", "log.every=98304",
)  # fmt: skip
# Each phase: its run, how often the run enters the phase, and the window in seconds after that for the
# signal.
PHASES: Mapping[str, tuple[tuple[str, ...], int, float]] = {
    "start": (SMALL, 1, 2.5),
    "composing": (SMALL, 1, 2.5),
    "collecting": (SMALL, 12, 0.02),
    "updating": (LARGE, 2, 4.0),
    "evaluating": (SMALL, 3, 0.02),
    "saving": (SMALL, 7, 0.02),
    "finishing": (SMALL, 1, 1.0),
}


@dataclass(frozen=True)
class SignalPlan:
    """The number, moment and kind of one signal."""

    number: int
    phase: str
    sent: signal.Signals
    count: int
    after: float

    @classmethod
    def of(cls, seed: int, number: int) -> SignalPlan:
        """Return the plan of that number: phases and signals take turns, moments are random."""
        rng = random.Random(f"{seed} {number}")
        phase = list(PHASES)[number % len(PHASES)]
        _, often, within = PHASES[phase]
        sent = SIGNALS[number // len(PHASES) % len(SIGNALS)]
        return cls(number, phase, sent, rng.randint(1, often), rng.uniform(0, within))


@dataclass(frozen=True)
class SignalResult:
    """The result of one signal."""

    number: int
    phase: str
    sent: str
    code: int
    outcome: str  # never started, done, resumed
    faults: list[str]  # empty if nothing is wrong
    seconds: float  # from the signal to the exit
    heard: str  # phase in which the handler ran; empty: the process had no handler (yet, or any more)
    unheard: float  # seconds from the signal to the handler: a call into C ends first
    waited: str  # phase that took most of the remaining time
    # whether the signal came before the first line of rlox and Python printed its own traceback
    interpreter: bool


def run_plan(
    plan: SignalPlan, folder: Path, reference_of: Callable[[Path], Any], children: ChildServer
) -> SignalResult:
    """Send the signal, check the result, resume the run to its end and compare."""
    args = PHASES[plan.phase][0]
    checkpoint_steps: list[int] = []
    phase = "" if plan.phase == "start" else plan.phase
    command_line = [sys.executable, "-m", "faults.phases", phase, str(plan.count)] if phase else [str(SCRIPT)]
    began: list[float] = []

    def before() -> None:
        checkpoint_steps.extend(_saved(run) for run in _runs(folder))
        began.append(time.monotonic())

    ended = command(args, folder, plan.sent, phase, plan.count, plan.after, command_line, before)
    outcome, faults = _judge(plan, ended, folder, max(checkpoint_steps, default=-1))
    if outcome == "resumed":
        faults += _go_on(folder, reference_of, plan.number, children)
    heard_match = re.search(r"^heard (\w+) ([\d.]+)$", ended.err, re.M)
    spent_match = re.search(r"^spent (.+)$", ended.err, re.M)
    spent: dict[str, float] = json.loads(spent_match[1]) if spent_match else {}
    return SignalResult(
        plan.number,
        plan.phase,
        plan.sent.name,
        ended.code,
        outcome,
        faults,
        round(ended.seconds, 3),
        heard_match[1] if heard_match else "",
        round(float(heard_match[2]) - began[0], 3) if heard_match else 0.0,
        max(spent, key=lambda name: spent[name], default=""),
        "Traceback" in ended.err and not _ours(ended.err),
    )


def _judge(
    plan: SignalPlan, ended: CommandResult, folder: Path, checkpoint_step: int
) -> tuple[str, list[str]]:
    """Return the outcome of the run and its faults."""
    faults = [f"traceback: {ended.err[-800:]}"] if _ours(ended.err) else []
    runs = list(_runs(folder))
    states = [json.loads((run / "status.json").read_text())["status"] for run in runs]
    # The signal kills the process where there is no handler (yet, or any more): a shell sees the same code.
    expected_codes = {128 + plan.sent} if "killed" in states else {128 + plan.sent, -plan.sent}
    early = ended.code == 1 and not runs and "KeyboardInterrupt" in ended.err and not faults
    if ended.code not in expected_codes | ({0} if states == ["done"] else set()) and not early:
        faults.append(f"exit {ended.code}, {states}: {ended.err[-800:]}")
    if not runs:
        leftovers = [str(p) for p in folder.rglob("*") if not p.is_dir()]
        return "never started", faults + ([f"left {leftovers}"] if leftovers else [])
    if not set(states) <= {"killed", "done"}:
        faults.append(f"status {states}")
    if _saved(runs[0]) < checkpoint_step:
        faults.append(f"lost: a checkpoint of step {checkpoint_step} was there")
    return ("done" if states == ["done"] else "resumed"), faults


def _go_on(
    folder: Path, reference_of: Callable[[Path], Any], number: int, children: ChildServer
) -> list[str]:
    """Resume to the end, every tenth run by the command; return the differences from an uninterrupted run."""
    (run,) = _runs(folder)
    if number % 10 == 0:
        resumed = command(["resume", str(run)], folder)
        if resumed.code:
            return [f"resume: exit {resumed.code}: {resumed.err[-800:]}"]
    else:
        config: Any = OmegaConf.to_container(OmegaConf.load(run / "config.yaml"))
        if code := children.run(run, config, resume=True):
            return [f"resume: exit {code}"]
    # A stop saves at once, so the last but one folder differs.
    differences = set(difference(fingerprint(run), reference_of(run))) - {"folders"}
    return [f"not as if it had never stopped: {sorted(differences)}"] if differences else []


def _runs(folder: Path) -> Iterable[Path]:
    return (path.parent for path in folder.glob("runs/*/*/*/status.json"))


def _saved(run: Path) -> int:
    """Return the step of the newest complete checkpoint, -1 without one."""
    newest = newest_checkpoint(run)
    return -1 if newest is None else int(read_checkpoint(newest).clock["env_steps"])


def _ours(err: str) -> bool:
    """Return whether an error on the screen names a file of rlox, not only the interpreter's own."""
    has_output = "Traceback" in err or "Exception ignored" in err
    return has_output and re.search(r'File "[^"]*/(rlox|rlox_cli)/', err) is not None


def campaign(
    count: int, seed: int, made_with: str, place: Path, folder: Path, workers: int
) -> list[SignalResult]:
    """Send the signals that the file `place` lacks, several at a time, and return all results by number."""
    head = json.dumps({"seed": seed, "made_with": made_with})
    lines = place.read_text().splitlines() if place.exists() else []
    if lines[:1] != [head]:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{head}\n")
        lines = []
    results = [SignalResult(**json.loads(line)) for line in lines[1:]]
    remaining = sorted(set(range(count)) - {result.number for result in results})
    lock, next_ones, reference_of = threading.Lock(), iter(remaining), _references(folder)

    def work(_: int) -> None:
        with ChildServer() as children:
            for number in next_ones:  # all workers share this iterator
                part = folder / str(number)
                part.mkdir()
                result = run_plan(SignalPlan.of(seed, number), part, reference_of, children)
                with lock, place.open("a") as file:
                    file.write(f"{json.dumps(asdict(result))}\n")
                    results.append(result)
                    print(f"signal {number}: {result}", flush=True)

    if remaining:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(work, range(workers)))
    return sorted((result for result in results if result.number < count), key=lambda result: result.number)


def _references(folder: Path) -> Callable[[Path], dict[str, Any]]:
    """Return a function that maps a run to the fingerprint of the uninterrupted run of its configuration."""
    fingerprints = {}
    for name, args in (("small", SMALL), ("large", LARGE)):
        (folder / name).mkdir()
        ended = command(args, folder / name)
        assert ended.code == 0, ended.err
        (run,) = _runs(folder / name)
        total = OmegaConf.load(run / "config.yaml")["total_steps"]
        fingerprints[total] = fingerprint(run)
    return lambda run: fingerprints[OmegaConf.load(run / "config.yaml")["total_steps"]]


def summary(results: list[SignalResult]) -> dict[str, Any]:
    """Return the counts of a campaign."""
    faults = Counter(fault.split(":")[0].split(" ")[0] for result in results for fault in result.faults)
    slowest = max(results, key=lambda result: result.seconds)
    return {
        "sent": len(results),
        "tracebacks": faults["traceback"],
        "checkpoints lost": faults["lost"],
        "wrong exit codes": faults["exit"],
        "other faults": sum(faults.values()) - sum(faults[k] for k in ("traceback", "lost", "exit")),
        "outcomes": dict(Counter(result.outcome for result in results)),
        "phases": {
            phase: dict(Counter(result.sent for result in results if result.phase == phase))
            for phase in PHASES
        },
        "heard in": dict(Counter(result.heard or "no handler" for result in results)),
        "slowest_s": slowest.seconds,
        "of which unheard_s": slowest.unheard,
        "slowest heard in": slowest.heard,
        "slowest waited for": slowest.waited,
        "in the interpreter's own start": sum(result.interpreter for result in results),
    }
