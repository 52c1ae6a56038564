"""Tests that a dead, hung or lying environment costs one episode: rlox counts each loss and joins nothing."""

from __future__ import annotations

import json
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from faults.deadlines import expire_for_hung
from faults.processes import descendants, wait_until_ended
from faults.report import record
from faults.workers import HANGS, CounterEnv, CountingCrashingEnv
from helpers.selection import FULL
from helpers.waiting import PATIENCE

from rlox.algorithms import DQN, PPO
from rlox.configs import EnvConfig
from rlox.envs.make import make_vec
from rlox.types import Rollout
from rlox_cli.main import main

N = 8
STEPS = 500_000 if FULL else 24_000
HUNG = 100 if FULL else 6
# the short run has more failures, so that some happen
CHANCES = {"p_raise": 1e-3, "p_kill": 1e-4 if FULL else 5e-4}
ONE_EACH: dict[str, Any] = {"workers": "subprocess", "worker_envs": 1}


class Losses:
    """Steps a vector of environments and checks its reports about each step."""

    def __init__(self, vec: Any) -> None:
        self.vec = vec
        self.lost = self.restarts = self.finished = self.joined = self.steps = 0
        self.obs = np.zeros((vec.n_envs, 3), np.float32)
        self.rewards, self.flags = np.zeros(vec.n_envs), np.zeros((2, vec.n_envs), np.bool_)
        vec.reset_into(self.obs)
        self.seen_lives = {(i, float(life)) for i, life in enumerate(self.obs[:, 0])}

    def step(self) -> None:
        """Step once: [life, episode, step] continues in each environment, or the vector says why not."""
        before = self.obs.copy()
        actions = np.zeros(self.vec.n_envs, np.int64)
        finals = self.vec.step_into(actions, self.obs, self.rewards, *self.flags)
        self.steps += self.vec.n_envs
        after, others = self.obs.copy(), np.ones(self.vec.n_envs, np.bool_)
        if finals is not None:
            after[finals.envs] = finals.obs
            others[finals.lost_envs] = False
            self.lost += len(finals.lost_envs)
            self.restarts += finals.restarts
            self.finished += len(finals.envs)
            fresh = {(int(i), float(self.obs[i, 0])) for i in finals.lost_envs}
            self.joined += len(fresh & self.seen_lives)
            self.seen_lives |= fresh
        went_on = (after[:, :2] == before[:, :2]).all(1) & (after[:, 2] == before[:, 2] + 1)
        self.joined += int((~went_on & others).sum())
        self.joined += int((self.obs[~others, 2] != 0).sum())


def side_by_side(*sources: Any) -> list[tuple[float, Losses]]:
    """Step sources in turns for `STEPS` environment steps; return the seconds and losses of each."""
    config = EnvConfig(n_envs=N, max_restarts=5, **ONE_EACH)
    vecs = [make_vec(config, 0, source) for source in sources]
    try:
        seconds, losses = [0.0 for _ in vecs], [Losses(vec) for vec in vecs]
        while losses[-1].steps < STEPS:
            for k, each in enumerate(losses):
                begun = time.perf_counter()
                for _ in range(125):
                    each.step()
                seconds[k] += time.perf_counter() - begun
        return list(zip(seconds, losses, strict=True))
    finally:
        for vec in vecs:
            vec.close()


def test_crashes_are_counted_and_join_nothing() -> None:
    crashes = partial(CountingCrashingEnv, **CHANCES)
    (whole, sound), (crashing, losses) = side_by_side(CountingCrashingEnv, crashes)
    assert (sound.lost, sound.restarts, sound.joined) == (0, 0, 0)
    assert losses.joined == 0
    assert losses.lost == losses.restarts  # each loss restarts one process
    expected = STEPS * sum(CHANCES.values())
    assert abs(losses.lost - expected) < 5 * np.sqrt(expected)
    share = whole / crashing
    record(
        "crashing_env",
        {
            "env_steps": losses.steps, "lost_episodes": losses.lost, "restarts": losses.restarts,
            "finished_episodes": losses.finished, "joined": losses.joined,
            "share_of_fault_free_speed": round(share, 3),
        },
    )  # fmt: skip
    assert not FULL or share >= 0.9


