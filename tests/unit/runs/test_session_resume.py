"""Tests that a resumed session equals an uninterrupted one, and repairs the remains of a kill."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers.sessions import algorithm, resume_session, rows, without_timings

from rlox.build import resume
from rlox.configs import make_run
from rlox.errors import StorageError
from rlox.runs.checkpoint import newest_checkpoint, read_checkpoint
from rlox.runs.session import Session
from rlox.training.evaluate import Evaluation


def test_a_resumed_session_judges_an_owed_evaluation_from_the_log(tmp_path: Path) -> None:
    Session(algorithm(256), tmp_path).run()
    newest = newest_checkpoint(tmp_path)
    assert newest is not None
    config = make_run(read_checkpoint(newest).config | {"total_steps": 512, "stop": {"score": 400.0}})
    again, saved = resume(tmp_path, config)
    session = Session(again, tmp_path, resume_checkpoint=saved)
    session._evaluation_owed = True
    session._logged_evaluation = lambda: 450.0  # type: ignore[method-assign]
    outcome = session.run()
    assert (outcome.reason, outcome.clock.env_steps) == ("score", 256)
    assert not session._evaluation_owed


@pytest.mark.parametrize("every", [64, 192])
def test_a_resumed_session_continues_the_logs_of_an_uninterrupted_one(every: int, tmp_path: Path) -> None:
    options = {"checkpoint": {"every": 256, "keep": 9}, "log": {"every": every}}
    (tmp_path / "whole").mkdir()
    Session(algorithm(**options), tmp_path / "whole").run()
    shutil.copytree(tmp_path / "whole", tmp_path / "part", symlinks=True)
    shutil.rmtree(tmp_path / "part" / "checkpoints" / "step-000000000512")
    resume_session(tmp_path / "part", 512).run()
    for name in ("metrics.jsonl", "episodes.jsonl"):
        whole, part = rows(tmp_path / "whole" / name), rows(tmp_path / "part" / name)
        assert without_timings(whole) == without_timings(part), name
    final = "checkpoints/step-000000000512"
    for name in ("weights.safetensors", "optimizer.safetensors", "state.safetensors"):
        whole_bytes = (tmp_path / "whole" / final / name).read_bytes()
        assert whole_bytes == (tmp_path / "part" / final / name).read_bytes(), name


def test_a_session_without_a_checkpoint_starts_the_logs_anew(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"env_steps": 1}\n')
    Session(algorithm(), tmp_path).run()
    assert rows(tmp_path / "metrics.jsonl")[0]["env_steps"] == 64


def test_a_log_shorter_than_the_checkpoint_says_is_an_error(tmp_path: Path) -> None:
    Session(algorithm(), tmp_path).run()
    (tmp_path / "metrics.jsonl").write_text("")
    with pytest.raises(StorageError, match="the checkpoint was saved at"):
        resume_session(tmp_path, 1024).run()


def test_a_resumed_session_counts_the_seconds_of_the_earlier_one(tmp_path: Path) -> None:
    first = Session(algorithm(), tmp_path).run()
    state = read_checkpoint(first.checkpoint).state["session"]
    kept = {"total": state["seconds"], **state["timings"]}  # without the time of saving
    again = resume_session(tmp_path, 1024).run()
    for part in ("total", "collect", "update"):
        assert again.seconds[part] > kept[part] > 0
    assert kept["total"] <= first.seconds["total"]


def test_a_resumed_session_replaces_the_best_only_by_a_better_one(tmp_path: Path) -> None:
    options = {"eval": {"every": 128, "episodes": 2}, "checkpoint": {"keep": 9}}
    lucky = algorithm(256, **options)
    lucky.evaluate = lambda *a, **k: Evaluation((1e6, 1e6), (1, 1), 0)  # type: ignore[method-assign]
    Session(lucky, tmp_path).run()
    best = tmp_path / "checkpoints" / "best"
    assert best.readlink().name == "step-000000000128"
    resume_session(tmp_path, 512).run()
    assert best.readlink().name == "step-000000000128"


def test_a_resumed_session_repeats_an_interrupted_evaluation(tmp_path: Path) -> None:
    options = {"eval": {"every": 128, "episodes": 2}, "checkpoint": {"keep": 9}}
    for name in ("whole", "part"):
        (tmp_path / name).mkdir()
    Session(algorithm(256, **options), tmp_path / "whole").run()
    made = algorithm(256, **options)
    session = Session(made, tmp_path / "part")
    evaluate = made.evaluate

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        session.request_stop("signal")
        return evaluate(*args, **kwargs)

    made.evaluate = interrupted  # type: ignore[method-assign]
    assert session.run().clock.env_steps == 128
    resume_session(tmp_path / "part", 256).run()
    whole, part = (rows(tmp_path / n / "metrics.jsonl") for n in ("whole", "part"))
    assert without_timings(whole) == without_timings(part)
    links = [(tmp_path / n / "checkpoints" / "best").readlink() for n in ("whole", "part")]
    assert links[0] == links[1]


def test_a_finished_run_that_is_resumed_only_evaluates_again(tmp_path: Path) -> None:
    first = Session(algorithm(), tmp_path).run()
    before = (tmp_path / "checkpoints" / "last" / "weights.safetensors").read_bytes()
    again = resume_session(tmp_path, 512).run()
    assert again.clock == first.clock
    assert again.evaluation == first.evaluation
    assert (tmp_path / "checkpoints" / "last" / "weights.safetensors").read_bytes() == before
