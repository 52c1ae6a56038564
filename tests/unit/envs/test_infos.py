"""Tests that infos of environments reach sources, episodes, callbacks and logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers.envs import Countdown
from helpers.goal_env import FreshGoals, GoalLine, UnpicklableInfo
from numpy.typing import NDArray

from rlox.algorithms import PPO
from rlox.callbacks import Callback
from rlox.configs import EnvConfig
from rlox.envs.base import VectorEnv
from rlox.envs.make import make_vec
from rlox.errors import EnvError
from rlox.sources.episodes import RecentEpisodes
from rlox.types import Episode
from rlox_cli.main import main

SMALL: dict[str, Any] = {"n_envs": 2, "n_steps": 24, "n_epochs": 1, "batch_size": 24, "seed": 4}
WORKERS = pytest.mark.parametrize("workers", ["sync", "subprocess"])


def made(source: Any, workers: str, keep_infos: bool = False, **config: Any) -> VectorEnv:
    return make_vec(EnvConfig(n_envs=2, workers=workers, **config), 7, source, keep_infos)


class Steps:
    """Steps a vector with random actions and keeps its observations."""

    def __init__(self, vec: VectorEnv) -> None:
        self.vec, self.rng = vec, np.random.default_rng(1)
        self.obs = np.empty((2, vec.observations.dim), np.float32)
        vec.reset_into(self.obs)

    def step(self) -> tuple[Any, NDArray[np.bool_]]:
        rewards, flags = np.empty(2), np.empty((2, 2), np.bool_)
        finals = self.vec.step_into(self.rng.integers(0, 2, 2), self.obs, rewards, *flags)
        return finals, flags[0]


@WORKERS
def test_the_final_observation_of_an_episode_comes_with_the_info_of_its_step(
    workers: str,
) -> None:
    """The info stays as it was at that step, although the reset clears the environment's own."""
    vec = made(GoalLine, workers)
    try:
        steps, told = Steps(vec), []
        for _ in range(30):
            finals, terminated = steps.step()
            assert len(vec.infos) == 0
            for at, i in enumerate(() if finals is None else finals.envs):
                length = vec.observations.split(finals.obs[at])["observation"][1]
                info = finals.infos[at]
                assert info["is_success"] is bool(terminated[i])
                assert len(info["path"]) == length
                told.append((int(i), info["episode"]))
    finally:
        vec.close()
    assert sorted(told) == [(i, n + 1) for i in (0, 1) for n in range(len(told)) if (i, n + 1) in told]
    assert {(0, 1), (0, 2), (1, 1), (1, 2)} <= set(told)


@pytest.mark.parametrize(
    ("source", "workers"), [(GoalLine, "sync"), (FreshGoals, "sync"), (FreshGoals, "subprocess")]
)
def test_kept_infos_belong_to_the_rows_of_observations(source: Any, workers: str) -> None:
    vec = made(source, workers, keep_infos=True)
    try:
        steps = Steps(vec)
        assert list(vec.infos) == [{"episode": 1}, {"episode": 1}]
        resets = 0
        for _ in range(30):
            finals, _ = steps.step()
            begun = set() if finals is None else set(finals.envs.tolist())
            for i, info in enumerate(vec.infos):
                t, episode = vec.observations.split(steps.obs[i])["observation"][1:3]
                assert info["episode"] % 4 == episode
                assert (i in begun) == ("path" not in info)
                assert len(info.get("path", ())) == t
            resets += len(begun)
        assert resets > 4
    finally:
        vec.close()


def test_subprocesses_send_no_infos_of_steps_that_nobody_asked_for() -> None:
    vec = made(UnpicklableInfo, "subprocess")
    try:
        steps = Steps(vec)
        ended = [finals for finals, _ in (steps.step() for _ in range(6)) if finals is not None]
    finally:
        vec.close()
    assert [info for finals in ended for info in finals.infos] == [{"is_success": True}] * 6
    vec = made(UnpicklableInfo, "subprocess", keep_infos=True, max_restarts=0)
    with pytest.raises(EnvError, match="pickle"):
        Steps(vec).step()


def test_native_environments_give_no_infos() -> None:
    vec = make_vec(EnvConfig(id="CartPole-v1", n_envs=2), 7, keep_infos=True)
    steps = Steps(vec)
    finals = next(f for f in iter(lambda: steps.step()[0], 0) if f is not None)
    assert len(finals.infos) == len(vec.infos) == 0


