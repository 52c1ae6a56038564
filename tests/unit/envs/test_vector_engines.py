"""Tests that engines of `gymnasium.vector` give the same transitions in every autoreset mode."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode
from helpers.envs import Countdown
from helpers.vectors import MODES, counting, make_cartpoles, make_counting, not_vectors

from rlox import GymVecEnv
from rlox.algorithms import A2C, DQN, PPO, SAC, RecurrentPPO
from rlox.collectors import RolloutCollector
from rlox.configs import EnvConfig
from rlox.envs.engines.vector import VectorEngine
from rlox.envs.make import make_vec, wrapped_factory
from rlox.errors import ConfigError, EnvError
from rlox.policies import DiscretePolicy
from rlox.sources.collector import Collector

LENGTHS = [(2, 3, 1), (4, 1), (1,), (5, 2)]  # episode lengths of each environment
modes = pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)


def engine(mode: AutoresetMode, n_envs: int = 4, **config: Any) -> Any:
    config = {"id": "Counting", "n_envs": n_envs, "seeding": "offset", **config}
    return make_vec(EnvConfig(**config), 7, partial(counting, mode=mode))


def transitions(mode: AutoresetMode, n_steps: int = 40, **config: Any) -> list[list[Any]]:
    """Returns the transitions of each environment."""
    vec = engine(mode, **config)
    n = vec.n_envs
    obs, after = np.zeros((n, 3), np.float32), np.zeros((n, 3), np.float32)
    rewards, ends = np.zeros(n), np.zeros((2, n), np.bool_)
    vec.reset_into(obs)
    found: list[list[Any]] = [[] for _ in range(n)]
    for _ in range(n_steps):
        finals = vec.step_into(np.zeros(n, np.int64), after, rewards, ends[0], ends[1])
        led = after.copy()
        if finals is not None:
            led[finals.envs] = finals.obs
        idle = [] if finals is None else finals.autoreset_envs.tolist()
        for i in range(n):
            row = (obs[i].tolist(), float(rewards[i]), led[i].tolist(), *map(bool, ends[:, i]))
            if i not in idle:
                found[i].append(row)
        obs[:] = after
    vec.close()
    return found


@modes
def test_every_mode_goes_through_the_same_transitions_as_single_environments(
    mode: AutoresetMode,
) -> None:
    seen = transitions(mode)
    config = EnvConfig("Countdown", n_envs=1, seeding="offset")
    for i, lengths in enumerate(LENGTHS):
        vec = make_vec(config, 7 + i, partial(Countdown, lengths))
        obs, after = np.zeros((1, 3), np.float32), np.zeros((1, 3), np.float32)
        rewards, ends = np.zeros(1), np.zeros((2, 1), np.bool_)
        vec.reset_into(obs)
        for row in seen[i]:
            finals = vec.step_into(np.zeros(1, np.int64), after, rewards, ends[0], ends[1])
            led = after if finals is None else finals.obs
            assert row == (
                obs[0].tolist(), float(rewards[0]), led[0].tolist(), *map(bool, ends[:, 0]),
            )  # fmt: skip
            obs[:] = after


@modes
def test_only_next_step_engines_have_steps_that_are_no_transitions(mode: AutoresetMode) -> None:
    taken = [len(rows) for rows in transitions(mode)]
    if mode is AutoresetMode.NEXT_STEP:
        # 40 steps less the resets: episodes and resets of 2 + 1, 3 + 1, 1 + 1 steps, of 4 + 1, 1 + 1 ...
        assert taken == [40 - 13, 40 - 11, 20, 40 - 8]
    else:
        assert taken == [40] * 4


@modes
def test_engines_report_infos_of_last_steps_and_true_returns(mode: AutoresetMode) -> None:
    vec = engine(mode, reward_scale=-2.0, reward_clip=3.0, n_envs=2)
    n = 2
    obs, rewards, ends = np.zeros((n, 3), np.float32), np.zeros(n), np.zeros((2, n), np.bool_)
    vec.reset_into(obs)
    told: dict[int, list[Any]] = {0: [], 1: []}
    paid = []
    for _ in range(20):
        finals = vec.step_into(np.zeros(n, np.int64), obs, rewards, ends[0], ends[1])
        paid.append(rewards.tolist())
        for i, info in zip(finals.envs, finals.infos, strict=True) if finals else ():
            told[int(i)].append((info["episode_was"], info["is_success"], info["rlox/true_return"]))
    # step t gives reward t + 0.25; the episodes have lengths 2, 3, 1 and 4, 1
    assert told[0][:3] == [(0, True, 3.5), (1, False, 6.75), (2, True, 1.25)]
    assert told[1][:2] == [(0, True, 11.0), (1, False, 1.25)]
    assert paid[0] == [-2.5, -2.5]
    assert paid[1] == [-3.0, -3.0]


def advantages(mode: AutoresetMode) -> tuple[dict[Any, float], Any]:
    """Returns advantages of whole episodes in two rollouts, by seed, episode and step, and the progress."""
    torch.manual_seed(0)
    policy = DiscretePolicy(3, 2, net_arch=(4,))
    source = partial(counting, mode=mode)
    config = EnvConfig("Counting", n_envs=4, seeding="offset")
    collector = RolloutCollector(source, n_envs=4, config=config)
    found: dict[Any, float] = {}
    for _ in range(2):  # resets may be due when the second begins
        rows = collector.collect(policy, 16).rows()
        keys = [tuple(map(int, seen)) for seen in rows.obs.tolist()]
        here = dict(zip(keys, rows.advantages.tolist(), strict=True))
        for seed, episode, t in keys:
            length = LENGTHS[seed][episode % len(LENGTHS[seed])]
            assert t < length  # no row starts from a last observation
            if (seed, episode, length - 1) in here and (seed, episode, 0) in here:
                found[seed, episode, t] = here[seed, episode, t]
    collector.close()
    return found, collector.progress


@modes
def test_rollouts_learn_the_same_transitions_in_every_autoreset_mode(mode: AutoresetMode) -> None:
    expected, _ = advantages(AutoresetMode.SAME_STEP)
    found, progress = advantages(mode)
    both = expected.keys() & found.keys()
    assert len(both) > 60
    assert np.allclose([found[key] for key in both], [expected[key] for key in both], atol=1e-6)
    told = {(e.length, e.total_reward) for e in progress.episodes if e.env == 1}
    assert told == {(4, 11.0), (1, 1.25)}


@modes
def test_truncated_episodes_of_engines_bootstrap_from_the_last_observation(mode: AutoresetMode) -> None:
    config = EnvConfig("Counting", n_envs=1, seeding="offset")
    collector = Collector(partial(counting, mode=mode), n_envs=1, config=config)
    policy = DiscretePolicy(3, 2, net_arch=(4,))
    rollout = collector.collect(policy, 12)
    cut = rollout.truncated.clone()
    if rollout.valid is not None:
        cut &= rollout.valid
    (t,) = cut.nonzero()[:1].flatten().tolist()
    last = torch.tensor([[0.0, 1.0, 3.0]])  # seed 0, episode 1, which has 3 steps
    with torch.inference_mode():
        assert torch.allclose(rollout.next_values[t], policy.get_value(last)[0])
    collector.close()


@modes
def test_kept_infos_of_an_engine_belong_to_the_rows_of_their_step(mode: AutoresetMode) -> None:
    vec = make_vec(EnvConfig("Counting", n_envs=2), 7, partial(counting, mode=mode), keep_infos=True)
    obs, rewards, ends = np.zeros((2, 3), np.float32), np.zeros(2), np.zeros((2, 2), np.bool_)
    vec.reset_into(obs)
    told = [[info.get("begins") for info in vec.infos]]
    for _ in range(4):
        vec.step_into(np.zeros(2, np.int64), obs, rewards, ends[0], ends[1])
        told.append([info.get("begins") for info in vec.infos])
    # environment 0 has episodes of 2 and 3 steps, environment 1 of 4 and 1
    later = mode is AutoresetMode.NEXT_STEP
    first = [[0, 0], [None, None], [None, None] if later else [1, None]]
    assert told[:3] == first
    assert told[3] == ([1, None] if later else [None, None])
    assert told[4] == [None, None if later else 1]


@modes
def test_moments_of_rewards_have_transitions_only(mode: AutoresetMode) -> None:
    config = EnvConfig("Counting", n_envs=4, normalize_reward=True)
    collector = Collector(partial(counting, mode=mode), n_envs=4, config=config)
    rollout = collector.collect(DiscretePolicy(3, 2, net_arch=(4,)), 20)
    assert collector.reward_normalizer is not None
    counted = collector.reward_normalizer.moments.count
    assert round(counted) == len(rollout.rows().obs)
    assert (round(counted) == 80) == (mode is not AutoresetMode.NEXT_STEP)
    collector.close()


@modes
def test_a_buffer_is_given_transitions_only(mode: AutoresetMode) -> None:
    dqn = DQN(
        partial(counting, mode=mode), n_envs=4, learning_starts=400, buffer_size=1000, n_step=1,
        batch_size=16,
    )  # fmt: skip
    dqn.train(total_timesteps=200)
    memory = dqn.source.replay_sampler
    stored = len(memory.buffer)
    idle = 200 - stored
    assert (idle > 0) == (mode is AutoresetMode.NEXT_STEP)
    batch = memory.sample(8, 0.0, 200)
    rows = [np.asarray(column.reshape(-1, 3)) for column in (batch.obs, batch.next_obs)]
    assert (rows[1][:, 1] == rows[0][:, 1]).all()  # both in the same episode
    assert (rows[1][:, 2] == rows[0][:, 2] + 1).all()
    dqn.close()


@modes
def test_an_engine_trains_and_is_evaluated(mode: AutoresetMode) -> None:
    ppo = PPO(partial(make_cartpoles, mode=mode), n_envs=4, n_steps=32, n_epochs=1, seed=3)
    ppo.train(total_timesteps=256)
    evaluation = ppo.evaluate(2, seed=5)
    assert all(r == n for r, n in zip(evaluation.returns, evaluation.lengths, strict=True))
    assert ppo.source.resume_grade == "episode_start"
    ppo.close()


@pytest.mark.parametrize("kind", [A2C, PPO, RecurrentPPO])
def test_a_rollout_without_transitions_counts_steps_but_makes_no_update(kind: Any) -> None:
    """Rollouts have one step; after each episode of 2, 3, 1 and 2 steps, one step begins the next."""
    made = kind(make_counting, n_envs=1, n_steps=1, normalize_advantages=False)
    made.train(total_timesteps=12)
    assert (made.clock.env_steps, made.clock.updates) == (12, 8)
    made.close()


def test_box_actions_reach_the_engine_within_their_bounds() -> None:
    def pendulums(num_envs: int) -> Any:
        return gym.vector.SyncVectorEnv([lambda: gym.make("Pendulum-v1")] * num_envs)

    sac = SAC(pendulums, n_envs=2, learning_starts=20, batch_size=8, net_arch=(8,))
    sac.train(total_timesteps=40)
    assert np.isfinite(sac.evaluate(1, seed=0).returns).all()
    sac.close()


def test_an_engine_object_trains_but_refuses_evaluation_with_a_reason() -> None:
    ppo = PPO(make_cartpoles(4), n_envs=4, n_steps=16, n_epochs=1)
    ppo.train(total_timesteps=64)
    with pytest.raises(ConfigError, match="pass a callable that makes it instead"):
        ppo.evaluate(1, seed=0)
    ppo.close()
    with pytest.raises(ConfigError, match="has 4 environments; give n_envs=4"):
        PPO(make_cartpoles(4), n_envs=8)


@pytest.mark.parametrize(
    ("made", "options"),
    [
        (PPO, {"n_steps": 16, "batch_size": 24}),
        (SAC, {"learning_starts": 40}),
        (PPO.tuned, {"preset": "Pendulum-v1", "n_steps": 16, "batch_size": 24}),
    ],
    ids=("PPO", "SAC", "PPO.tuned"),
)
def test_a_ready_engine_trains_with_as_many_environments_as_it_has(
    made: Any, options: dict[str, Any]
) -> None:
    algorithm = made(gym.vector.SyncVectorEnv([lambda: gym.make("Pendulum-v1")] * 3), **options)
    algorithm.train(total_timesteps=48)
    assert (algorithm.config.env.n_envs, algorithm.clock.env_steps) == (3, 48)
    algorithm.close()


def test_n_envs_defaults_to_the_algorithms_number() -> None:
    for kind, number in ((PPO, 8), (A2C, 8), (DQN, 1)):
        algorithm = kind("CartPole-v1")
        assert algorithm.config.env.n_envs == number
        algorithm.close()


def test_an_env_id_may_name_an_engine_factory_in_a_module() -> None:
    config = EnvConfig("helpers.vectors:make_counting", n_envs=3)
    vec = make_vec(config, 7)
    assert isinstance(vec, VectorEngine)
    assert (vec.n_envs, vec.observations.dim) == (3, 3)
    env = wrapped_factory(config)()
    assert env.reset(seed=11)[0].tolist() == [11.0, 0.0, 0.0]
    assert env.step(0)[:4][1:] == (1.25, False, False)
    assert env.step(0)[1:4] == (2.25, True, False)


def test_gym_vec_env_marks_the_steps_that_only_began_an_episode() -> None:
    vec = GymVecEnv(make_counting, 2, seed=7, seeding="offset")
    vec.reset_all()
    steps = [vec.step_all([0, 0]) for _ in range(4)]
    assert [s["lost"].tolist() for s in steps] == [
        [False] * 2,
        [False] * 2,
        [True, False],
        [False] * 2,
    ]
    assert steps[2]["final_obs"][0].tolist() == [7.0, 0.0, 2.0]
    vec.close()


def test_a_restored_engine_begins_episodes_with_new_seeds() -> None:
    first, again = engine(AutoresetMode.NEXT_STEP), engine(AutoresetMode.NEXT_STEP)
    obs = np.zeros((2, 4, 3), np.float32)
    first.reset_into(obs[0])
    again.restore(first.state())
    again.reset_into(obs[1])
    assert obs[0][:, 0].tolist() == [7, 8, 9, 10]
    assert not set(obs[0][:, 0].tolist()) & set(obs[1][:, 0].tolist())


class Silent(gym.vector.SyncVectorEnv):
    """Does not declare its autoreset mode."""

    def __init__(self, num_envs: int) -> None:
        super().__init__([Countdown] * num_envs)
        self.metadata = {}


class Forgetful(gym.vector.SyncVectorEnv):
    """Resets in the step that ends an episode and omits the last observation."""

    def __init__(self, num_envs: int) -> None:
        super().__init__([Countdown] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)

    def step(self, actions: Any) -> Any:
        *rest, infos = super().step(actions)
        infos.pop("final_obs", None)
        return *rest, infos


def fewer(num_envs: int) -> Any:
    return counting(num_envs - 1)


@pytest.mark.parametrize(
    ("source", "config", "error", "told"),
    [
        (not_vectors, {}, EnvError, "gave a Countdown, expected a gymnasium.vector.VectorEnv"),
        (fewer, {}, EnvError, "gave 3 environments, expected num_envs=4"),
        (Silent, {}, ConfigError, "is None, expected one of AutoresetMode.NEXT_STEP"),
        (
            make_counting,
            {"action_repeat": 2},
            ConfigError,
            "does not support env.action_repeat, which wraps single environments; leave it out",
        ),
        (make_counting, {"max_episode_steps": 2}, ConfigError, "does not support env.max_episode_steps"),
        (make_counting, {"workers": "subprocess"}, ConfigError, "does not support env.workers"),
        (make_counting, {"backend": "native"}, ConfigError, "needs a native environment"),
        (make_counting, {"kwargs": {"size": 3}}, ConfigError, "unexpected keyword argument 'size'"),
    ],
)
def test_make_vec_refuses_vector_environments_that_do_not_fit_by_name(
    source: Any, config: dict[str, Any], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        make_vec(EnvConfig("Mine", n_envs=4, **config), 0, source)


def test_a_missing_final_observation_is_an_error() -> None:
    vec = make_vec(EnvConfig("Mine", n_envs=1), 0, Forgetful)
    obs, rewards, ends = np.zeros((1, 3), np.float32), np.zeros(1), np.zeros((2, 1), np.bool_)
    vec.reset_into(obs)
    with pytest.raises(EnvError, match="gave no 'final_obs'"):
        for _ in range(3):
            vec.step_into(np.zeros(1, np.int64), obs, rewards, ends[0], ends[1])
