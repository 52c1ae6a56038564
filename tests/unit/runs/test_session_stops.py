"""Tests what ends a session early, and which files it then leaves."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from helpers.sessions import algorithm, resume_session, rows
from safetensors.numpy import load_file

from rlox.algorithms import PPO
from rlox.callbacks import Callback
from rlox.runs.checkpoint import read_checkpoint, resolve_checkpoint
from rlox.runs.session import Outcome, ProgressSnapshot, Session


class StopAt(Callback):
    """Stops the run at a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, **kwargs: Any) -> bool:
        return bool(kwargs["step"] < self.step)


def test_a_score_reached_in_an_evaluation_stops_the_run(tmp_path: Path) -> None:
    options = {"eval": {"every": 128, "episodes": 2}, "stop": {"score": 1.0}}
    outcome = Session(algorithm(**options), tmp_path).run()
    assert (outcome.reason, outcome.clock.env_steps) == ("score", 128)
    assert outcome.evaluation is not None
    assert read_checkpoint(resolve_checkpoint(tmp_path)).clock["env_steps"] == 128


def test_a_score_out_of_reach_stops_nothing(tmp_path: Path) -> None:
    options = {"eval": {"every": 128, "episodes": 2}, "stop": {"score": 501.0}}
    assert Session(algorithm(**options), tmp_path).run().reason == "total_steps"


def test_the_time_limit_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def half_a_minute_goes_by(snapshot: ProgressSnapshot) -> None:
        nonlocal now
        now += 30.0

    clock = SimpleNamespace(perf_counter=lambda: now)
    monkeypatch.setattr("rlox.runs.session.time", clock)
    stop = {"minutes": 2.0}
    outcome = Session(algorithm(10**7, stop=stop), tmp_path, half_a_minute_goes_by).run()
    assert outcome.reason == "minutes"
    # the fifth rollout of 64 steps is the first one that ends after two minutes
    assert outcome.clock.env_steps == 5 * 64


def test_a_requested_stop_saves_at_once_and_evaluates_nothing(tmp_path: Path) -> None:
    made = algorithm(10**6)

    def progress(snapshot: ProgressSnapshot) -> None:
        if snapshot.now == 192:
            session.request_stop("signal")

    session = Session(made, tmp_path, progress)
    outcome = session.run()
    assert (outcome.reason, outcome.evaluation) == ("signal", None)
    assert outcome.clock.env_steps in (192, 256)
    assert outcome.checkpoint == resolve_checkpoint(tmp_path).resolve()
    loaded = PPO.from_checkpoint(tmp_path)
    assert loaded.clock == outcome.clock
    assert loaded.config.total_steps == made.config.total_steps


def test_a_stop_requested_before_the_run_begins_saves_what_there_is(tmp_path: Path) -> None:
    session = Session(algorithm(), tmp_path)
    session.request_stop("signal")
    outcome = session.run()
    assert (outcome.reason, outcome.clock.env_steps) == ("signal", 0)
    assert PPO.from_checkpoint(tmp_path).train(64)["env_steps"] == 64


def test_a_stop_requested_during_an_evaluation_cuts_it_short_and_logs_none(tmp_path: Path) -> None:
    made = algorithm(512, eval={"every": 64, "episodes": 50})
    session = Session(made, tmp_path)
    evaluate = made.evaluate

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        session.request_stop("signal")
        return evaluate(*args, **kwargs)

    made.evaluate = interrupted  # type: ignore[method-assign]
    outcome: Outcome = session.run()
    assert (outcome.reason, outcome.clock.env_steps) == ("signal", 64)
    assert not any("eval/return_mean" in r for r in rows(tmp_path / "metrics.jsonl"))
    assert not (tmp_path / "checkpoints" / "best").exists()


@pytest.mark.parametrize("stop", [{"stop": {"score": 1.0}, "eval": {"every": 128, "episodes": 1}}, {}])
def test_a_stopped_session_saves_no_metrics_that_its_last_row_already_holds(
    stop: dict[str, Any], tmp_path: Path
) -> None:
    made = algorithm(checkpoint={"every": 64}, log={"every": 320}, **stop)
    if not stop:
        made._callback_runner.callbacks = (StopAt(128),)
    outcome = Session(made, tmp_path).run()
    assert outcome.clock.env_steps == 128
    last = [r for r in rows(tmp_path / "metrics.jsonl") if "loss/policy" in r]
    assert [r["env_steps"] for r in last] == [128]
    for name in ("last", "best") if stop else ("last",):
        saved = read_checkpoint(resolve_checkpoint(tmp_path, name))
        assert set(saved.state["session"]["means"]["counts"].values()) == {0}


def test_a_run_stopped_off_the_logging_grid_logs_its_last_update(tmp_path: Path) -> None:
    options = {"log": {"every": 512}, "eval": {"every": 192, "episodes": 2}, "stop": {"score": 1.0}}
    Session(algorithm(**options), tmp_path).run()
    trained = [r["env_steps"] for r in rows(tmp_path / "metrics.jsonl") if "loss/value" in r]
    assert trained == [192]


def test_a_failing_run_closes_its_logs_with_every_row_written(tmp_path: Path) -> None:
    made = algorithm()

    def fail(snapshot: ProgressSnapshot) -> None:
        if snapshot.now == 192:
            with torch.no_grad():
                made.policy.actor[0].weight.fill_(float("nan"))

    with pytest.raises(ArithmeticError, match="expected finite numbers"):
        Session(made, tmp_path, fail).run()
    batch = load_file(tmp_path / "nonfinite_batch.safetensors")
    assert batch["obs"].shape == (17, 4, 4)
    assert np.isnan(batch["log_probs"]).any()
    assert [r["env_steps"] for r in rows(tmp_path / "metrics.jsonl")] == [64, 128, 192]


def test_a_pruned_run_ends_at_its_evaluation_and_asks_again_after_a_resume(
    tmp_path: Path,
) -> None:
    asked: list[int] = []

    def prune(step: int, mean: float) -> bool:
        asked.append(step)
        return step >= 256

    learner = algorithm(eval={"every": 128, "episodes": 2})
    outcome = Session(learner, tmp_path, should_prune=prune).run()
    learner.close()
    assert (outcome.reason, outcome.evaluation, outcome.clock.now) == ("pruned", None, 256)
    assert asked == [128, 256]
    found = [r["env_steps"] for r in rows(tmp_path / "metrics.jsonl") if "eval/return_mean" in r]
    assert found == [128, 256]

    again = resume_session(tmp_path, 512, prune=prune)  # as after a kill before the report of the stop
    outcome = again.run()
    again.algorithm.close()
    assert (outcome.reason, outcome.clock.now) == ("pruned", 256)
    assert asked == [128, 256, 128, 256]

    whole = resume_session(tmp_path, 512)  # without pruning
    outcome = whole.run()
    whole.algorithm.close()
    assert (outcome.reason, outcome.clock.now) == ("total_steps", 512)
    assert outcome.evaluation is not None