class Seen(Callback):
    def __init__(self) -> None:
        self.episodes: list[Episode] = []
        self.again: list[Episode] = []
        self.rates: list[float | None] = []

    def on_rollout_end(self, **kwargs: Any) -> None:
        self.episodes += kwargs["episodes"]

    def on_step(self, **kwargs: Any) -> bool:
        self.again += kwargs["episodes"]
        self.rates.append(kwargs["metrics"].get("train/success_rate"))
        return True


@WORKERS
def test_callbacks_see_every_finished_episode_once_with_its_last_info(workers: str) -> None:
    seen = Seen()
    algorithm = PPO(GoalLine, callbacks=[seen], workers=workers, **SMALL)
    algorithm.train(480)
    algorithm.close()
    assert len(seen.episodes) == algorithm.recent.count > 50
    assert seen.again == seen.episodes
    for env in (0, 1):
        infos = [e.info for e in seen.episodes if e.env == env]
        assert [info["episode"] for info in infos if info] == list(range(1, len(infos) + 1))
    successes = [bool(e.info and e.info["is_success"]) for e in seen.episodes]
    assert [e.is_success for e in seen.episodes] == successes
    # only the goal gives a reward
    assert successes == [e.total_reward == 1.0 for e in seen.episodes]
    assert len(set(successes)) == 2
    assert seen.rates[-1] == np.mean(successes[-100:])


@pytest.mark.parametrize("source", ["CartPole-v1", Countdown])
def test_episodes_of_environments_without_goals_have_no_success(source: Any) -> None:
    seen = Seen()
    PPO(source, callbacks=[seen], **SMALL).train(192)
    assert seen.episodes
    assert {e.is_success for e in seen.episodes} == {None}
    assert {e.info is None for e in seen.episodes} == {source == "CartPole-v1"}
    assert set(seen.rates) == {None}


@pytest.mark.parametrize(
    ("told", "success"),
    [(True, True), (np.float32(0), False), (np.bool_(True), True), (1, True), (None, None)],
)
def test_an_episode_reads_is_success_as_a_flag_or_a_number(told: Any, success: bool | None) -> None:
    assert Episode(0, 0, 0.0, 1, {"is_success": told}).is_success is success


def test_the_success_rate_covers_the_last_hundred_reported_outcomes() -> None:
    recent = RecentEpisodes()
    assert recent.success_rate is None
    outcomes = [k % 3 == 0 for k in range(150)]
    recent.extend(Episode(0, 0, 0.0, 1, {"is_success": told}) for told in outcomes)
    recent.extend(Episode(0, 0, 0.0, 1, info) for info in (None, {}))
    assert recent.success_rate == np.mean(outcomes[-100:])
    again, older = RecentEpisodes(), RecentEpisodes()
    again.restore(json.loads(json.dumps(recent.state())))
    assert again.state() == recent.state()
    older.restore({k: v for k, v in recent.state().items() if k != "successes"})
    assert (older.success_rate, older.count) == (None, 152)


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def registered() -> Any:
    for name, made_by in {"Goals-v0": GoalLine, "Countdown-v0": Countdown}.items():
        gym.register(name, made_by)
    yield
    for name in ("Goals-v0", "Countdown-v0"):
        gym.registry.pop(name)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("env_id", ["Goals-v0", "Countdown-v0", "CartPole-v1"])
def test_the_logs_contain_success_only_if_the_environment_reports_it(env_id: str, tmp_path: Path) -> None:
    given = [f"env={env_id}", "env.n_envs=2", "algo.n_steps=24", "total_steps=240", "log.every=48"]
    run = tmp_path / "run"
    assert main(["train", "tuned=null", *given, "eval.episodes=2", f"hydra.run.dir={run}"]) == 0
    episodes = rows(run / "episodes.jsonl")
    metrics = [row for row in rows(run / "metrics.jsonl") if "train/episodes" in row]
    keys = {"env_steps", "env", "return", "length"}
    if env_id != "Goals-v0":
        assert {frozenset(e) for e in episodes} == {frozenset(keys)}
        assert not any("train/success_rate" in row for row in metrics)
        return
    assert {frozenset(e) for e in episodes} == {frozenset(keys | {"is_success"})}
    assert all(e["is_success"] is (e["return"] == 1.0) for e in episodes)
    for row in metrics:
        so_far = [e["is_success"] for e in episodes if e["env_steps"] <= row["env_steps"]]
        assert row["train/success_rate"] == np.mean(so_far[-100:])
