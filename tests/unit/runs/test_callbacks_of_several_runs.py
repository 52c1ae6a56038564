"""Tests callbacks that several runs use, and folders in which another run has saved."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

from rlox.algorithms import PPO
from rlox.callbacks import Callback, CheckpointCallback, EarlyStoppingCallback, EvalCallback
from rlox.errors import ConfigError

SMALL: dict[str, Any] = {
    "n_envs": 1, "n_steps": 8, "batch_size": 8, "n_epochs": 1, "net_arch": (4,), "backend": "native",
}  # fmt: skip


def make_ppo(*callbacks: Callback, **kwargs: Any) -> PPO:
    return PPO("CartPole-v1", callbacks=callbacks, **SMALL, **kwargs)


class PatienceCounter(EarlyStoppingCallback):
    """Adds one to its count of updates in each call."""

    def on_step(self, **kwargs: Any) -> bool:
        self.updates_without_gain += 1
        return True


def test_another_algorithm_resets_the_state_of_a_callback(tmp_path: Path) -> None:
    scored, saved, counted = EvalCallback(8, 1), CheckpointCallback(8, tmp_path), PatienceCounter()
    make_ppo(scored, saved, counted).train(16)
    first = scored.eval_results
    saved.path = tmp_path / "second"
    make_ppo(scored, saved, counted, seed=2).train(8)
    assert [step for step, _ in first] == [8, 16]
    assert [step for step, _ in scored.eval_results] == [8]
    assert [p.name for p in saved.path.iterdir()] == ["step-000000000008"]
    assert counted.updates_without_gain == 1


def test_a_callback_goes_on_in_further_training_of_its_algorithm(tmp_path: Path) -> None:
    scored, counted = EvalCallback(8, 1), PatienceCounter()
    run = make_ppo(scored, counted)
    run.train(8)
    run.train(16)
    assert [step for step, _ in scored.eval_results] == [8, 16]
    assert counted.updates_without_gain == 2
    run.save(tmp_path / "saved")
    again = EvalCallback(8, 1), PatienceCounter()
    PPO.from_checkpoint(tmp_path / "saved", callbacks=again).train(24)
    assert [step for step, _ in again[0].eval_results] == [8, 16, 24]
    assert again[1].updates_without_gain == 3


def test_a_callback_of_a_trained_run_restores_a_checkpoint_and_goes_on_from_that(
    tmp_path: Path,
) -> None:
    counted = PatienceCounter()
    run = make_ppo(counted)
    run.train(8)
    run.save(tmp_path / "saved")
    run.train(24)
    PPO.from_checkpoint(tmp_path / "saved", callbacks=counted).train(16)
    assert counted.updates_without_gain == 2


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda of: pickle.loads(pickle.dumps(of))])
def test_a_copy_of_a_trained_callback_begins_anew(copied: Any) -> None:
    counted = PatienceCounter()
    make_ppo(counted).train(24)
    again = copied(counted)
    assert again.updates_without_gain == 3
    make_ppo(again).train(8)
    assert again.updates_without_gain == 1


def make_saver(kind: str, folder: Path) -> Callback:
    return EvalCallback(8, 1, folder) if kind == "best" else CheckpointCallback(8, folder)


@pytest.mark.parametrize("kind", ["best", "steps"])
def test_a_folder_with_a_checkpoint_of_another_run_is_refused_before_the_first_step(
    kind: str, tmp_path: Path
) -> None:
    folder = tmp_path / "kept"
    make_ppo(make_saver(kind, folder)).train(8)
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    other = make_ppo(make_saver(kind, folder), seed=7, gamma=0.5)
    told = r"kept.* is a checkpoint of another run \(algo.gamma=0.99 there and 0.5 here, seed=42 there"
    with pytest.raises(ConfigError, match=told):
        other.train(8)
    assert other.clock.now == 0
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize("kind", ["best", "steps"])
def test_a_run_may_save_into_the_folder_of_a_run_with_its_settings(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    run = make_ppo(make_saver(kind, folder))
    run.train(8)
    run.train(16)
    run.save(tmp_path / "saved")
    make_ppo(make_saver(kind, folder)).train(24)
    on = PPO.from_checkpoint(tmp_path / "saved", callbacks=make_saver(kind, folder))
    assert on.train(24)["env_steps"] == 24


def test_any_run_may_save_into_a_folder_without_a_whole_checkpoint(tmp_path: Path) -> None:
    make_ppo(CheckpointCallback(8, tmp_path)).train(8)
    (tmp_path / "step-000000000008" / "manifest.json").unlink()
    (tmp_path / "step-000000000008").rename(tmp_path / "step-000000000004")
    assert make_ppo(CheckpointCallback(8, tmp_path), seed=7).train(8)["env_steps"] == 8
