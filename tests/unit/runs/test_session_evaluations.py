"""Tests evaluations of a run: scores that are not finite, time limits, and failures of sessions."""

from __future__ import annotations

import math
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.hard_evaluations import Dice, Endless
from helpers.sessions import algorithm, resume_session, rows

from rlox.algorithms import PPO
from rlox.configs import make_run
from rlox.errors import NonFiniteError, StorageError
from rlox.runs import evaluation_limits
from rlox.runs.checkpoint import read_checkpoint, resolve_checkpoint
from rlox.runs.checkpoint_store import CheckpointStore
from rlox.runs.journal import Journal
from rlox.runs.session import Outcome, ProgressSnapshot, Session
from rlox.training.evaluate import Evaluation

EVERY = {"eval": {"every": 128, "episodes": 2}, "checkpoint": {"keep": 1}}


def scoring(means: list[float], **options: Any) -> Any:
    """Makes an algorithm whose evaluations have these means, one after the other."""
    made, left = algorithm(**{**EVERY, **options}), iter(means)
    made.evaluate = lambda *args, **kwargs: Evaluation((next(left),), (1,), 0)  # type: ignore[method-assign]
    return made


def step_of(folder: Path, name: str) -> int:
    return read_checkpoint(resolve_checkpoint(folder, name)).clock["env_steps"]


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_the_best_checkpoint_stays_the_best_after_an_evaluation_that_is_no_number(
    wrong: float, tmp_path: Path
) -> None:
    Session(scoring([500.0, wrong, 100.0, 100.0]), tmp_path).run()
    assert (step_of(tmp_path, "best"), step_of(tmp_path, "last")) == (128, 512)
    found = [r for r in rows(tmp_path / "metrics.jsonl") if "eval/return_mean" in r]
    assert [r["eval/return_mean"] for r in found] == [500.0, None, 100.0, 100.0]
    assert [r.get("eval/not_finite") for r in found] == [None, 1, None, None]


def test_a_run_whose_first_evaluation_is_no_number_has_a_later_one_as_its_best(
    tmp_path: Path,
) -> None:
    Session(scoring([math.nan, 1.0, 2.0, math.nan]), tmp_path).run()
    assert (step_of(tmp_path, "best"), step_of(tmp_path, "last")) == (384, 512)


def test_nan_scores_neither_prune_nor_stop_a_run_also_after_a_resume(tmp_path: Path) -> None:
    asked: list[float] = []

    def prune(step: int, mean: float) -> bool:
        asked.append(mean)
        return False

    made = scoring([math.nan, 5.0, 6.0, 7.0], stop={"score": 100.0})
    assert Session(made, tmp_path, should_prune=prune).run().reason == "total_steps"
    assert asked == [5.0, 6.0]
    again = resume_session(tmp_path, 640, prune)
    again.algorithm.evaluate = lambda *args, **kwargs: Evaluation((8.0,), (1,), 0)  # type: ignore[method-assign]
    assert again.run().reason == "total_steps"
    assert asked == [5.0, 6.0, 5.0, 6.0, 7.0]


def endless(folder: Path, **options: Any) -> Outcome:
    """Returns the outcome of a run in an environment whose episodes never end."""
    config = {
        "algo": {"name": "ppo", "n_steps": 16, "n_epochs": 1, "batch_size": 16, "net_arch": [4]},
        "env": {"id": "<Endless>", "n_envs": 1},
        "total_steps": 64,
        **options,
    }
    made = PPO.from_config(make_run(config), Endless)
    try:
        return Session(made, folder).run()
    finally:
        made.close()


def test_the_time_limit_ends_evaluations_and_the_final_one_a_tenth_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0

    def a_second_goes_by() -> float:
        nonlocal now
        now += 1.0
        return now

    monkeypatch.setattr("rlox.runs.session.time", SimpleNamespace(perf_counter=a_second_goes_by))
    eval_ = {"every": 16, "episodes": 1}
    outcome = endless(tmp_path, stop={"minutes": 10}, eval=eval_, total_steps=10**6)
    assert outcome.reason == "minutes"
    assert outcome.evaluation is None
    assert outcome.no_score_reason == "stop.minutes were over within the final evaluation"
    assert outcome.clock.now == 16
    assert 660 <= outcome.seconds["total"] < 700


def test_a_limit_of_steps_ends_evaluations_in_an_environment_without_an_end(tmp_path: Path) -> None:
    outcome = endless(tmp_path, eval={"every": 32, "episodes": 3, "max_steps": 5})
    assert outcome.evaluation is not None
    assert (outcome.evaluation.returns, outcome.evaluation.n_cut) == ((5.0,) * 3, 3)
    found = [r for r in rows(tmp_path / "metrics.jsonl") if "eval/return_mean" in r]
    assert [r["eval/cut"] for r in found] == [3, 3]


def test_a_long_evaluation_reports_its_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation_limits, "HEARTBEAT_SECONDS", 0.0)
    seen: list[ProgressSnapshot] = []
    Session(algorithm(), tmp_path, seen.append).run()
    shown = [s for s in seen if s.evaluating is not None]
    assert len(shown) > 3
    assert {s.now for s in shown} == {512}
    taken = [s.evaluating for s in shown]
    assert taken == sorted(taken)  # type: ignore[type-var]


def test_the_outcome_reports_a_stop_within_the_final_evaluation(tmp_path: Path) -> None:
    made = algorithm(128)
    session = Session(made, tmp_path)
    evaluate = made.evaluate

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        session.request_stop("signal")
        return evaluate(*args, **kwargs)

    made.evaluate = interrupted  # type: ignore[method-assign]
    outcome = session.run()
    assert (outcome.reason, outcome.evaluation) == ("signal", None)
    assert outcome.no_score_reason == "stopped within the final evaluation"


def test_observations_that_are_not_finite_end_the_run_in_its_evaluation(tmp_path: Path) -> None:
    config = {
        "algo": {"name": "ppo", "n_steps": 16, "n_epochs": 1, "batch_size": 16, "net_arch": [4]},
        "env": {"id": "<Dice>", "n_envs": 1},
        "total_steps": 16,
    }
    made = PPO.from_config(make_run(config), lambda: Dice("obs"))
    with pytest.raises(NonFiniteError, match=r"evaluation episode of seed 100000") as raised:
        Session(made, tmp_path).run()
    assert raised.value.__notes__ == ["in the evaluation at steps 16"]


def test_a_session_that_fails_to_open_ends_the_loggers_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise StorageError("no room for checkpoints")

    monkeypatch.setattr(CheckpointStore, "__init__", refuse)
    before = set(threading.enumerate())
    made = algorithm(logger={"csv": {"name": "csv"}})
    with pytest.raises(StorageError, match="no room for checkpoints"):
        Session(made, tmp_path).run()
    assert set(threading.enumerate()) <= before


def test_a_journal_that_cannot_open_a_file_closes_those_that_it_opened(tmp_path: Path) -> None:
    (tmp_path / "episodes.jsonl").mkdir()
    with pytest.raises(StorageError, match=r"episodes\.jsonl"):
        Journal(tmp_path, algorithm().config, {})
    found = [os.path.realpath(path) for path in Path("/proc/self/fd").iterdir()]
    assert [path for path in found if path.startswith(str(tmp_path))] == []
