"""A session leaves a run folder from which every number can be read back."""

from __future__ import annotations

import csv
import json
import shutil
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from rlox.algorithms import PPO
from rlox.build import build, resume
from rlox.callbacks import Callback
from rlox.configs import make_run
from rlox.errors import StorageError
from rlox.runs.checkpoint import newest_checkpoint, read_checkpoint, resolve_checkpoint
from rlox.runs.session import Outcome, Session, Snapshot
from rlox.training.evaluate import Evaluation

TRAIN_KEYS = {
    "env_steps", "updates", "seconds", "train/return_mean", "train/length_mean", "train/episodes",
    "loss/policy", "loss/value", "policy/entropy", "policy/approx_kl", "policy/clip_fraction",
    "value/explained_variance", "time/steps_per_second",
}  # fmt: skip
EVAL_KEYS = {
    "env_steps", "updates", "seconds", "eval/return_mean", "eval/return_iqm", "eval/return_std",
    "eval/episodes",
}  # fmt: skip


def algorithm(total: int = 512, **options: Any) -> PPO:
    """CartPole, rollouts of 64 steps; options are top-level keys of the run's configuration."""
    config = {
        "algo": {"name": "ppo", "n_steps": 16, "n_epochs": 1, "batch_size": 64},
        "env": {"n_envs": 4},
        "total_steps": total,
        "log": {"every": 64},
        "eval": {"episodes": 2},
        **options,
    }
    return build(make_run(config))  # type: ignore[return-value]


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def stable(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without what equality of runs is judged without."""
    return [
        {k: v for k, v in r.items() if k != "seconds" and not k.startswith("time/")} for r in found
    ]


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
        metrics = stable(rows(tmp_path / name / "metrics.jsonl"))
        logs.append((metrics, (tmp_path / name / "episodes.jsonl").read_bytes()))
    assert logs[0] == logs[1]


def resumed(folder: Path, total_steps: int) -> Session:
    """A session that goes on from the newest checkpoint of `folder`."""
    newest = newest_checkpoint(folder)
    assert newest is not None
    config = make_run(read_checkpoint(newest).config | {"total_steps": total_steps})
    again, saved = resume(folder, config)
    return Session(again, folder, resumed=saved)


def test_a_row_holds_the_means_of_the_updates_since_the_last_row(tmp_path: Path) -> None:
    found = []
    for every in (64, 192):
        (tmp_path / str(every)).mkdir()
        Session(algorithm(log={"every": every}), tmp_path / str(every)).run()
        found.append(
            [r for r in rows(tmp_path / str(every) / "metrics.jsonl") if "loss/policy" in r]
        )
    each, means = found
    assert [r["env_steps"] for r in means] == [192, 384, 512]
    for row, updates in zip(means, (each[:3], each[3:6], each[6:]), strict=True):
        for name in ("loss/policy", "policy/entropy", "value/explained_variance"):
            assert row[name] == pytest.approx(np.mean([r[name] for r in updates]), rel=1e-12)


@pytest.mark.parametrize(
    "stop", [{"stop": {"score": 1.0}, "eval": {"every": 128, "episodes": 1}}, {}]
)
def test_what_the_last_row_holds_is_not_counted_again_by_a_resumed_run(
    stop: dict[str, Any], tmp_path: Path
) -> None:
    made = algorithm(checkpoint={"every": 64}, log={"every": 320}, **stop)
    if not stop:
        made._callbacks = (StopAt(128),)
    outcome = Session(made, tmp_path).run()
    assert outcome.clock.env_steps == 128
    last = [r for r in rows(tmp_path / "metrics.jsonl") if "loss/policy" in r]
    assert [r["env_steps"] for r in last] == [128]
    for name in ("last", "best") if stop else ("last",):
        saved = read_checkpoint(resolve_checkpoint(tmp_path, name))
        assert set(saved.state["session"]["means"]["counts"].values()) == {0}


class StopAt(Callback):
    """Stops at a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, **kwargs: Any) -> bool:
        return bool(kwargs["step"] < self.step)


