"""The real `rlox` command in a subprocess, and a signal when it comes to a phase of its work.

`python -m faults.command PHASE COUNT ARGS...` is `rlox ARGS...` that writes `reached PHASE` to standard
error when it comes to that phase for the COUNTth time; the caller then sends its signal, so a test does
not depend on the speed of the machine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]
PHASES = ("composing", "building", "collecting", "updating", "evaluating", "saving", "finishing")


@dataclass(frozen=True)
class Ended:
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
    by: Sequence[str] | None = None,
    before: Callable[[], object] = bool,
    patience: float = 120,
) -> Ended:
    """Run `rlox args`, sending signal `sent` in the given phase (+ `after` seconds).

    `by` is the command line in front of `args`, this module where it is `None`; `before` is called last
    thing before the signal; `patience` are the seconds that it may take afterwards.
    """
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    ours = [sys.executable, "-m", "faults.command", phase or "-", str(count)]
    line = [*(ours if by is None else by), *args]
    pipe = subprocess.PIPE
    with subprocess.Popen(line, cwd=cwd, env=env, stdout=pipe, stderr=pipe, text=True) as child:
        try:
            assert child.stderr
            seen = ""
            while (
                phase
                and sent is not None
                and f"reached {phase}" not in seen
                and (read := child.stderr.readline())
            ):
                seen += read
            time.sleep(after)
            before()
            begun = time.perf_counter()
            if sent is not None and child.poll() is None:
                child.send_signal(sent)
            out, err = child.communicate(timeout=patience)
            return Ended(child.returncode, time.perf_counter() - begun, out, seen + err)
        finally:
            child.kill()


def _announce(phase: str, count: int) -> None:
    """Have the first function of `phase` say so, and wait for the signal as real work would."""
    left = [count]

    def said(real: Callable[..., Any]) -> Callable[..., Any]:
        def first(*args: Any, **kwargs: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                os.write(2, f"reached {phase}\n".encode())
                until = time.monotonic() + 0.3
                while time.monotonic() < until:  # bytecode, so that a handler may run in here
                    time.sleep(0.01)
            return real(*args, **kwargs)

        return first

    if phase == "composing":
        from rlox_cli import validate

        validate.run_config = said(validate.run_config)
        return
    import rlox.runs.session as session
    from rlox import build
    from rlox.algorithms.torch_ppo import PPOLearner
    from rlox.collectors import RolloutCollector
    from rlox.runs.checkpoint_store import CheckpointStore
    from rlox.training.evaluate import Evaluator

    owner, name = {
        "building": (build, "build"),
        "collecting": (RolloutCollector, "_normalize"),
        "updating": (PPOLearner, "_step"),
        "evaluating": (Evaluator, "__call__"),
        "saving": (CheckpointStore, "_prune"),
        "finishing": (session.Session, "_outcome"),
    }[phase]
    setattr(owner, name, said(getattr(owner, name)))


if __name__ == "__main__":
    from rlox_cli.main import main

    if sys.argv[1] != "-":
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
        _announce(sys.argv[1], int(sys.argv[2]))
    sys.exit(main(sys.argv[3:]))
