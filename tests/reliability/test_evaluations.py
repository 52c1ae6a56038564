"""Tests evaluations in subprocesses: they give the scores of one process and replay failed episodes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from faults.deadlines import expire_for_hung
from faults.envs import Walk
from faults.processes import descendants, wait_until_ended
from faults.workers import FailsOnSeed
from helpers.cli import TINY, Cli, only_run
from helpers.small_ppo import SMALL_PPO
from helpers.waiting import PATIENCE

from rlox.algorithms import PPO, RecurrentPPO
from rlox.errors import EnvError
from rlox.training import evaluate

SEED = 100_000
IN_WORKERS: dict[str, Any] = {"workers": "subprocess", "worker_envs": 2}
Opened = Any


@pytest.fixture
def opened() -> Iterator[Opened]:
    made: list[Any] = []

    def make(source: Any, kind: Any = PPO, **options: Any) -> Any:
        small = SMALL_PPO if kind is PPO else {}
        made.append(kind(source, n_envs=2, seed=1, **small, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("kind", [PPO, RecurrentPPO])
@pytest.mark.parametrize("deterministic", [True, False])
def test_evaluating_in_worker_processes_gives_the_scores_of_one_process(
    kind: Any, deterministic: bool, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "MAX_PARALLEL_GYMNASIUM", 5)  # so that one place plays several episodes
    ways = {"env_backend": "gymnasium"}
    supervised = opened("CartPole-v1", kind, **ways, **IN_WORKERS)
    plain = opened("CartPole-v1", kind, **ways)
    given = {"episodes": 13, "deterministic": deterministic}
    assert supervised.evaluate(**given) == plain.evaluate(**given)


@pytest.mark.parametrize("way", ["raise", "exit", "sleep", pytest.param("abort", marks=pytest.mark.slow)])
def test_a_failed_episode_is_replayed_with_the_same_score(
    way: str, opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expire_for_hung(monkeypatch)
    before = set(descendants(os.getpid()))
    fated = partial(FailsOnSeed, way, tmp_path, SEED + 2, 2)
    supervised = opened(fated, max_restarts=2, step_timeout=PATIENCE, **IN_WORKERS)
    training = set(descendants(os.getpid()))
    found = supervised.evaluate(5, SEED)
    assert len(list(tmp_path.iterdir())) == 3
    assert found == opened(Walk).evaluate(5, SEED)
    supervised.close()
    assert set(descendants(os.getpid())) <= training
    assert wait_until_ended(sorted(training - before))


@pytest.mark.parametrize("way", ["raise", "exit"])
def test_an_episode_that_fails_too_often_is_an_error_with_the_traceback_of_its_process(
    way: str, opened: Opened, tmp_path: Path
) -> None:
    """The other episode of the process is lost equally often, but is not the one that failed."""
    fated = partial(FailsOnSeed, way, tmp_path, SEED + 1, 1 << 60)
    algorithm = opened(fated, max_restarts=2, **IN_WORKERS)
    said = {
        "raise": r"raised RuntimeError in step: a fault on purpose",
        "exit": "exited with code 3",
    }
    with pytest.raises(EnvError, match=said[way]) as raised:
        algorithm.evaluate(4, SEED)
    assert f"the episode of seed {SEED + 1} was lost 3 times" in str(raised.value)
    assert "env.max_restarts=2" in str(raised.value)
    if way == "raise":
        assert "in fail" in str(raised.value)


@pytest.fixture
def registered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("played")
    gym.register("Boom-v0", partial(FailsOnSeed, "raise", folder, SEED + 1, 1 << 60))
    gym.register("Dies-v0", partial(FailsOnSeed, "exit", folder, SEED + 1, 1))
    yield
    for name in ("Boom-v0", "Dies-v0"):
        gym.registry.pop(name)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("workers", ["sync", "subprocess"])
def test_an_evaluation_that_fails_ends_with_code_4_and_says_where(
    workers: str, cli: Cli, tmp_path: Path
) -> None:
    ended = cli("train", *TINY, "env=Boom-v0", f"env.workers={workers}", "eval.every=128")
    assert ended.code == 4
    assert "Boom-v0 (" in ended.err
    assert "raised RuntimeError in step: a fault on purpose" in ended.err
    run = only_run(tmp_path / "runs")
    log = (run / "log.txt").read_text()
    assert "in the evaluation at steps 128" in log
    assert "in fail" in log
    assert json.loads((run / "status.json").read_text())["status"] == "failed"
    if workers == "sync":
        assert f"evaluation episode of seed {SEED + 1}" in ended.err


@pytest.mark.usefixtures("registered")
def test_a_run_survives_an_environment_that_exits_during_evaluation(cli: Cli, tmp_path: Path) -> None:
    ended = cli("train", *TINY, "env=Dies-v0", "env.workers=subprocess")
    assert ended.code == 0
    assert "playing again the episodes of seeds" in (only_run(tmp_path / "runs") / "log.txt").read_text()


@pytest.mark.usefixtures("registered")
def test_an_environment_that_fails_when_a_saved_policy_is_played_ends_with_code_4(
    cli: Cli, tmp_path: Path
) -> None:
    assert cli("train", *TINY, "env=Boom-v0", "eval.seed=5").code == 0
    ended = cli("evaluate", str(only_run(tmp_path / "runs")), "episodes=3")
    assert ended.code == 4
    assert "raised RuntimeError in step: a fault on purpose" in ended.err