def test_an_owed_evaluation_that_the_log_has_is_judged_and_owed_no_more(tmp_path: Path) -> None:
    Session(algorithm(256), tmp_path).run()
    newest = newest_checkpoint(tmp_path)
    assert newest is not None
    config = make_run(
        read_checkpoint(newest).config | {"total_steps": 512, "stop": {"score": 400.0}}
    )
    again, saved = resume(tmp_path, config)
    session = Session(again, tmp_path, resumed=saved)
    session._evaluation_owed = True
    session._evaluated = lambda: 450.0  # type: ignore[method-assign]
    outcome = session.run()
    assert (outcome.reason, outcome.clock.env_steps) == ("score", 256)
    assert not session._evaluation_owed


@pytest.mark.parametrize("every", [64, 192])
def test_a_resumed_session_continues_the_logs_of_an_uninterrupted_one(
    every: int, tmp_path: Path
) -> None:
    options = {"checkpoint": {"every": 256, "keep": 9}, "log": {"every": every}}
    (tmp_path / "whole").mkdir()
    Session(algorithm(**options), tmp_path / "whole").run()
    shutil.copytree(tmp_path / "whole", tmp_path / "part", symlinks=True)
    shutil.rmtree(tmp_path / "part" / "checkpoints" / "step-000000000512")
    resumed(tmp_path / "part", 512).run()
    for name in ("metrics.jsonl", "episodes.jsonl"):
        whole, part = rows(tmp_path / "whole" / name), rows(tmp_path / "part" / name)
        assert stable(whole) == stable(part), name
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
        resumed(tmp_path, 1024).run()


def test_a_resumed_session_counts_the_seconds_of_the_earlier_one(tmp_path: Path) -> None:
    first = Session(algorithm(), tmp_path).run()
    again = resumed(tmp_path, 1024).run()
    for part in ("total", "collect", "update"):
        assert again.seconds[part] > first.seconds[part] > 0


def test_a_resumed_session_replaces_the_best_only_by_a_better_one(tmp_path: Path) -> None:
    options = {"eval": {"every": 128, "episodes": 2}, "checkpoint": {"keep": 9}}
    lucky = algorithm(256, **options)
    lucky.evaluate = lambda *a, **k: Evaluation((1e6, 1e6), (1, 1), 0)  # type: ignore[method-assign]
    Session(lucky, tmp_path).run()
    best = tmp_path / "checkpoints" / "best"
    assert best.readlink().name == "step-000000000128"
    resumed(tmp_path, 512).run()
    assert best.readlink().name == "step-000000000128"


def test_csv_has_every_row_with_columns_that_show_late(tmp_path: Path) -> None:
    options = {"logger": {"csv": {"name": "csv"}}, "eval": {"every": 128, "episodes": 2}}
    Session(algorithm(**options), tmp_path).run()
    with (tmp_path / "metrics.csv").open() as file:
        table = list(csv.DictReader(file))
    found = rows(tmp_path / "metrics.jsonl")
    assert len(table) == len(found)
    for line, row in zip(table, found, strict=True):
        for name, cell in line.items():
            value = row.get(name)
            assert (cell == "") if value is None else (float(cell) == value)
    assert "eval/return_mean" in table[0]


def test_csv_keeps_the_rows_of_before_when_a_run_is_resumed(tmp_path: Path) -> None:
    options = {"logger": {"csv": {"name": "csv"}}}
    Session(algorithm(256, **options), tmp_path).run()
    resumed(tmp_path, 512).run()
    with (tmp_path / "metrics.csv").open() as file:
        steps = [int(line["env_steps"]) for line in csv.DictReader(file)]
    assert steps == [r["env_steps"] for r in rows(tmp_path / "metrics.jsonl")]
    assert steps[0] == 64


def test_tensorboard_has_the_scalars_at_their_steps(tmp_path: Path) -> None:
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="tensorboard is optional"
    )
    Session(algorithm(logger={"tb": {"name": "tensorboard"}}), tmp_path).run()
    events = reader.EventAccumulator(str(tmp_path / "tb"))
    events.Reload()
    found = [r for r in rows(tmp_path / "metrics.jsonl") if "loss/value" in r]
    scalars = events.Scalars("loss/value")
    assert [s.step for s in scalars] == [r["env_steps"] for r in found]
    assert [s.value for s in scalars] == pytest.approx([r["loss/value"] for r in found])
    assert "env_steps" not in events.Tags()["scalars"]


