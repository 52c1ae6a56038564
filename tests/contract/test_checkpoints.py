"""Tests that a checkpoint has all that a continuation needs, and that a damaged checkpoint never loads."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.envs import Countdown, OddRewards
from safetensors.numpy import load, save

from rlox.algorithms import PPO
from rlox.errors import CheckpointError, RloxError, StorageError
from rlox.runs.checkpoint import Checkpoint, read_checkpoint, resolve_checkpoint, write_checkpoint
from rlox.runs.checkpoint_store import CheckpointStore

NORMALISED = {"normalize_obs": True, "normalize_reward": True}


def ppo(**options: Any) -> PPO:
    made = {"n_envs": 4, "seed": 2, "n_steps": 50, "n_epochs": 2, "anneal_lr": True}
    return PPO(**{**made, **NORMALISED, **options})


def small(tmp_path: Path) -> Path:
    algorithm = ppo(net_arch=(4,))
    algorithm.train(200)
    algorithm.save(tmp_path / "saved")
    return tmp_path / "saved"


FILES = [
    "manifest.json",
    "state.json",
    "weights.safetensors",
    "optimizer.safetensors",
    "state.safetensors",
]


def test_a_checkpoint_is_the_documented_files(tmp_path: Path) -> None:
    folder = small(tmp_path)
    assert sorted(p.name for p in folder.iterdir()) == sorted(FILES)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["clock"]["env_steps"] == 200
    assert set(manifest["files"]) == set(FILES[1:])
    assert [p.name for p in tmp_path.iterdir()] == ["saved"]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["truncated", "flipped", "emptied", "longer", "missing", "a link"])
def test_damage_to_any_file_is_refused(name: str, damage: str, tmp_path: Path) -> None:
    folder = small(tmp_path)
    path, data = folder / name, (folder / name).read_bytes()
    places = [len(data) // 7 * k for k in range(7)] if damage == "flipped" else [0]
    for at in places:
        if damage == "truncated":
            path.write_bytes(data[: len(data) // 2])
        elif damage == "flipped":
            path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        elif damage == "emptied":
            path.write_bytes(b"")
        elif damage == "longer":
            path.write_bytes(data + b"{}")
        else:
            path.unlink()
            if damage == "a link":
                (tmp_path / "elsewhere").write_bytes(data + b" ")
                path.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(CheckpointError, match="saved"):
            PPO.from_checkpoint(folder)


def test_a_changed_clock_in_the_manifest_is_refused(tmp_path: Path) -> None:
    path = small(tmp_path) / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["clock"]["env_steps"] = 300
    path.write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match=r"manifest\.json"):
        PPO.from_checkpoint(path.parent)


@pytest.mark.parametrize("content", [b"[]", b"null", b"{}", b'{"format": 1}', b"[" * 100_000, b"\xff"])
def test_a_manifest_of_nonsense_is_refused(content: bytes, tmp_path: Path) -> None:
    folder = small(tmp_path)
    (folder / "manifest.json").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"manifest\.json"):
        read_checkpoint(folder)


def test_loading_a_folder_without_a_checkpoint_explains_what_is_missing(
    tmp_path: Path,
) -> None:
    with pytest.raises(CheckpointError, match="is it a run folder"):
        PPO.from_checkpoint(tmp_path)
    with pytest.raises(CheckpointError, match=r"no manifest\.json"):
        read_checkpoint(tmp_path)


def test_a_checkpoint_of_another_shape_is_refused(tmp_path: Path) -> None:
    saved = read_checkpoint(small(tmp_path))
    with pytest.raises(CheckpointError, match="does not fit"):
        ppo(net_arch=(5,)).restore(saved)
    with pytest.raises(CheckpointError, match="does not fit"):
        ppo(net_arch=(4,)).restore(replace(saved, state={**saved.state, "source": {}}))


def test_loading_a_checkpoint_never_unpickles_any_data(tmp_path: Path) -> None:
    folder, seen = small(tmp_path), []
    watching = [True]

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if watching and event.startswith("pickle."):
            seen.append(args)

    sys.addaudithook(hook)
    PPO.from_checkpoint(folder).train(400)
    watching.clear()
    assert seen == []


def test_arrays_are_plain_safetensors_under_the_parameters_names(tmp_path: Path) -> None:
    folder = small(tmp_path)
    arrays = load((folder / "weights.safetensors").read_bytes())
    policy = PPO.from_checkpoint(folder).policy
    assert set(arrays) == set(policy.state_dict())
    assert all(np.array_equal(arrays[k], v.numpy()) for k, v in policy.state_dict().items())
    assert (folder / "weights.safetensors").read_bytes() == save(arrays)


def test_saving_twice_writes_the_same_bytes(tmp_path: Path) -> None:
    algorithm = ppo()
    algorithm.train(200)
    for name in ("a", "b", "b"):
        algorithm.save(tmp_path / name)
    for name in FILES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_saving_never_replaces_other_files_or_folders(kind: str, tmp_path: Path) -> None:
    target = tmp_path / "mine"
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "thesis.txt").write_text("years of work")
    if kind == "folder":
        (tmp_path / "notes").rename(target)
    elif kind == "file":
        target.write_text("years of work")
    else:
        target.symlink_to("notes")
    before = sorted(str(p) for p in tmp_path.rglob("*"))
    with pytest.raises(StorageError, match=r"mine.*not a checkpoint"):
        ppo().save(target)
    assert sorted(str(p) for p in tmp_path.rglob("*")) == before


def at_step(saved: Checkpoint, step: int) -> Checkpoint:
    return replace(saved, clock={**saved.clock, "env_steps": step})


def test_the_store_keeps_the_newest_and_the_best_with_relative_links(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "run" / "checkpoints", keep=2)
    saved = ppo(net_arch=(4,)).checkpoint()
    for step in (10, 20, 30, 40):
        store.save(at_step(saved, step), best=step == 10)
    names = sorted(p.name for p in store.root.iterdir())
    kept = [f"step-{step:012d}" for step in (10, 30, 40)]
    assert names == ["best", "last", *kept]
    assert (store.root / "last").readlink() == Path(kept[2])
    assert (store.root / "best").readlink() == Path(kept[0])
    moved = (tmp_path / "run").rename(tmp_path / "moved")
    for name, step in (("last", 40), ("best", 10), (kept[1], 30)):
        assert read_checkpoint(resolve_checkpoint(moved, name)).clock["env_steps"] == step
    with pytest.raises(CheckpointError, match="it has step-000000000010"):
        resolve_checkpoint(moved, "step-000000000020")


def test_best_is_last_when_nothing_was_evaluated(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoints", keep=1)
    store.save(ppo(net_arch=(4,)).checkpoint())
    assert resolve_checkpoint(tmp_path, "best") == resolve_checkpoint(tmp_path, "last")


def test_a_checkpoint_of_an_environment_object_needs_it_to_load_and_resume(tmp_path: Path) -> None:
    algorithm = PPO(OddRewards, n_envs=2, n_steps=16, **NORMALISED)  # type: ignore[arg-type]
    algorithm.train(64)
    algorithm.save(tmp_path / "saved")
    with pytest.raises(RloxError, match="env_id"):
        PPO.from_checkpoint(tmp_path / "saved")
    loaded = PPO.from_checkpoint(tmp_path / "saved", OddRewards)
    assert loaded.evaluate(3) == algorithm.evaluate(3)
    assert loaded.train(128)["env_steps"] == 128


def test_a_resumed_gymnasium_run_starts_new_episodes_with_new_seeds(
    tmp_path: Path,
) -> None:
    algorithm = PPO(lambda: Countdown((50,)), n_envs=2, n_steps=16, seed=4, **NORMALISED)  # type: ignore[arg-type]
    algorithm.train(64)
    algorithm.save(tmp_path / "saved")
    made: list[Countdown] = []

    def factory() -> Countdown:
        made.append(Countdown((50,)))
        return made[-1]

    loaded = PPO.from_checkpoint(tmp_path / "saved", factory)
    assert loaded.collector.reward_normalizer is not None
    assert not loaded.collector.reward_normalizer.returns.any()
    loaded.train(128)
    seeds = [env.seeds[0] for env in made]
    assert len(set(seeds)) == 2
    assert not {4, 5} & set(seeds)


def test_a_run_trained_on_an_object_can_go_on_with_an_id(tmp_path: Path) -> None:
    import gymnasium as gym

    algorithm = PPO(lambda: gym.make("CartPole-v1"), n_envs=2, n_steps=16)
    algorithm.train(64)
    algorithm.save(tmp_path / "saved")
    assert PPO.from_checkpoint(tmp_path / "saved", "CartPole-v1").train(128)["env_steps"] == 128


def test_an_unsupported_leaf_is_refused_by_name(tmp_path: Path) -> None:
    saved = ppo(net_arch=(4,)).checkpoint()
    with pytest.raises(CheckpointError, match="cannot save set at odd"):
        write_checkpoint(tmp_path / "x", replace(saved, state={"odd": {1, 2}}))


def test_a_large_state_loads_unless_memory_is_too_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    episodes = [[step, step % 8, 1.5, 7, None] for step in range(60_000)]
    saved = replace(ppo(net_arch=(4,)).checkpoint(), state={"episodes": episodes})
    write_checkpoint(tmp_path / "x", saved)
    assert (tmp_path / "x" / "state.json").stat().st_size > 3 << 20
    assert read_checkpoint(tmp_path / "x").state["episodes"] == episodes
    monkeypatch.setattr("rlox.runs.checkpoint.available_memory", lambda: 1 << 20)
    with pytest.raises(CheckpointError, match=r"state\.json.* of memory"):
        read_checkpoint(tmp_path / "x")
