"""Tests that a session writes a run folder from which every number can be read back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from helpers.sessions import algorithm, rows, without_timings
from helpers.states import assert_same_state, pack_state

from rlox._core import ReplayIteration
from rlox.build import resume
from rlox.native import sources
from rlox.runs.checkpoint import read_checkpoint, resolve_checkpoint
from rlox.runs.session import ProgressSnapshot, Session
from rlox.types import Clock, Update

TRAIN_KEYS = {
    "env_steps", "updates", "seconds", "train/return_mean", "train/length_mean", "train/episodes",
    "loss/policy", "loss/value", "policy/entropy", "policy/approx_kl", "policy/clip_fraction",
    "value/explained_variance", "time/steps_per_second",
}  # fmt: skip
EVAL_KEYS = {
    "env_steps", "updates", "seconds", "eval/return_mean", "eval/return_iqm", "eval/return_std",
    "eval/episodes",
}  # fmt: skip


def test_metrics_have_the_fixed_names_at_every_interval_and_one_evaluation(tmp_path: Path) -> None:
    outcome = Session(algorithm(log={"every": 128}), tmp_path).run()
    found = rows(tmp_path / "metrics.jsonl")
    train = [r for r in found if "loss/policy" in r]
    assert [r["env_steps"] for r in train] == [128, 256, 384, 512]
    assert [r["updates"] for r in train] == [2, 4, 6, 8]
    assert all(set(r) >= TRAIN_KEYS for r in train)
    assert all(isinstance(v, int | float) or v is None for r in found for v in r.values())
    evaluations = found[len(train) :]
    assert [set(r) for r in evaluations] == [EVAL_KEYS]
    assert outcome.evaluation is not None
    assert evaluations[0]["eval/return_mean"] == outcome.evaluation.mean
    seconds = [r["seconds"] for r in found]
    assert seconds == sorted(seconds)
    assert (outcome.reason, outcome.clock.env_steps) == ("total_steps", 512)
    assert outcome.seconds["total"] >= outcome.seconds["collect"] + outcome.seconds["update"] > 0


def test_numbers_that_do_not_exist_yet_are_null(tmp_path: Path) -> None:
    config = {"id": "Pendulum-v1", "n_envs": 4}
    Session(algorithm(128, env=config), tmp_path).run()
    assert rows(tmp_path / "metrics.jsonl")[0]["train/return_mean"] is None


def test_episodes_are_logged_one_a_line_in_order(tmp_path: Path) -> None:
    made = algorithm()
    Session(made, tmp_path).run()
    found = rows(tmp_path / "episodes.jsonl")
    assert len(found) == made.recent.count > 5
    assert all(set(r) == {"env_steps", "env", "return", "length"} for r in found)
    steps = [r["env_steps"] for r in found]
    assert steps == sorted(steps)
    assert {r["env"] for r in found} <= set(range(4))
    per_env = [sum(r["length"] for r in found if r["env"] == i) for i in range(4)]
    assert all(0 < n <= 128 for n in per_env)


def test_intermediate_evaluations_come_at_their_interval_and_mark_the_best(tmp_path: Path) -> None:
    outcome = Session(algorithm(eval={"every": 128, "episodes": 3}), tmp_path).run()
    found = [r for r in rows(tmp_path / "metrics.jsonl") if "eval/return_mean" in r]
    assert [r["env_steps"] for r in found] == [128, 256, 384, 512]
    best = read_checkpoint(resolve_checkpoint(tmp_path, "best"))
    top = max(r["eval/return_mean"] for r in found)
    at = next(r["env_steps"] for r in found if r["eval/return_mean"] == top)
    assert best.clock["env_steps"] == at
    assert read_checkpoint(resolve_checkpoint(tmp_path, "last")).clock["env_steps"] == 512
    assert outcome.checkpoint.name == "step-000000000512"


def test_checkpoints_come_at_their_interval_and_only_the_newest_stay(tmp_path: Path) -> None:
    Session(algorithm(checkpoint={"every": 128, "keep": 2}), tmp_path).run()
    names = sorted(p.name for p in (tmp_path / "checkpoints").iterdir())
    assert names == ["last", "step-000000000384", "step-000000000512"]


def test_a_checkpoint_knows_how_far_the_logs_were(tmp_path: Path) -> None:
    Session(algorithm(checkpoint={"every": 256, "keep": 9}), tmp_path).run()
    saved = read_checkpoint(resolve_checkpoint(tmp_path, "step-000000000256"))
    for name, offset in saved.logs.items():
        head = (tmp_path / name).read_bytes()[:offset].decode()
        assert head.endswith("\n")
        last = [json.loads(line)["env_steps"] for line in head.splitlines()]
        assert max(last) <= 256
        rest = (tmp_path / name).read_bytes()[offset:].decode().splitlines()
        assert all(json.loads(line)["env_steps"] > 256 for line in rest)


def test_the_same_configuration_leaves_the_same_logs(tmp_path: Path) -> None:
    logs = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Session(algorithm(), tmp_path / name).run()
        metrics = without_timings(rows(tmp_path / name / "metrics.jsonl"))
        logs.append((metrics, (tmp_path / name / "episodes.jsonl").read_bytes()))
    assert logs[0] == logs[1]


def test_a_row_holds_the_means_of_the_updates_since_the_last_row(tmp_path: Path) -> None:
    found = []
    for every in (64, 192):
        (tmp_path / str(every)).mkdir()
        Session(algorithm(log={"every": every}), tmp_path / str(every)).run()
        found.append([r for r in rows(tmp_path / str(every) / "metrics.jsonl") if "loss/policy" in r])
    each, means = found
    assert [r["env_steps"] for r in means] == [192, 384, 512]
    for row, updates in zip(means, (each[:3], each[3:6], each[6:]), strict=True):
        for name in ("loss/policy", "policy/entropy", "value/explained_variance"):
            assert row[name] == pytest.approx(np.mean([r[name] for r in updates]), rel=1e-12)


def test_the_progress_callback_sees_every_tick(tmp_path: Path) -> None:
    seen: list[ProgressSnapshot] = []
    Session(algorithm(), tmp_path, seen.append).run()
    assert [s.now for s in seen] == list(range(64, 513, 64))
    assert {s.total for s in seen} == {512}
    assert seen[-1].seconds_left == 0
    assert all(s.steps_per_second > 0 for s in seen)


SEVERAL_TRAININGS: dict[str, Any] = {
    "algo": {"name": "td3", "backend": "native", "learning_starts": 30, "net_arch": [8], "batch_size": 16},
    "env": {"id": "Pendulum-v1"},
    "eval": {"every": 110, "episodes": 2},
    "checkpoint": {"every": 90, "keep": 10},
    "log": {"every": 70},
}
SEVERAL_OF_DQN: dict[str, Any] = {
    **SEVERAL_TRAININGS,
    "algo": {**SEVERAL_TRAININGS["algo"], "name": "dqn", "target_update_interval": 45, "tau": 0.7},
    "env": {"id": "CartPole-v1"},
}


def test_several_trainings_in_a_call_leave_the_rows_and_checkpoints_of_single_trainings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MAX_CALL_SECONDS", 1e9)
    ticks: dict[str, list[int]] = {"several": [], "single": []}
    for name, most in (("several", 16), ("single", 1)):
        monkeypatch.setattr(sources, "MAX_CALL_BATCHES", most)
        (tmp_path / name).mkdir()
        made = algorithm(470, **SEVERAL_TRAININGS)
        Session(made, tmp_path / name, on_progress=lambda at, name=name: ticks[name].append(at.now)).run()
    assert len(ticks["several"]) < len(ticks["single"]) / 4
    several, single = (without_timings(rows(tmp_path / name / "metrics.jsonl")) for name in ticks)
    assert several == single
    saved_steps = [
        [
            read_checkpoint(path).clock["env_steps"]
            for path in sorted((tmp_path / name).glob("checkpoints/step-*"))
        ]
        for name in ticks
    ]
    assert saved_steps[0] == saved_steps[1]
    assert {90, 180, 270, 360, 450, 470} <= set(saved_steps[0])  # and that of the best evaluation
    for step in saved_steps[0]:
        states = [read_checkpoint(tmp_path / n / "checkpoints" / f"step-{step:012}").weights for n in ticks]
        assert_same_state(*map(pack_state, states))


@pytest.mark.parametrize("settings", [SEVERAL_TRAININGS, SEVERAL_OF_DQN], ids=["TD3", "DQN"])
def test_a_run_stopped_in_a_call_of_several_trainings_resumes_to_the_rows_of_one_never_stopped(
    settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MAX_CALL_SECONDS", 1e9)
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    whole.mkdir()
    stopped.mkdir()
    made = algorithm(470, **settings)
    Session(made, whole).run()
    interrupted = algorithm(470, **settings)
    session = Session(interrupted, stopped)
    learner = cast(Any, interrupted.learner)
    iterate, trainings = learner.iterate, []

    def stop_in_call(iteration: ReplayIteration, batch: Any, clock: Clock) -> Update:
        if clock.env_steps > 200:
            trainings.append(iteration.trainings)
            session.request_stop("signal")  # as a signal handler does while Rust works
        return iterate(iteration, batch, clock)

    monkeypatch.setattr(learner, "iterate", stop_in_call)
    outcome = session.run()
    assert trainings == [trainings[0]]
    assert trainings[0] > 1  # the call ends, with all its trainings
    assert outcome.reason == "signal"
    assert 200 < outcome.clock.env_steps < 300
    resumed, saved = resume(stopped, interrupted.config)
    assert resumed.clock.env_steps == outcome.clock.env_steps
    Session(resumed, stopped, resume_checkpoint=saved).run()
    assert without_timings(rows(stopped / "metrics.jsonl")) == without_timings(rows(whole / "metrics.jsonl"))
    assert rows(stopped / "episodes.jsonl") == rows(whole / "episodes.jsonl")
    states = [pack_state(read_checkpoint(resolve_checkpoint(folder)).weights) for folder in (whole, stopped)]
    assert_same_state(*states)


def test_the_number_of_trainings_of_a_call_falls_with_their_duration(tmp_path: Path) -> None:
    made = algorithm(470, **SEVERAL_TRAININGS)
    made.fit(40)
    source, clock = cast(Any, made.source), replace(made.clock, horizon=470, hook_intervals=())
    for seconds, most in ((0.001, 16), (0.04, 2), (0.2, 1)):
        source._training_seconds = seconds  # as measured by an earlier call
        assert source._trainings_ahead(clock, 1, 1) == most
    made.close()