def test_a_score_reached_in_an_evaluation_stops_the_run(tmp_path: Path) -> None:
    options = {"eval": {"every": 128, "episodes": 2}, "stop": {"score": 1.0}}
    outcome = Session(algorithm(**options), tmp_path).run()
    assert (outcome.reason, outcome.clock.env_steps) == ("score", 128)
    assert outcome.evaluation is not None
    assert read_checkpoint(resolve_checkpoint(tmp_path)).clock["env_steps"] == 128


def test_a_score_out_of_reach_stops_nothing(tmp_path: Path) -> None:
    options = {"eval": {"every": 128, "episodes": 2}, "stop": {"score": 501.0}}
    assert Session(algorithm(**options), tmp_path).run().reason == "total_steps"


def test_the_time_limit_stops_the_run(tmp_path: Path) -> None:
    begun = time.perf_counter()
    outcome = Session(algorithm(10**7, stop={"minutes": 0.01}), tmp_path).run()
    assert outcome.reason == "minutes"
    assert outcome.clock.env_steps < 10**7
    assert 0.6 < time.perf_counter() - begun < 10


def test_a_requested_stop_saves_at_once_and_evaluates_nothing(tmp_path: Path) -> None:
    made = algorithm(10**6)

    def progress(snapshot: Snapshot) -> None:
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


def test_an_evaluation_that_a_signal_cut_short_is_made_up_for_on_resuming(tmp_path: Path) -> None:
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
    resumed(tmp_path / "part", 256).run()
    whole, part = (rows(tmp_path / n / "metrics.jsonl") for n in ("whole", "part"))
    assert stable(whole) == stable(part)
    links = [(tmp_path / n / "checkpoints" / "best").readlink() for n in ("whole", "part")]
    assert links[0] == links[1]


def test_the_progress_callback_sees_every_tick(tmp_path: Path) -> None:
    seen: list[Snapshot] = []
    Session(algorithm(), tmp_path, seen.append).run()
    assert [s.now for s in seen] == list(range(64, 513, 64))
    assert {s.total for s in seen} == {512}
    assert seen[-1].seconds_left == 0
    assert all(s.steps_per_second > 0 for s in seen)


def test_a_broken_logger_warns_and_the_run_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Any, row: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("rlox.loggers.files.CsvSink.write", refuse)
    with pytest.warns(UserWarning, match="logger csv is incomplete: disk full"):
        outcome = Session(algorithm(logger={"csv": {"name": "csv"}}), tmp_path).run()
    assert outcome.reason == "total_steps"
    assert len(rows(tmp_path / "metrics.jsonl")) == 9


def test_a_working_logger_warns_of_nothing(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        outcome = Session(algorithm(logger={"csv": {"name": "csv"}}), tmp_path).run()
    assert outcome.checkpoint.is_dir()


def test_a_finished_run_that_is_resumed_only_evaluates_again(tmp_path: Path) -> None:
    first = Session(algorithm(), tmp_path).run()
    before = (tmp_path / "checkpoints" / "last" / "weights.safetensors").read_bytes()
    again = resumed(tmp_path, 512).run()
    assert again.clock == first.clock
    assert again.evaluation == first.evaluation
    assert (tmp_path / "checkpoints" / "last" / "weights.safetensors").read_bytes() == before


def test_a_run_stopped_off_the_logging_grid_logs_its_last_update(tmp_path: Path) -> None:
    options = {"log": {"every": 512}, "eval": {"every": 192, "episodes": 2}, "stop": {"score": 1.0}}
    Session(algorithm(**options), tmp_path).run()
    trained = [r["env_steps"] for r in rows(tmp_path / "metrics.jsonl") if "loss/value" in r]
    assert trained == [192]


def test_a_failing_run_closes_its_logs_with_every_row_written(tmp_path: Path) -> None:
    made = algorithm()

    def fail(snapshot: Snapshot) -> None:
        if snapshot.now == 192:
            with torch.no_grad():
                made.policy.actor[0].weight.fill_(float("nan"))

    with pytest.raises(ArithmeticError, match="not finite"):
        Session(made, tmp_path, fail).run()
    batch = load_file(tmp_path / "nonfinite_batch.safetensors")
    assert batch["obs"].shape == (17, 4, 4)
    assert np.isnan(batch["log_probs"]).any()
    assert [r["env_steps"] for r in rows(tmp_path / "metrics.jsonl")] == [64, 128, 192]
