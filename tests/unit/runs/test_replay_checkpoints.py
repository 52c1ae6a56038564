"""Tests the rows of a replay buffer in a run folder: checkpoints share, prune and restore them."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from rlox._core import PrioritizedReplayBuffer
from rlox.algorithms import DQN
from rlox.build import build, resume
from rlox.configs import RunConfig, make_run
from rlox.errors import CheckpointError, ConfigError, StorageError
from rlox.loggers import read_rows
from rlox.runs.checkpoint import read_checkpoint, resolve_checkpoint, write_checkpoint
from rlox.runs.session import Session
from rlox.sources.store import InMemoryStore, NullStore, SegmentStore


def config(total: int = 400, **more: Any) -> RunConfig:
    return make_run(
        {
            "algo": {
                "name": "dqn", "learning_starts": 50, "train_freq": 8, "gradient_steps": 2,
                "batch_size": 8, "net_arch": [8], "prioritized": True, "exploration_fraction": 1e-6,
                "target_update_interval": 40,
            },
            "buffer": {"name": "prioritized", "capacity": 256, "beta": 1.0},  # constant beta
            "env": {"id": "CartPole-v1", "n_envs": 2},
            "eval": {"episodes": 2},
            "checkpoint": {"every": 100, "keep": 2},
            "total_steps": total,
            **more,
        }
    )  # fmt: skip


def train(run: Path, settings: RunConfig) -> Any:
    run.mkdir(exist_ok=True)
    algorithm = build(settings)
    Session(algorithm, run).run()
    return algorithm


def rows(algorithm: Any) -> dict[str, bytes]:
    """Returns every byte of the buffer, including priorities and the state of its draws."""
    state = algorithm.source.save(InMemoryStore())["buffer"]["rows"]
    return {k: np.asarray(v).tobytes() for k, v in state.items()}


def saves(run: Path) -> list[str]:
    return sorted(p.stem for p in (run / "replay").glob("*.manifest"))


def test_each_kept_checkpoint_has_exactly_one_save_of_the_replay_buffer(
    tmp_path: Path,
) -> None:
    train(tmp_path, config())
    kept = sorted(p.name for p in (tmp_path / "checkpoints").glob("step-*"))
    assert len(kept) == 2
    assert [name.rpartition("-")[0] for name in saves(tmp_path)] == kept
    manifests = [json.loads((tmp_path / "checkpoints" / k / "manifest.json").read_text()) for k in kept]
    assert [m["replay"] for m in manifests] == saves(tmp_path)


def test_every_kept_checkpoint_brings_back_the_rows_of_its_moment(tmp_path: Path) -> None:
    train(tmp_path, config())
    first, last = sorted((tmp_path / "checkpoints").glob("step-*"))
    early, late = DQN.from_checkpoint(first), DQN.from_checkpoint(last)
    assert early.source.replay_sampler.buffer.n_pushed == early.clock.env_steps < 400
    early.fit(400)
    assert rows(early) == rows(late)


def test_a_run_that_goes_on_has_the_rows_of_one_never_stopped(tmp_path: Path) -> None:
    half, whole = tmp_path / "half", tmp_path / "whole"
    train(half, config(200))
    algorithm, saved = resume(half, config(400))
    assert algorithm.source.resume_warning(saved.state["source"]) == ""  # type: ignore[union-attr]
    Session(algorithm, half, resume_checkpoint=saved).run()
    assert rows(algorithm) == rows(train(whole, config(400)))


def test_save_writes_the_rows_into_the_checkpoint_unless_replay_is_false(
    tmp_path: Path,
) -> None:
    algorithm = train(tmp_path / "run", config())
    algorithm.save(tmp_path / "with")
    algorithm.save(tmp_path / "without", replay=False)
    assert rows(DQN.from_checkpoint(tmp_path / "with")) == rows(algorithm)
    alone = DQN.from_checkpoint(tmp_path / "without")
    assert len(alone.source.replay_sampler.buffer) == 0
    obs = np.ones(4, np.float32)
    assert alone.predict(obs) == algorithm.predict(obs)
    alone.train(600)  # fills the buffer first
    assert len(alone.source.replay_sampler.buffer) == 200


def test_a_checkpoint_taken_out_of_its_run_plays_and_says_why_it_does_not_train(
    tmp_path: Path,
) -> None:
    algorithm = train(tmp_path / "run", config())
    moved = tmp_path / "moved"
    resolve_checkpoint(tmp_path / "run").rename(moved)
    with pytest.raises(CheckpointError, match=r"replay/ folder of its run.*replay=False"):
        DQN.from_checkpoint(moved)
    played = DQN.from_checkpoint(moved, replay=False)
    assert played.evaluate(2).returns == algorithm.evaluate(2).returns


def test_rows_that_are_damaged_send_a_resume_to_the_checkpoint_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    train(tmp_path, config())
    first, last = saves(tmp_path)
    path = tmp_path / "replay" / f"{last}.manifest"
    path.write_bytes(path.read_bytes()[:-7])
    _, saved = resume(tmp_path, config(600))
    assert saved is not None and saved.replay is not None
    assert saved.replay.name == first
    assert "passing over" in caplog.text
    (tmp_path / "replay" / f"{first}.manifest").unlink()
    with pytest.raises(CheckpointError):
        resume(tmp_path, config(600))


def test_the_rows_of_another_checkpoint_are_refused(tmp_path: Path) -> None:
    train(tmp_path, config())
    first, last = saves(tmp_path)
    folder = tmp_path / "replay"
    (folder / f"{last}.manifest").write_bytes((folder / f"{first}.manifest").read_bytes())
    with pytest.raises(CheckpointError, match="belongs to another checkpoint"):
        DQN.from_checkpoint(tmp_path)


def test_several_stops_within_one_environment_step_resume_exactly(tmp_path: Path) -> None:
    algo = {"name": "dqn", "learning_starts": 10, "train_freq": 200, "gradient_steps": 4,
            "batch_size": 8, "net_arch": [8]}  # fmt: skip
    settings = config(algo=algo, buffer={"name": "prioritized", "capacity": 256})
    expected = train(tmp_path / "whole", settings)
    run = tmp_path / "stopped"
    run.mkdir()
    for updates in (2, 3, 6):  # two stops within one environment step
        algorithm, saved = resume(run, settings)
        session = Session(algorithm, run, resume_checkpoint=saved)

        def stop(clock: Any, *_: Any, at: int = updates, running: Session = session) -> None:
            if clock.updates >= at:
                running.request_stop("signal")

        session._on_progress = lambda now, a=algorithm, s=stop: s(a.clock)
        assert session.run().reason == "signal"
        assert algorithm.clock.updates == updates
    algorithm, saved = resume(run, settings)
    Session(algorithm, run, resume_checkpoint=saved).run()
    assert rows(algorithm) == rows(expected)
    assert algorithm.clock == expected.clock


def test_refused_rows_are_saved_later_with_their_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []
    keep = SegmentStore.save

    def sometimes(self: SegmentStore, buffer: Any) -> Any:
        if len(refused) < 2:
            refused.append(self.name)
            raise StorageError(errno.ENOSPC, "full")
        return keep(self, buffer)

    monkeypatch.setattr(SegmentStore, "save", sometimes)
    monkeypatch.setattr("rlox.runs.saver.RETRY_SECONDS", 0.0)
    algorithm = train(tmp_path, config())
    assert len(set(refused)) == 2
    assert rows(DQN.from_checkpoint(tmp_path)) == rows(algorithm)


def test_the_best_policy_is_saved_without_rows_if_the_disk_refuses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep = SegmentStore.save

    def refuse_the_first(self: SegmentStore, buffer: Any) -> Any:
        if self.name.startswith("step-000000000104"):
            raise StorageError(errno.ENOSPC, "full")
        return keep(self, buffer)

    monkeypatch.setattr(SegmentStore, "save", refuse_the_first)
    monkeypatch.setattr("rlox.runs.saver.RETRY_SECONDS", 0.0)
    scores = iter([9.0, 1.0, 1.0, 1.0])
    monkeypatch.setattr("rlox.training.evaluate.Evaluation.mean", property(lambda self: next(scores, 1.0)))
    train(tmp_path, config(eval={"every": 100, "episodes": 1}))
    best = read_checkpoint((tmp_path / "checkpoints" / "best").resolve())
    assert best.clock["env_steps"] == 104
    assert best.replay is None
    assert len(DQN.from_checkpoint(tmp_path / "checkpoints" / "best").source.replay_sampler.buffer) == 0


def test_a_buffer_beyond_memory_is_refused_for_training_but_not_for_playing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(tmp_path, config())
    monkeypatch.setattr("rlox.runs.preflight.available_memory", lambda root=None: 4000)
    made: list[int] = []

    def prioritized(capacity: int, **options: Any) -> PrioritizedReplayBuffer:
        made.append(capacity)
        return PrioritizedReplayBuffer(capacity, **options)

    with (
        monkeypatch.context() as patched,
        pytest.raises(ConfigError, match=r"a replay buffer of 256 transitions needs .*lower buffer"),
    ):
        patched.setattr("rlox.sources.sampling.PrioritizedReplayBuffer", prioritized)
        build(config())
    assert 256 not in made  # a prioritized buffer takes memory for every row at its construction
    assert DQN.from_checkpoint(tmp_path, replay=False).evaluate(1).returns


@pytest.mark.parametrize(("memory", "least"), [("100kB", 2000), ("1MiB", 20_000), ("5e5", 10_000)])
def test_a_replay_buffer_fills_but_never_exceeds_its_memory_in_bytes(memory: str, least: int) -> None:
    algorithm: Any = build(config(buffer={"name": "prioritized", "memory": memory}))
    memory_of = algorithm.source.replay_sampler
    given = {"100kB": 100_000, "1MiB": 1 << 20, "5e5": 500_000}[memory]
    assert memory_of.full_bytes <= given < 1.1 * memory_of.full_bytes
    assert memory_of.buffer.capacity > least


class InMidTraining:
    """Stops at the first batch after the training that ends at `step`; further batches follow."""

    def __init__(self, algorithm: Any, step: int) -> None:
        self.algorithm, self.step, self.batches = algorithm, step, 0

    def __call__(self, snapshot: Any) -> None:
        if snapshot.now == self.step:
            self.batches += 1
            if self.batches == 2:
                self.algorithm.stop("callback")


def test_a_stop_within_a_training_leaves_the_best_policy_of_that_step_alone(tmp_path: Path) -> None:
    settings = config(eval={"every": 100, "episodes": 2})
    algorithm = build(settings)
    session = Session(algorithm, tmp_path, InMidTraining(algorithm, 104))
    session.run()
    best = read_checkpoint(resolve_checkpoint(tmp_path, "best"))
    last = read_checkpoint(resolve_checkpoint(tmp_path, "last"))
    assert best.clock["env_steps"] == last.clock["env_steps"] == 104
    assert best.clock["updates"] == last.clock["updates"] - 1
    evaluated = [r for r in read_rows(tmp_path / "metrics.jsonl") if "eval/return_mean" in r]
    assert next(r["updates"] for r in evaluated) == best.clock["updates"]
    assert resolve_checkpoint(tmp_path, "last").name == f"step-{104:012d}-{last.clock['updates']:012d}"


def test_a_run_stopped_within_a_training_ends_like_one_never_stopped(tmp_path: Path) -> None:
    half, whole = tmp_path / "half", tmp_path / "whole"
    half.mkdir()
    settings = config(eval={"every": 100, "episodes": 2}, checkpoint={"every": 10_000, "keep": 1})
    first = build(settings)
    Session(first, half, InMidTraining(first, 104)).run()
    algorithm, saved = resume(half, settings)
    assert saved is not None and saved.clock["updates"] == first.clock.updates
    Session(algorithm, half, resume_checkpoint=saved).run()
    other = train(whole, settings)
    assert rows(algorithm) == rows(other)
    mine, theirs = algorithm.policy.state_dict(), other.policy.state_dict()
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs)


def test_a_resume_finds_a_checkpoint_whose_replacement_was_killed(tmp_path: Path) -> None:
    train(tmp_path, config(checkpoint={"every": 100, "keep": 1}))
    root = tmp_path / "checkpoints"
    (only,) = root.glob("step-*")
    only.rename(root / f".{only.name}.old")
    algorithm, saved = resume(tmp_path, config(600, checkpoint={"every": 10_000, "keep": 1}))
    assert saved is not None and saved.clock["env_steps"] == 400
    assert resolve_checkpoint(tmp_path).name == f".{only.name}.old"
    Session(algorithm, tmp_path, resume_checkpoint=saved).run()
    assert [p.name for p in root.glob("*step-*")] == [f"step-{600:012d}"]


def test_a_resume_prefers_an_older_checkpoint_with_rows_to_a_newer_one_without(tmp_path: Path) -> None:
    algorithm = train(tmp_path, config())
    earlier = sorted((tmp_path / "checkpoints").glob("step-*"))[0]
    newest = resolve_checkpoint(tmp_path)
    write_checkpoint(newest, algorithm.checkpoint(store=NullStore()))  # a full disk left it so
    algorithm, saved = resume(tmp_path, config())
    assert saved is not None and saved.clock == read_checkpoint(earlier).clock
    shutil.rmtree(earlier)
    algorithm, saved = resume(tmp_path, config())
    assert saved is not None and saved.clock["env_steps"] == 400
    assert len(algorithm.source.replay_sampler.buffer) == 0
    assert "rows were not saved" in algorithm.source.resume_warning(saved.state["source"])
