"""Tests Gymnasium environments behind the vector interface: same-step resets, spaces, workers, failures."""

from __future__ import annotations

import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from helpers.envs import Countdown, MixedBounds, OddRewards, RandomSpacesEnv, WrongShape

from rlox import GymVecEnv
from rlox.configs import EnvConfig, make
from rlox.envs.gym_vec import SyncGymVecEnv
from rlox.envs.make import make_vec
from rlox.envs.native import NativeVecEnv
from rlox.envs.workers.vec_env import SupervisedVecEnv
from rlox.errors import (
    ConfigError,
    EnvError,
    ShapeError,
    UnknownNameError,
    UnsupportedSpaceError,
)


class Narrow(RandomSpacesEnv):
    def __init__(self) -> None:
        super().__init__(spaces.Discrete(2), spaces.Box(0.0, 0.5, (1,), np.float32))


def play(vec: GymVecEnv, steps: int) -> list[dict[str, Any]]:
    return [vec.step_all(np.zeros(vec.n_envs, np.int64)) for _ in range(steps)]


def test_the_step_that_ends_an_episode_returns_the_next_ones_first_observation() -> None:
    vec = GymVecEnv(Countdown, 2, seed=5, seeding="offset")
    assert vec.reset_all().tolist() == [[5, 0, 0], [6, 0, 0]]
    steps = play(vec, 6)  # episodes of 2, 3 and 1 steps
    assert [s["obs"][0].tolist() for s in steps] == [
        [5, 0, 1], [5, 1, 0], [5, 1, 1], [5, 1, 2], [5, 2, 0], [5, 3, 0],
    ]  # fmt: skip
    assert [s["final_obs"][0].tolist() for s in steps] == [
        [5, 0, 1], [5, 0, 2], [5, 1, 1], [5, 1, 2], [5, 1, 3], [5, 2, 1],
    ]  # fmt: skip
    assert [bool(s["terminated"][0]) for s in steps] == [False, True, False, False, False, True]
    assert [bool(s["truncated"][0]) for s in steps] == [False, False, False, False, True, False]
    assert [s["rewards"][0] for s in steps] == [1.25, 2.25, 1.25, 2.25, 3.25, 1.25]
    assert all((s["final_mask"] == (s["terminated"] | s["truncated"])).all() for s in steps)


def test_each_copy_is_seeded_once_with_the_seed_plus_its_number() -> None:
    made: list[Countdown] = []

    def factory() -> Countdown:
        made.append(Countdown())
        return made[-1]

    vec = GymVecEnv(factory, 3, seed=40, seeding="offset")
    vec.reset_all()
    play(vec, 6)
    assert [env.seeds[0] for env in made] == [40, 41, 42]
    assert all(seed is None for env in made for seed in env.seeds[1:])


def test_environments_that_end_at_different_times_keep_their_final_observations() -> None:
    lengths = iter([(1,), (4,), (2,)])
    vec = GymVecEnv(lambda: Countdown(next(lengths)), 3)
    vec.reset_all()
    ended = [np.flatnonzero(s["final_mask"]).tolist() for s in play(vec, 4)]
    assert ended == [[0], [0, 2], [0], [0, 1, 2]]


def test_arrays_of_earlier_steps_are_not_overwritten() -> None:
    vec = GymVecEnv(Countdown, 1, seeding="offset")
    first = vec.reset_all()
    second = play(vec, 1)[0]["obs"]
    play(vec, 1)
    assert (first.tolist(), second.tolist()) == ([[0, 0, 0]], [[0, 0, 1]])


@pytest.mark.parametrize("start", [0, 3, -2])
def test_discrete_observations_are_one_hot_whatever_their_start(start: int) -> None:
    space = spaces.Discrete(4, start=start)
    vec = GymVecEnv(lambda: RandomSpacesEnv(space, spaces.Discrete(2)), 2)
    rows = vec.reset_all()
    assert rows.shape == (2, 4)
    assert rows.sum(1).tolist() == [1, 1]
    codec = vec.vec.observations
    row = np.empty(4, np.float32)
    for k in range(4):
        codec.encode_into(start + k, row)
        assert row.tolist() == np.eye(4)[k].tolist()
    assert codec.encode_batch([start, start + 3]).argmax(1).tolist() == [0, 3]