def test_each_hang_costs_the_episode_of_its_worker_and_leaves_no_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A full run uses the clock, with one second after the deadline; otherwise deadlines pass at once."""
    passed = [] if FULL else expire_for_hung(monkeypatch)
    deadline, late, processes = 5.0 if FULL else PATIENCE, [], set(descendants(os.getpid()))
    started: set[int] = set()
    for k in range(HUNG):
        way = HANGS[k % len(HANGS)]
        config = EnvConfig(n_envs=2, step_timeout=deadline, seeding="offset", **ONE_EACH)
        vec = make_vec(config, 0, partial(CounterEnv, way, fails_below=1, within=0))
        obs, rewards, flags = np.zeros((2, 4), np.float32), np.zeros(2), np.zeros((2, 2), np.bool_)
        vec.reset_into(obs)
        try:
            for _ in range(2):
                begun = time.perf_counter()
                finals = vec.step_into(np.zeros(2, np.int64), obs, rewards, *flags)
                seconds = time.perf_counter() - begun
            assert finals is not None
            assert finals.lost_envs.tolist() == [0]
            late.append(seconds - deadline)
            started |= set(descendants(os.getpid())) - processes
        finally:
            vec.close()
    assert wait_until_ended(sorted(started))
    assert len(late) == HUNG
    if not FULL:
        assert len(passed) == HUNG
        return
    record("hung_env", {"hangs": len(late), "latest_after_deadline": round(max(late), 3), "orphans": 0})
    assert max(late) <= 1.0


def test_ppo_skips_lost_steps_and_reports_each() -> None:
    source = partial(CountingCrashingEnv, p_raise=0.01, p_kill=0.002)
    small = {"n_steps": 32, "n_epochs": 1, "batch_size": 64, "net_arch": (8,), "backend": "torch"}
    algorithm = PPO(source, n_envs=4, seed=1, **small, **ONE_EACH)
    update, left_out, shown = algorithm.learner.update, [], []

    def noting(batch: Rollout, clock: Any) -> Any:
        if batch.valid is not None:
            left_out.append(int((~batch.valid).sum()))
        shown.append(sum(len(minibatch.obs) for minibatch in batch.sample_minibatches(64)))
        return update(batch, clock)

    algorithm.learner.update = noting
    try:
        algorithm.train(4_000)
    finally:
        algorithm.close()
    counts = algorithm.recent.failure_metrics
    assert sum(left_out) == counts["env/lost_episodes"] == counts["env/restarts"] > 10
    assert sum(shown) == algorithm.clock.env_steps - sum(left_out)
    assert algorithm.summary()["env/restarts"] == counts["env/restarts"]
    assert algorithm.recent.mean_length == 20  # the mean is over whole episodes only


def test_a_buffer_joins_nothing_across_a_restart() -> None:
    source = partial(CountingCrashingEnv, p_raise=0.01, p_kill=0.002)
    options = {"learning_starts": 64, "n_step": 3, "buffer_size": 4096, "net_arch": (8,)}
    algorithm = DQN(source, n_envs=4, seed=1, batch_size=256, **options, **ONE_EACH)
    try:
        algorithm.train(2_000)
        drawn = algorithm.source.replay_sampler.sample(16, 0.0, 0)
        counts = algorithm.recent.failure_metrics
        stored = len(algorithm.source.replay_sampler.buffer)
    finally:
        algorithm.close()
    obs, after = (np.asarray(rows).reshape(-1, 3) for rows in (drawn.obs, drawn.next_obs))
    assert (obs[:, :2] == after[:, :2]).all()
    assert set(after[:, 2] - obs[:, 2]) <= {1.0, 2.0, 3.0}
    assert counts["env/lost_episodes"] == 2_000 - stored > 10


@pytest.fixture
def registered() -> Any:
    gym.register("Doomed-v0", partial(CountingCrashingEnv, p_raise=0.01))
    gym.register("Broken-v0", partial(CounterEnv, "raise", 1 << 63, within=0))
    yield
    for name in ("Doomed-v0", "Broken-v0"):
        gym.registry.pop(name)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("env", ["Doomed-v0", "Broken-v0"])
def test_a_run_counts_lost_episodes_and_exits_with_4_after_too_many(
    env: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    given = [
        f"env={env}",
        "env.workers=subprocess",
        "env.n_envs=2",
        "algo.n_steps=64",
        "log.every=256",
    ]
    line = [
        "train",
        *given,
        "tuned=null",
        "total_steps=2048",
        "eval.episodes=1",
        f"hydra.run.dir={run}",
    ]
    if env == "Broken-v0":
        assert main(line) == 4
        told = capfd.readouterr().err
        assert "raised RuntimeError in step: a fault on purpose" in told
        assert "env.max_restarts=5" in told
        assert "in fail" in (run / "log.txt").read_text()  # the log shows where the subprocess raised
        return
    assert main(line) == 0
    rows = [json.loads(row) for row in (run / "metrics.jsonl").read_text().splitlines()]
    counts = [row["env/lost_episodes"] for row in rows if "env/lost_episodes" in row]
    assert counts == sorted(counts)
    assert counts[-1] > 5
