"""Tests that a stop does not wait for a long update or rollout, and that the run resumes exactly."""

from __future__ import annotations

import itertools
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import TINY, Cli

from rlox import stopping
from rlox.algorithms.dqn.learner import DQNLearner
from rlox.algorithms.ppo.learner import PPOLearner
from rlox.algorithms.ppo.native import NativePPOLearner
from rlox.envs.native import NativeVecEnv
from rlox.runs.saver import Saver
from rlox_cli.runs.run_folder import read_status

TORCH = ("algo.backend=torch",)
LONG = ("algo.backend=native", "algo.n_epochs=500")  # long enough that the update asks whether to stop
PPO = (*TINY, "total_steps=640", "checkpoint.every=128")
DQN = (
    "algo=dqn", "tuned=null", "total_steps=640", "algo.learning_starts=64", "algo.train_freq=64",
    "algo.gradient_steps=16", "algo.net_arch=[8]", "checkpoint.every=128", "eval.episodes=2",
)  # fmt: skip
# the interrupted work: the arguments, the method, and the number of the call that sends the signal
PLACES: dict[str, tuple[tuple[str, ...], Any, str, int]] = {
    "a minibatch of ppo": ((*PPO, *TORCH), PPOLearner, "_terms", 5),
    "a step of a rollout": ((*PPO, *TORCH), NativeVecEnv, "step_into", 90),
    "a batch of dqn": ((*DQN, *TORCH), DQNLearner, "_step", 50),
    "an iteration of ppo in Rust": ((*PPO, *LONG), NativePPOLearner, "_settings", 4),
    "an update of ppo in Rust": (
        (*PPO, *LONG, "env.normalize_obs=true"), NativePPOLearner, "_learn", 4,
    ),
    "a step between trainings": ((*DQN, *TORCH), NativeVecEnv, "step_into", 300),
}  # fmt: skip


def sending(owner: Any, method: str, at: int) -> Any:
    original, calls = getattr(owner, method), itertools.count()

    def call(self: Any, *args: Any) -> Any:
        if next(calls) == at:
            os.kill(os.getpid(), signal.SIGTERM)
        return original(self, *args)

    return call


def left(run: Path) -> tuple[bytes, ...]:
    last = run / "checkpoints" / "last"
    files = [last / name for name in ("weights.safetensors", "optimizer.safetensors")]
    files += [last / "state.safetensors", run / "episodes.jsonl"]
    return tuple(path.read_bytes() for path in files if path.exists())


@pytest.mark.parametrize("place", PLACES)
def test_a_stop_inside_an_update_or_rollout_resumes_exactly_from_a_checkpoint(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    given, owner, method, at = PLACES[place]
    with monkeypatch.context() as patch:
        patch.setattr(stopping, "GRACE_SECONDS", -1.0)  # no grace at all
        patch.setattr(owner, method, sending(owner, method, at))
        stopped = cli("train", *given, "hydra.run.dir=run")
    assert stopped.code == 143
    told = "stopped in the middle of an update or a rollout: the last checkpoint is at step "
    (line,) = [line for line in stopped.err.splitlines() if "in the middle" in line]
    assert line.startswith(f"  {told}")
    assert "\n  resume  rlox resume run\n" in stopped.out
    run = Path("run")
    saved = (run / "checkpoints" / "last").resolve().name
    assert f"{int(saved[5:17]):,}; " in line
    assert read_status(run)["status"] == "killed"
    assert cli("resume", "run").code == 0
    assert cli("train", *given, "hydra.run.dir=whole").code == 0
    assert left(run) == left(Path("whole"))
    scores = [json.loads((Path(r) / "result.json").read_text())["episodes"] for r in ("run", "whole")]
    assert scores[0] == scores[1]


def test_before_the_first_checkpoint_the_run_starts_again(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(stopping, "GRACE_SECONDS", -1.0)
        patch.setattr(PPOLearner, "_terms", sending(PPOLearner, "_terms", 3))
        stopped = cli("train", *PPO, *TORCH, "checkpoint.every=1000000", "hydra.run.dir=run")
    assert stopped.code == 143
    assert "there is no checkpoint yet; 128 steps and the interrupted work will be repeated" in stopped.err
    again = cli("resume", "run")
    assert again.code == 0, again.err
    assert "the run starts again" in again.out


def test_a_stopped_run_finishes_and_saves_an_update_that_ends_in_time(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "GRACE_SECONDS", 600.0)
    monkeypatch.setattr(PPOLearner, "_terms", sending(PPOLearner, "_terms", 5))
    stopped = cli("train", *PPO, *TORCH, "hydra.run.dir=run")
    assert stopped.code == 143
    assert "in the middle" not in stopped.err
    assert (Path("run") / "checkpoints" / "last").resolve().name == "step-000000000384"


def test_only_the_expired_innermost_deadline_requests_a_stop() -> None:
    stopping.raise_if_expired()
    outer, inner = stopping.StopDeadline(), stopping.StopDeadline()
    with outer.active():
        outer.start()
        outer._started -= stopping.GRACE_SECONDS + 1  # type: ignore[operator]
        with inner.active():
            stopping.raise_if_expired()
        with pytest.raises(stopping.StopRequested):
            stopping.raise_if_expired()
    stopping.raise_if_expired()


def test_a_stop_request_does_not_interrupt_a_save(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    save, saves = Saver.save, itertools.count()

    def asked(self: Saver, *args: Any, **kwargs: Any) -> Any:
        if next(saves) == 0:
            os.kill(os.getpid(), signal.SIGTERM)
        stopping.raise_if_expired()  # long calls of the core call this too
        return save(self, *args, **kwargs)

    monkeypatch.setattr(stopping, "GRACE_SECONDS", -1.0)
    monkeypatch.setattr(Saver, "save", asked)
    stopped = cli("train", *PPO, *TORCH, "hydra.run.dir=run")
    assert stopped.code == 143
    assert "in the middle" not in stopped.err
    assert (Path("run") / "checkpoints" / "last").resolve().name == "step-000000000128"
