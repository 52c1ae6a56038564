"""Tests that environment seeds have 31 bits and differ between copies, starts and runs."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv

from rlox.algorithms import PPO
from rlox.configs import EnvConfig, make
from rlox.envs.make import make_vec
from rlox.envs.seeding import SEED_LIMIT, Seeding, seeded_reset
from rlox.errors import ConfigError, EnvError
from rlox.rng import Streams

N, PAIRS = 8, 200


class Task(gym.Env[Any, Any]):
    """Draws a task when it is seeded and keeps its seeds; with `fails`, step 3 of an episode raises."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self, legacy: bool = False, fails: bool = False) -> None:
        self.legacy, self.fails = legacy, fails
        self.seeds: list[int] = []
        self.task = self.t = 0.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            if self.legacy:
                np.random.RandomState(seed)
            self.seeds.append(seed)
            self.task = float(self.np_random.normal())
        self.t = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        if self.fails and self.t == 3:
            raise RuntimeError("a fault on purpose")
        return self._seen(), self.task, self.t >= 5, False, {}

    def _seen(self) -> Any:
        return np.array([self.seeds[-1], self.task])


def tasks(num_envs: int) -> Any:
    """Makes a vectorised environment of `Task`."""
    return SyncVectorEnv([Task] * num_envs)


def begun(source: Any, seed: int, n_envs: int = N, **config: Any) -> Any:
    """Starts a vector of environments; returns it and its first observations, which contain the seeds."""
    vec = make_vec(EnvConfig("Task", n_envs=n_envs, **config), seed, source)
    obs = np.zeros((n_envs, 2), np.float32)
    vec.reset_into(obs)
    return vec, obs


def seeds_of(vec: Any) -> list[int]:
    """Returns the last seed of each copy of an environment in this process or in an engine."""
    envs = vec.env.envs if hasattr(vec, "env") else vec.envs
    return [env.unwrapped.seeds[-1] for env in envs]


def in_subprocess(seed: int) -> list[int]:
    """Returns the seeds that a pool of workers sends, for comparison with a running pool."""
    return [Seeding(seed, N).start_seed(i, 0, 0) for i in range(N)]


@pytest.mark.parametrize("source", [Task, tasks], ids=["in this process", "vectorised"])
def test_runs_with_neighbouring_seeds_share_no_environment_seed(source: Any) -> None:
    starts = [seeds_of(begun(source, seed)[0]) for seed in range(PAIRS + 1)]
    assert all(len({*one, *other}) == 2 * N for one, other in pairwise(starts))
    assert all(0 <= seed < SEED_LIMIT for start in starts for seed in start)


def test_workers_start_with_the_seeds_of_one_process() -> None:
    here = seeds_of(begun(Task, 5)[0])
    vec, obs = begun(Task, 5, workers="subprocess")
    vec.close()
    assert obs[:, 0].tolist() == np.float32(here).tolist()
    assert here == in_subprocess(5)


def test_copies_and_starts_of_a_run_have_distinct_seeds() -> None:
    for seed in (0, 1, 2**31 - 1, 2**62):
        rule = Seeding(seed, 1000)
        starts = {rule.start_seed(i, k) for i in range(1000) for k in range(50)}
        assert len(starts) == 50_000
        blocks = {rule.engine_seed(k) + i for i in range(1000) for k in range(50)}
        assert len(blocks) == 50_000
        assert max(starts | blocks) < SEED_LIMIT


def test_every_restart_after_a_failure_has_a_unique_seed() -> None:
    """All copies start, copy 1 fails twice, all start again, copy 1 fails, all start again."""
    rule, n = Seeding(3, 4), 4
    lives = [rule.start_seed(i, 0) for i in range(n)]
    lives += [rule.restart_seed(1, 1, failures) for failures in (1, 2)]
    lives += [rule.start_seed(i, 1, 2 * (i == 1)) for i in range(n)]
    lives += [rule.restart_seed(1, 2, 3)]
    lives += [rule.start_seed(i, 2, 3 * (i == 1)) for i in range(n)]
    assert len(set(lives)) == len(lives)


@pytest.mark.parametrize("source", [Task, tasks], ids=["in this process", "vectorised"])
def test_means_over_neighbouring_seeds_have_the_error_of_independent_runs(source: Any) -> None:
    """Each copy draws one task of deviation 1, so the mean of a run has deviation 1 / sqrt(8)."""
    groups, many = 200, 5
    runs = np.array([begun(source, seed)[1][:, 1].mean() for seed in range(groups * many)])
    assert abs(np.corrcoef(runs[:-1], runs[1:])[0, 1]) < 0.2
    errors = runs.reshape(groups, many).std(1, ddof=1) / np.sqrt(many)
    assert abs(errors.mean() / (1 / np.sqrt(N * many)) - 1) < 0.25


@pytest.mark.parametrize("workers", ["sync", "subprocess"])
def test_offset_seeds_copy_i_with_the_seed_of_the_run_plus_i(workers: str) -> None:
    vec, obs = begun(Task, 40, workers=workers, seeding="offset", n_envs=3)
    assert obs[:, 0].tolist() == [40, 41, 42]
    vec.reset_into(obs)
    keyed = [Seeding(40, 3).start_seed(i, 1) for i in range(3)]
    assert obs[:, 0].tolist() == np.float32(keyed).tolist()
    vec.close()


def test_offset_gives_an_engine_the_seed_of_the_run() -> None:
    vec, _ = begun(tasks, 40, seeding="offset", n_envs=3)
    assert seeds_of(vec) == [40, 41, 42]


