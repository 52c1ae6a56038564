"""Tests that a signal in any phase saves the run or starts none, with the right exit code and status."""

from __future__ import annotations

import json
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.child import ChildServer
from faults.command import PHASES, CommandResult, command, start
from faults.fingerprint import difference, fingerprint
from faults.report import record
from helpers.selection import FULL
from helpers.waiting import PATIENCE
from omegaconf import OmegaConf

from rlox.runs.checkpoint import read_checkpoint, resolve_checkpoint

UPDATES = 12
ARGS = (
    "train", "tuned=null", "env=CartPole-v1", "env.n_envs=8", "seed=5", "algo.n_steps=16",
    "algo.batch_size=64", "algo.n_epochs=2", "algo.net_arch=[16]", f"total_steps={UPDATES * 128}",
    "algo.backend=torch",
    "checkpoint.every=256", "eval.every=512", "eval.episodes=2", "log.every=128",
)  # fmt: skip
CODES = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGHUP: 129, signal.SIGUSR1: 138}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the fingerprint of the uninterrupted run."""
    folder = tmp_path_factory.mktemp("whole")
    ended = command(ARGS, folder)
    assert ended.code == 0, ended.err
    return fingerprint(run_in(folder))


@pytest.fixture(scope="module")
def nursery() -> Iterator[ChildServer]:
    with ChildServer() as made:
        yield made


def run_in(folder: Path) -> Path:
    (found,) = folder.glob("runs/*/*/*")
    return found


def status_of(run: Path) -> dict[str, Any]:
    return json.loads((run / "status.json").read_text())  # type: ignore[no-any-return]


def check_stopped(
    ended: CommandResult,
    code: int,
    folder: Path,
    expected: dict[str, Any],
    nursery: ChildServer | None,
) -> str:
    """Check the run after a signal: nothing was started, or all is saved; return which.

    The child server continues a run, or the command if there is no server.
    """
    print(f"exit {ended.code} after {ended.seconds:.2f} s; {ended.err.splitlines()[-1:]}")
    assert "Traceback" not in ended.err
    runs = list(folder.glob("runs/*/*/*"))
    if ended.code == 0:  # the signal came after the end of the work
        assert status_of(runs[0])["status"] == "done"
        return "done"
    assert ended.code == code, ended.err
    if not runs:
        return "never started"
    run = runs[0]
    status = status_of(run)
    assert status["status"] == "killed"
    checkpoints = list((run / "checkpoints").glob("step-*"))
    if checkpoints:
        saved = read_checkpoint(resolve_checkpoint(run))
        assert status["step"] == saved.clock["env_steps"]
    if nursery is None:
        again = command(["train", f"resume={run}"], folder)
        assert again.code == 0, again.err
        assert status_of(run)["status"] == "done"
    else:
        config: Any = OmegaConf.to_container(OmegaConf.load(run / "config.yaml"))
        assert nursery.run(run, config, resume=True) == 0
    found = set(difference(fingerprint(run), expected))
    # a stop saves at its own step, so the last but one folder differs
    assert found <= {"folders"}, found
    return f"saved at step {status['step']}" if checkpoints else "began, nothing to save"


# phase, how often the run reaches it before the signal, signal
CASES = [
    ("composing", 1, signal.SIGTERM),
    ("building", 1, signal.SIGINT),
    ("collecting", 100, signal.SIGHUP),
    ("updating", 9, signal.SIGUSR1),
    ("evaluating", 2, signal.SIGTERM),
    ("saving", 3, signal.SIGINT),
    ("finishing", 1, signal.SIGTERM),
]


@pytest.mark.parametrize(("phase", "count", "sent"), CASES, ids=[c[0] for c in CASES])
def test_a_signal_in_any_phase_saves_or_nothing_was_started(
    phase: str,
    count: int,
    sent: signal.Signals,
    expected: dict[str, Any],
    nursery: ChildServer,
    tmp_path: Path,
) -> None:
    ended = command(ARGS, tmp_path, sent, phase, count)
    assert f"reached {phase}" in ended.err
    going_on = None if phase == "evaluating" else nursery
    outcome = check_stopped(ended, CODES[sent], tmp_path, expected, going_on)
    if phase in ("composing", "building"):
        assert outcome == "never started"
    elif phase != "finishing":
        assert outcome.startswith("saved at step")


def test_a_second_signal_ends_the_process_at_once(tmp_path: Path) -> None:
    with start(ARGS, tmp_path, "evaluating", signals=2) as child:
        try:
            assert child.stderr
            assert any("reached" in line for line in child.stderr)
            child.send_signal(signal.SIGTERM)
            assert any("SIGTERM" in line for line in child.stderr)
            child.send_signal(signal.SIGTERM)
            assert child.wait(PATIENCE) == 143
        finally:
            child.kill()
    left = run_in(tmp_path)  # still as before: a run that ends by its first signal records its end
    assert status_of(left)["status"] == "running"
    assert not (left / "result.json").exists()


@pytest.mark.skipif(not FULL, reason="a hundred signals; set RLOX_FULL=1")
def test_a_hundred_signals_lose_nothing(expected: dict[str, Any], tmp_path: Path) -> None:
    chance = random.Random(77)
    often = {"collecting": 192, "updating": 48, "evaluating": 3, "saving": 7}
    outcomes: dict[str, int] = {}
    slowest = 0.0
    for number in range(100):
        phase = PHASES[number % len(PHASES)]
        sent = chance.choice(list(CODES))
        count = chance.randrange(1, often.get(phase, 1) + 1)
        folder = tmp_path / str(number)
        folder.mkdir()
        ended = command(ARGS, folder, sent, phase, count)
        kind = check_stopped(ended, CODES[sent], folder, expected, None).split(" at ")[0]
        print(f"signal {number}: {sent.name} while {phase} ({count}): {kind}")
        outcomes[kind] = outcomes.get(kind, 0) + 1
        slowest = max(slowest, ended.seconds)
    record("signals", {"sent": 100, "lost": 0, "slowest_s": round(slowest, 2), **outcomes})
    assert sum(outcomes.values()) == 100
