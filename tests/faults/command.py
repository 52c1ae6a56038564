"""Runs the real `rlox` command in a subprocess and sends a signal in a given phase of its work.

`python -m faults.command PHASE COUNT SIGNALS ARGS...` runs `rlox ARGS...`. It writes `reached PHASE` to
standard error when the command enters that phase for the COUNTth time, and waits there for SIGNALS signals.
The caller sends the signals, so no test depends on the speed of the machine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from helpers.waiting import PATIENCE

TESTS = Path(__file__).resolve().parents[1]
# Each phase: its call, and the call to count within that call, unless the call itself is counted.
PLACES: Mapping[str, tuple[tuple[str, str], tuple[str, str] | None]] = {
    "composing": (("rlox_cli.config.validate", "run_config"), None),
    "building": (("rlox.build", "build"), None),
    # between two steps of the environments, or two minibatches
    "collecting": (
        ("rlox.collectors", "RolloutCollector.collect"),
        ("rlox.stopping", "StopDeadline.is_expired"),
    ),
    "updating": (
        ("rlox.algorithms.ppo.learner", "PPOLearner.update"),
        ("rlox.stopping", "StopDeadline.is_expired"),
    ),
    "evaluating": (("rlox.training.evaluate", "Evaluator.__call__"), None),
    # The checkpoint exists, and no link points to it yet.
    "saving": (("rlox.runs.checkpoint_store", "CheckpointStore.save"), ("rlox.disk", "Disk.link")),
    "finishing": (("rlox_cli.runs.summary", "result_document"), None),
}
PHASES = tuple(PLACES)


@dataclass(frozen=True)
class CommandResult:
    """How a command ended."""

    code: int
    seconds: float  # from the signal to the exit
    out: str
    err: str


def command(
    args: Sequence[str],
    cwd: Path,
    sent: int | None = None,
    phase: str = "",
    count: int = 1,
    after: float = 0.0,
    prefix: Sequence[str] | None = None,
    before: Callable[[], object] = bool,
    patience: float = 2 * PATIENCE,
) -> CommandResult:
    """Run `rlox args` and send signal `sent` in the given phase (+ `after` seconds).

    `prefix` is the command line in front of `args`; `None` stands for this module. The function calls
    `before` just before it sends the signal. After the signal the command may take `patience` seconds.
    """
    line = [*(_line(phase, count) if prefix is None else prefix), *args]
    with _popen(line, cwd) as child:
        try:
            assert child.stderr
            error_text = ""
            while (
                phase
                and sent is not None
                and f"reached {phase}" not in error_text
                and (read := child.stderr.readline())
            ):
                error_text += read
            time.sleep(after)
            before()
            start_time = time.perf_counter()
            if sent is not None and child.poll() is None:
                child.send_signal(sent)
            out, err = child.communicate(timeout=patience)
            return CommandResult(child.returncode, time.perf_counter() - start_time, out, error_text + err)
        finally:
            child.kill()


def start(
    args: Sequence[str], cwd: Path, phase: str, count: int = 1, signals: int = 1
) -> subprocess.Popen[str]:
    """Start `rlox args`, which waits in the given phase until it has received so many signals."""
    return _popen([*_line(phase, count, signals), *args], cwd)


def _line(phase: str, count: int, signals: int = 1) -> list[str]:
    return [sys.executable, "-m", "faults.command", phase or "-", str(count), str(signals)]


def _popen(line: Sequence[str], cwd: Path) -> subprocess.Popen[str]:
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    return subprocess.Popen(line, cwd=cwd, env=env, stdout=pipe, stderr=pipe, text=True)


def _announce(phase: str, count: int, signals: int) -> None:
    """Make `phase` write a line at its `count`th beginning and wait there for signals."""
    call, within = PLACES[phase]
    if within is None:
        wrap(call, _wait_at_nth_call(count, phase, signals))
        return
    at = _wait_at_nth_call(count, phase, signals)
    depth = 0

    def inside(real: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            nonlocal depth
            depth += 1
            try:
                return real(*args, **kwargs)
            finally:
                depth -= 1

        return watched

    def where_inside(real: Callable[..., Any]) -> Callable[..., Any]:
        counted = at(real)
        return lambda *args, **kwargs: (counted if depth else real)(*args, **kwargs)

    wrap(call, inside)
    wrap(within, where_inside)


def wrap(place: tuple[str, str], change: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace a function of a module, or a method of a class in it."""
    owner: Any = import_module(place[0])
    *inside, last = place[1].split(".")
    for part in inside:
        owner = getattr(owner, part)
    setattr(owner, last, change(getattr(owner, last)))


def _wait_at_nth_call(
    count: int, phase: str, signals: int
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a wrapper that makes the `count`th call of a function wait for signals before it begins."""
    # The interpreter writes a byte into this pipe at each signal.
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    signal.set_wakeup_fd(writes)
    calls_left = count

    def change(real: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls_left
            calls_left -= 1
            if calls_left == 0:
                os.write(2, f"reached {phase}\n".encode())
                for _ in range(signals):
                    os.read(reads, 1)  # the signal's handler runs here, and may raise
            return real(*args, **kwargs)

        return counted

    return change


if __name__ == "__main__":
    from rlox_cli.main import main

    if sys.argv[1] != "-":
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell makes background jobs ignore it
        _announce(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    sys.exit(main(sys.argv[4:]))