@pytest.mark.parametrize("source", [Task, tasks])
def test_offset_refuses_a_seed_that_takes_a_copy_beyond_31_bits(source: Any) -> None:
    last = SEED_LIMIT - 3
    begun(source, last, seeding="offset", n_envs=3)
    with pytest.raises(
        ConfigError,
        match=rf"^env\.seeding=offset with seed={last + 1}: .* with {SEED_LIMIT}, expected",
    ):
        begun(source, last + 1, seeding="offset", n_envs=3)
    assert seeds_of(begun(source, last + 1, n_envs=3)[0])[0] < SEED_LIMIT


def test_a_run_with_offset_seeds_beyond_31_bits_can_resume() -> None:
    vec = make_vec(EnvConfig("Task", n_envs=2, seeding="offset"), SEED_LIMIT, Task)
    vec.restore({"starts": 1, "envs": [], "seeding": "offset"})
    vec.reset_into(np.zeros((2, 2), np.float32))
    assert max(seeds_of(vec)) < SEED_LIMIT


def test_native_environments_refuse_offset_seeding() -> None:
    config = make(EnvConfig, {"id": "CartPole-v1", "backend": "native", "seeding": "offset"})
    with pytest.raises(ConfigError, match=r"cannot run CartPole-v1 with env\.seeding"):
        make_vec(config, 0)


@pytest.mark.parametrize("workers", ["sync", "subprocess"])
def test_an_environment_that_takes_seeds_of_32_bits_trains_and_resumes(workers: str, tmp_path: Any) -> None:
    source = partial(Task, legacy=True)
    options = {"n_steps": 8, "batch_size": 8, "n_epochs": 1, "n_envs": 2, "workers": workers}
    first = PPO(source, seed=1, **options)
    first.train(32)
    first.save(tmp_path / "saved")
    first.close()
    again = PPO.from_checkpoint(tmp_path / "saved", env_id=source)
    with pytest.warns(UserWarning, match="environments start new episodes"):
        again.train(64)
    assert again.clock.env_steps == 64
    again.close()


def test_a_worker_that_failed_begins_anew_with_a_seed_of_31_bits() -> None:
    vec, obs = begun(partial(Task, legacy=True, fails=True), 1, n_envs=2, workers="subprocess")
    first = obs[:, 0].tolist()
    rewards, flags = np.zeros(2), np.zeros((2, 2), np.bool_)
    for _ in range(3):
        finals = vec.step_into(np.zeros(2, np.int64), obs, rewards, *flags)
    vec.close()
    assert finals.lost_envs.tolist() == [0, 1]
    rule = Seeding(1, 2)
    assert obs[:, 0].tolist() == [np.float32(rule.restart_seed(i, 1, 1)) for i in range(2)]
    assert not set(obs[:, 0]) & set(first)


def old(vec: Any) -> dict[str, Any]:
    """Returns the state of a vector as versions before `env.seeding` saved it."""
    return {key: value for key, value in vec.state().items() if key != "seeding"}


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("workers", ["sync", "subprocess"])
def test_a_state_without_a_seeding_rule_keeps_the_seeds_of_its_version(workers: str, legacy: bool) -> None:
    source = partial(Task, legacy=legacy)
    vec, obs = begun(source, 9, n_envs=2, workers=workers)
    vec.restore(old(vec))
    assert "seeding" not in vec.state()
    vec.reset_into(obs)
    vec.close()
    long = [Streams(9).key("restart-1", i) for i in range(2)]
    assert min(long) >= SEED_LIMIT
    expected = [seed % SEED_LIMIT if legacy else seed for seed in long]
    assert obs[:, 0].tolist() == np.float32(expected).tolist()


def test_a_worker_of_an_old_state_begins_anew_with_the_seed_of_its_version() -> None:
    vec, obs = begun(partial(Task, fails=True), 9, n_envs=1, workers="subprocess")
    vec.restore(old(vec))
    rewards, flags = np.zeros(1), np.zeros((2, 1), np.bool_)
    for _ in range(3):
        vec.step_into(np.zeros(1, np.int64), obs, rewards, *flags)
    vec.close()
    assert obs[0, 0] == np.float32(Streams(9).key("begun-anew-1", 0))


def test_an_engine_of_an_old_state_goes_on_with_the_seed_of_its_version() -> None:
    vec, obs = begun(tasks, 9, n_envs=2)
    vec.restore(old(vec))
    vec.reset_into(obs)
    first = Streams(9).key("restart-1", 0) % SEED_LIMIT
    assert seeds_of(vec) == [first, first + 1]


def test_a_reset_that_refuses_a_seed_of_31_bits_is_an_error() -> None:
    class Refuses(Task):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            raise ValueError(f"no seed {seed}")

    with pytest.raises(ValueError, match=r"no seed 7$"):
        seeded_reset(Refuses(), 7)
    with pytest.raises(EnvError, match=r"copy 0\) raised ValueError in reset: no seed"):
        begun(Refuses, 7)


class Port(Task):
    """A failing environment of which a process can hold only one."""

    alive = 0

    def __init__(self) -> None:
        super().__init__(fails=True)
        if Port.alive:
            raise OSError("Address already in use")
        Port.alive += 1

    def close(self) -> None:
        Port.alive -= 1


def test_an_environment_that_failed_is_closed_before_another_is_made_in_its_place() -> None:
    vec, obs = begun(Port, 9, n_envs=1, workers="subprocess", max_restarts=2)
    rewards, flags = np.zeros(1), np.zeros((2, 1), np.bool_)
    for _ in range(6):
        finals = vec.step_into(np.zeros(1, np.int64), obs, rewards, *flags)
    vec.close()
    assert (finals.lost_envs.tolist(), finals.restarts) == ([0], 1)