def test_other_box_observations_are_flattened_to_float32() -> None:
    space = spaces.Box(-5, 5, (2, 3), np.int64)
    vec = GymVecEnv(lambda: RandomSpacesEnv(space, spaces.Discrete(2)), 2, seed=1, seeding="offset")
    rows = vec.reset_all()
    space.seed(1)
    expected = space.sample()
    assert rows.dtype == np.float32
    assert rows[0].tolist() == expected.ravel().tolist()


def test_policy_choices_become_discrete_actions_from_their_start() -> None:
    env = RandomSpacesEnv(spaces.Box(-1, 1, (1,)), spaces.Discrete(3, start=5))
    vec = SyncGymVecEnv([lambda: env], 0, "env")
    obs, rewards = np.empty((1, 1), np.float32), np.empty(1)
    flags = np.empty(1, np.bool_), np.empty(1, np.bool_)
    vec.reset_into(obs)
    for choice in range(3):
        vec.step_into(np.array([choice]), obs, rewards, *flags)
    assert env.actions_taken == [5, 6, 7]


def test_gym_vec_env_takes_actions_of_the_environments_own_space() -> None:
    vec = GymVecEnv(lambda: RandomSpacesEnv(spaces.Box(-1, 1, (1,)), spaces.Discrete(3, start=5)), 2)
    vec.reset_all()
    vec.step_all([5, 7])
    assert [env.actions_taken for env in vec.vec.envs] == [[5], [7]]


def test_box_actions_are_clipped_per_dimension_and_unbounded_ones_are_not() -> None:
    env = MixedBounds()
    vec = GymVecEnv(lambda: env, 1)
    vec.reset_all()
    vec.step_all([[5.0, -1e6]])
    vec.step_all([[-5.0, 1e6]])
    assert env.actions_received[0].tolist() == [np.float32(0.1), -1e6]
    assert env.actions_received[1].tolist() == [np.float32(-0.1), 1e6]
    assert env.actions_received[0].dtype == np.float32


@pytest.mark.parametrize("actions", [[0], [0, 0, 0], [[0, 0]] * 2])
def test_a_gym_vector_env_refuses_a_wrong_number_of_actions(actions: list[Any]) -> None:
    vec = GymVecEnv(Countdown, 2)
    vec.reset_all()
    with pytest.raises(ShapeError, match=r"expected \(2,\)"):
        vec.step_all(actions)


@pytest.mark.parametrize(
    ("observation", "action", "named"),
    [
        (spaces.Text(3), spaces.Discrete(2), "observation space Text"),
        (spaces.Sequence(spaces.Discrete(2)), spaces.Discrete(2), "observation space Sequence"),
        (spaces.Discrete(2), spaces.Text(2), "action space"),
        (spaces.Discrete(2), spaces.Dict({"a": spaces.Sequence(spaces.Discrete(2))}), "part a,"),
    ],
)
def test_unsupported_spaces_are_named_with_a_remedy(
    observation: gym.Space[Any], action: gym.Space[Any], named: str
) -> None:
    with pytest.raises(UnsupportedSpaceError, match=f"{named}.*wrap"):
        GymVecEnv(lambda: RandomSpacesEnv(observation, action), 1)


@pytest.mark.parametrize("given", [np.zeros(2), np.zeros(4), np.zeros(1), 0.5, "no"])
def test_an_observation_that_breaks_its_space_is_an_error_with_both_shapes(given: Any) -> None:
    vec = GymVecEnv(lambda: WrongShape(given), 1)
    with pytest.raises(EnvError, match=r"copy 0.*expected Box"):
        vec.reset_all()


