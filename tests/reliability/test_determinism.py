"""Tests that equal seeds give equal bytes for any number of threads, from Python and the command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from faults.cases import CASES, UPDATES
from faults.child import ChildServer
from faults.fingerprint import difference, fingerprint
from faults.report import record
from helpers.selection import FULL
from helpers.waiting import PATIENCE

from rlox.algorithms import PPO

PARALLEL_FROM = 16_384  # rust/rlox-core/src/env/vec_env.rs: smaller batches use one thread


def config(seed: int = 1, **env: Any) -> dict[str, Any]:
    """Configure five updates of one epoch, with enough environments for several threads."""
    algo = {"n_steps": 2, "n_epochs": 1, "net_arch": [8], "batch_size": PARALLEL_FROM}
    return {
        "algo": {"name": "ppo", **algo},
        "env": {"id": "CartPole-v1", "n_envs": PARALLEL_FROM, **env},
        "seed": seed,
        "total_steps": 5 * 2 * PARALLEL_FROM,
        "log": {"every": 1},
        "eval": {"episodes": 1},
        "device": "cpu",
    }


@pytest.fixture(scope="module")
def nursery() -> Iterator[ChildServer]:
    with ChildServer() as made:
        yield made


@pytest.fixture(scope="module")
def reference(nursery: ChildServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    run = tmp_path_factory.mktemp("reference")
    assert nursery.run(run, config(), environ={"RAYON_NUM_THREADS": "1"}) == 0
    return fingerprint(run)


@pytest.mark.parametrize("threads", [1, 2, 7, *([16] if FULL else [])])
def test_the_number_of_rayon_threads_changes_nothing(
    threads: int, nursery: ChildServer, reference: dict[str, Any], tmp_path: Path
) -> None:
    count = tmp_path / "threads.txt"
    options = {"environ": {"RAYON_NUM_THREADS": str(threads)}, "threads": str(count)}
    assert nursery.run(tmp_path / "run", config(), **options) == 0
    assert difference(fingerprint(tmp_path / "run"), reference) == []
    # else this test would compare one thread with itself
    assert int(count.read_text()) >= (threads if threads > 1 else 1)
    record(f"determinism, {threads} rayon threads", {"updates": 5, "mismatches": 0})


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("n_envs", [1, 7])
def test_a_thread_task_for_every_environment_changes_nothing(
    env_id: str, n_envs: int, nursery: ChildServer, tmp_path: Path
) -> None:
    few = config(id=env_id, n_envs=n_envs) | {"total_steps": 40 * n_envs}
    few["algo"] = few["algo"] | {"batch_size": 8, "n_steps": 8}
    assert nursery.run(tmp_path / "plain", few) == 0
    expected = fingerprint(tmp_path / "plain")
    for threads in (1, 2, 7):
        environ = {"RAYON_NUM_THREADS": str(threads)}
        forced = {"tiling": {"shard": 1, "parallel_from": 1}, "environ": environ}
        run = tmp_path / f"forced{threads}"
        assert nursery.run(run, few, **forced) == 0
        assert difference(fingerprint(run), expected) == []
    record(f"determinism, parallel from 1, {n_envs} {env_id}", {"threads": 3, "mismatches": 0})


LEARNERS = sorted(CASES.keys() - {"256 CartPoles", "Gymnasium's CartPole", "BC"})


@pytest.mark.parametrize("case", LEARNERS if FULL else ["SAC", "Rainbow", "Recurrent PPO"])
def test_sharing_environments_among_threads_changes_no_result(
    case: str, nursery: ChildServer, tmp_path: Path
) -> None:
    found = {}
    for threads in (1, 2, 7):
        environ = {"RAYON_NUM_THREADS": str(threads)}
        forced = {"tiling": {"shard": 1, "parallel_from": 1}, "environ": environ}
        run = tmp_path / str(threads)
        assert nursery.run(run, CASES[case], **forced) == 0
        found[threads] = fingerprint(run)
    assert difference(found[2], found[1]) == []
    assert difference(found[7], found[1]) == []
    record(f"determinism, rayon threads 1, 2, 7, {case}", {"updates": UPDATES, "mismatches": 0})


def test_another_seed_gives_another_run(
    nursery: ChildServer, reference: dict[str, Any], tmp_path: Path
) -> None:
    assert nursery.run(tmp_path, config(seed=2)) == 0
    differing = difference(fingerprint(tmp_path), reference)
    assert {"weights.safetensors", "state.safetensors", "metrics.jsonl"} <= set(differing)


SMALL: dict[str, Any] = {"n_steps": 16, "n_epochs": 2, "batch_size": 32, "net_arch": (16,)}


def trained(folder: Path, caller_threads: int) -> bytes:
    """Train with the façade in a program with this number of torch threads; return the weights' bytes."""
    before = torch.get_num_threads()
    torch.set_num_threads(caller_threads)
    try:
        algorithm = PPO("CartPole-v1", n_envs=4, seed=11, **SMALL)
        algorithm.train(640)
        assert torch.get_num_threads() == caller_threads
        algorithm.save(folder)
    finally:
        torch.set_num_threads(before)
    return (folder / "weights.safetensors").read_bytes()


def test_the_callers_torch_threads_change_nothing(tmp_path: Path) -> None:
    results = [trained(tmp_path / str(n), n) for n in (1, 2, 5)]
    assert results == results[:1] * 3


def test_python_and_the_command_line_train_the_same_weights(tmp_path: Path) -> None:
    algo = [f"algo.{k}={str(list(v) if k == 'net_arch' else v).replace(' ', '')}" for k, v in SMALL.items()]
    command = [sys.executable, "-m", "rlox_cli.main", "train", "tuned=null", "env=CartPole-v1",
               "env.n_envs=4", "seed=11", "total_steps=640", "eval.episodes=1", "run_root=runs",
               *algo]  # fmt: skip
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=2 * PATIENCE)
    (found,) = tmp_path.glob("runs/*/*/*/checkpoints/last/weights.safetensors")
    assert found.read_bytes() == trained(tmp_path / "python", 3)