def test_subprocess_workers_equal_in_process_ones_step_by_step() -> None:
    config = {"id": "Pendulum-v1", "n_envs": 2, "backend": "gymnasium"}
    vecs = [make_vec(make(EnvConfig, {**config, "workers": w}), 7) for w in ("sync", "subprocess")]
    assert [type(v) for v in vecs] == [SyncGymVecEnv, SupervisedVecEnv]
    rng = np.random.default_rng(0)
    seen: list[list[np.ndarray[Any, Any]]] = [[], []]
    actions = rng.normal(0, 3, (205, 2, 1)).astype(np.float32)
    try:
        for vec, log in zip(vecs, seen, strict=True):
            obs, rewards = np.empty((2, 3), np.float32), np.empty(2)
            flags = np.empty(2, np.bool_), np.empty(2, np.bool_)
            vec.reset_into(obs)
            log.append(obs.copy())
            for action in actions:
                finals = vec.step_into(action, obs, rewards, *flags)
                log += [obs.copy(), rewards.copy(), *(f.copy() for f in flags)]
                log += [] if finals is None else [finals.envs, finals.obs]
    finally:
        vecs[1].close()
    assert len(seen[0]) == len(seen[1]) == 1 + 4 * 205 + 2
    assert all(np.array_equal(a, b) for a, b in zip(*seen, strict=True))


def test_subprocess_workers_return_the_same_discrete_and_final_observations() -> None:
    vec = GymVecEnv("FrozenLake-v1", 2, seed=3, workers="subprocess")
    here = GymVecEnv("FrozenLake-v1", 2, seed=3)
    try:
        assert np.array_equal(vec.reset_all(), here.reset_all())
        ended = 0
        for k in range(40):
            a, b = vec.step_all([k % 4, 2]), here.step_all([k % 4, 2])
            assert all(np.array_equal(a[name], b[name]) for name in a)
            ended += int(a["final_mask"].sum())
        assert ended
    finally:
        vec.close()


def test_an_instance_is_copied_not_shared() -> None:
    given = OddRewards(scale=2.0)
    vec = GymVecEnv(given, 3)
    vec.reset_all()
    copies = [env.unwrapped for env in vec.vec.envs]
    assert len({id(env) for env in (*copies, given)}) == 4
    assert {env.scale for env in copies} == {2.0}


def test_a_registered_instance_keeps_its_wrappers_and_arguments() -> None:
    given = gym.wrappers.ClipReward(gym.make("Pendulum-v1", g=3.0), -1.0, 0.0)
    vec = GymVecEnv(given, 1)
    vec.reset_all()
    assert vec.vec.envs[0].unwrapped.g == 3.0
    rewards = [vec.step_all([[1.0]])["rewards"][0] for _ in range(20)]
    assert min(rewards) == -1.0


def test_a_registered_instance_in_a_users_wrapper_is_copied_with_it() -> None:
    class Doubled(gym.RewardWrapper[Any, Any]):
        def reward(self, reward: Any) -> float:
            return 2.0 * float(reward)

    vec = GymVecEnv(Doubled(gym.make("CartPole-v1")), 2)
    vec.reset_all()
    assert vec.step_all([0, 1])["rewards"].tolist() == [2.0, 2.0]


def test_changes_made_to_a_registered_instance_are_kept() -> None:
    given = gym.make("Pendulum-v1")
    given.unwrapped.g = 1.5
    vec = GymVecEnv(given, 2)
    assert [env.unwrapped.g for env in vec.vec.envs] == [1.5, 1.5]


def test_keyword_arguments_and_wrappers_reach_the_environment() -> None:
    config = make(
        EnvConfig,
        {
            "id": "Pendulum-v1",
            "n_envs": 1,
            "kwargs": {"g": 2.5},
            "wrappers": ["rescale_action", "time_aware_observation"],
        },
    )
    vec = make_vec(config, 0)
    assert isinstance(vec, SyncGymVecEnv)
    assert vec.envs[0].unwrapped.g == 2.5
    assert isinstance(vec.action_space, spaces.Box)
    assert (vec.action_space.low, vec.action_space.high) == (-1.0, 1.0)
    assert vec.observations.dim == 4


def test_wrappers_apply_to_a_callable_source_too() -> None:
    config = make(EnvConfig, {"n_envs": 1, "wrappers": ["rescale_action"]})
    vec = make_vec(config, 0, Narrow)
    assert (vec.action_space.low.tolist(), vec.action_space.high.tolist()) == ([-1.0], [1.0])


@pytest.mark.parametrize("source", [Countdown, Countdown()])
def test_keyword_arguments_that_cannot_reach_an_environment_are_an_error(source: Any) -> None:
    config = make(EnvConfig, {"n_envs": 1, "kwargs": {"g": 2.5}})
    with pytest.raises(ConfigError, match=r"env\.kwargs"):
        make_vec(config, 0, source)


def test_a_wrapper_that_does_not_fit_is_a_config_error() -> None:
    config = make(EnvConfig, {"id": "CartPole-v1", "n_envs": 1, "wrappers": ["rescale_action"]})
    with pytest.raises(ConfigError, match="rescale_action"):
        make_vec(config, 0)


def test_arguments_the_environment_does_not_know_are_a_config_error() -> None:
    config = make(EnvConfig, {"id": "Pendulum-v1", "n_envs": 1, "kwargs": {"gravity": 1}})
    with pytest.raises(ConfigError, match="gravity"):
        make_vec(config, 0)


@pytest.mark.parametrize(
    ("env_id", "told"),
    [
        ("CartPol-v1", "did you mean 'CartPole-v1'"),
        ("no_such_module:Env-v0", "module 'no_such_module' cannot be imported"),
        ("Nonsense", "is not registered"),
    ],
)
def test_an_unknown_id_is_an_error_with_the_nearest_name(env_id: str, told: str) -> None:
    with pytest.raises(UnknownNameError, match=told):
        GymVecEnv(env_id, 1)


def test_a_factory_that_makes_no_environment_is_an_error() -> None:
    with pytest.raises(EnvError, match="returned dict"):
        GymVecEnv(dict, 1)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="not an environment"):
        GymVecEnv(3, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "native"),
    [
        ({}, True),
        ({"backend": "native"}, True),
        ({"backend": "gymnasium"}, False),
        ({"kwargs": {"sutton_barto_reward": True}}, False),
        ({"wrappers": ["time_aware_observation"]}, False),
    ],
)
def test_native_environments_are_used_where_the_configuration_allows(
    options: dict[str, Any], native: bool
) -> None:
    vec = make_vec(make(EnvConfig, {"n_envs": 1, **options}), 0)
    assert isinstance(vec, NativeVecEnv) == native


@pytest.mark.parametrize(
    "options",
    [{"id": "Blackjack-v1"}, {"wrappers": ["time_aware_observation"]}, {"workers": "subprocess"}],
)
def test_asking_for_native_where_it_cannot_run_is_an_error(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="backend=native cannot run"):
        make_vec(make(EnvConfig, {"n_envs": 1, "backend": "native", **options}), 0)


def test_asking_for_native_with_an_environment_object_is_an_error() -> None:
    with pytest.raises(ConfigError, match="backend=native"):
        make_vec(make(EnvConfig, {"n_envs": 1, "backend": "native"}), 0, Countdown)


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        ({"workers": "threads"}, "workers=threads: expected one of sync, subprocess"),
        ({"seeding": "fixed"}, "seeding=fixed: expected one of keyed, offset"),
        ({"n_envs": 0}, "n_envs=0: expected a value in"),
        ({"n_envs": 1.5}, "n_envs=1.5: expected an integer"),
        ({"step_timeout": -1.0}, "step_timeout=-1.0: expected a value in"),
        ({"seed": -1}, "seed=-1: expected a value in"),
    ],
)
def test_a_gym_vector_env_refuses_invalid_arguments(argument: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        GymVecEnv(Countdown, **{"n_envs": 2, **argument})
