"""Tests the wrappers that keys of `env` add: limits, repeats, sticky actions, parts, rewards."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from helpers.envs import Countdown

from rlox._core import stream_seed
from rlox.configs import EnvConfig
from rlox.envs.make import make_vec, uses_native, wrapped_factory
from rlox.envs.snapshot import can_save, restore_env, save_env
from rlox.envs.wrappers import TRUE_RETURN
from rlox.errors import ConfigError, MissingExtraError


class Line(gym.Env[Any, Any]):
    """Rewards step t of an episode with t, truncates or terminates it at `ends` and keeps the actions."""

    def __init__(self, ends: int = 100, terminates: bool = False) -> None:
        self.observation_space = spaces.Dict(
            {
                "here": spaces.Box(-np.inf, np.inf, (1,), np.float32),
                "last": spaces.Box(-np.inf, np.inf, (1,), np.float32),
                "mask": spaces.MultiBinary(3),
            }
        )
        self.action_space = spaces.Discrete(3)
        self.ends, self.terminates = ends, terminates
        self.given: list[int] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.given.append(int(action))
        self.t += 1
        over = self.t == self.ends
        ends = (over and self.terminates, over and not self.terminates)
        return self._seen(), float(self.t), *ends, {"t": self.t}

    def save_state(self) -> dict[str, Any]:
        return {"t": self.t, "given": list(self.given)}

    def load_state(self, state: dict[str, Any]) -> None:
        self.t, self.given = state["t"], list(state["given"])

    def _seen(self) -> dict[str, Any]:
        last = self.given[-1] if self.given else -1
        one = np.ones(3, np.int8)
        return {
            "here": np.float32([self.t]),
            "last": np.float32([last]),
            "mask": one,
        }


def made(training: bool = False, ends: int = 100, terminates: bool = False, **keys: Any) -> Any:
    config = EnvConfig(id="Line", **keys)
    return wrapped_factory(config, lambda: Line(ends, terminates), training=training)()


def test_max_episode_steps_truncates_and_replaces_the_registered_limit() -> None:
    for limit in (3, 700):
        env = wrapped_factory(EnvConfig("Pendulum-v1", max_episode_steps=limit))()
        env.reset(seed=0)
        ends = [env.step(env.action_space.sample())[2:4] for _ in range(limit)]
        assert ends == [(False, False)] * (limit - 1) + [(False, True)]


@pytest.mark.parametrize("limit", [3, 300])
def test_max_episode_steps_replaces_the_limit_of_an_environment_object(limit: int) -> None:
    source = gym.make("Pendulum-v1")
    env = wrapped_factory(EnvConfig("x", max_episode_steps=limit), source)()
    env.reset(seed=0)
    steps = 1
    while not env.step(env.action_space.sample())[3]:
        steps += 1
    assert steps == limit
    assert made(max_episode_steps=2).reset()[1] == {}  # an environment without its own limit


def test_a_native_environment_of_a_module_takes_no_limit_beyond_its_own() -> None:
    gym.register("NativePendulum-v0", lambda: _native(), disable_env_checker=True)
    try:
        assert wrapped_factory(EnvConfig("NativePendulum-v0", max_episode_steps=200))()
        with pytest.raises(ConfigError, match="own limit is 200; expected no more"):
            wrapped_factory(EnvConfig("NativePendulum-v0", max_episode_steps=201))()
    finally:
        del gym.registry["NativePendulum-v0"]


def _native() -> Any:
    from rlox._core import SingleEnv
    from rlox.envs.ids import NativeGymEnv

    return NativeGymEnv(SingleEnv, "Pendulum-v1")


@pytest.mark.parametrize("terminates", [False, True])
def test_action_repeat_sums_rewards_and_stops_at_the_end_of_the_episode(
    terminates: bool,
) -> None:
    env = made(ends=5, terminates=terminates, action_repeat=3)
    env.reset()
    first, last = env.step(1), env.step(2)
    assert (float(first[0]["here"][0]), *first[1:4]) == (3.0, 1.0 + 2 + 3, False, False)
    assert (float(last[0]["here"][0]), *last[1:4]) == (5.0, 4.0 + 5, terminates, not terminates)
    assert last[4]["t"] == 5
    assert env.unwrapped.given == [1, 1, 1, 2, 2]


def test_the_time_limit_counts_environment_steps_and_can_interrupt_a_repeated_action() -> None:
    env = made(action_repeat=3, max_episode_steps=4)
    env.reset()
    assert env.step(0)[3] is False
    assert env.step(0)[1:4] == (4.0, False, True)


def test_sticky_actions_repeat_the_last_taken_action_by_draws_from_the_stream() -> None:
    probability, given = 0.4, [int(a) for a in np.random.default_rng(0).integers(3, size=300)]
    env = made(repeat_action_probability=probability, ends=150)
    env.reset(seed=7)
    for t, action in enumerate(given):
        env.step(action)
        if t == 149:
            env.reset()
    key = stream_seed(7, "sticky-actions", 0)
    draws = [stream_seed(key, "sticky-actions", t) / 2**63 for t in range(300)]
    expected: list[int] = []
    for t, action in enumerate(given):
        sticks = draws[t] < probability and t not in (0, 150)
        expected.append(expected[-1] if sticks else action)
    assert env.unwrapped.given == expected
    share = np.mean([draw < probability for draw in draws])
    assert 0.3 < share < 0.5


def test_sticky_actions_are_drawn_for_each_step_of_a_repeated_action() -> None:
    env = made(repeat_action_probability=0.5, action_repeat=4)
    env.reset(seed=3)
    for action in [0, 1] * 30:
        env.step(action)
    blocks = np.reshape(env.unwrapped.given, (-1, 4))
    assert any(len(set(block)) == 2 for block in blocks)  # as in ALE, within a frame skip


def test_sticky_actions_keep_a_copy_of_an_array_that_the_caller_overwrites() -> None:
    config = EnvConfig("Pendulum-v1", repeat_action_probability=0.9)
    env = wrapped_factory(config)()
    env.reset(seed=0)
    action = np.float32([1.0])
    env.step(action)
    action[:] = -1.0
    for _ in range(20):
        env.step(action)
        assert env.unwrapped.last_u in (np.float32(1.0), np.float32(-1.0))
    env.reset(seed=0)
    taken = []
    for value in (1.0, -1.0, 0.5, 0.25):
        action[:] = value
        env.step(action)
        taken.append(float(env.unwrapped.last_u))
    assert taken[:2] == [1.0, 1.0]


@pytest.mark.parametrize("workers", ["sync", "subprocess"])
def test_an_environment_with_every_setting_goes_on_bit_for_bit(workers: str) -> None:
    keys: dict[str, Any] = {
        "max_episode_steps": 40,
        "action_repeat": 2,
        "repeat_action_probability": 0.3,
        "reward_scale": 0.5,
        "reward_clip": 0.4,
        "wrappers": ("time_aware_observation",),
    }
    config = EnvConfig("CartPole-v1", n_envs=2, workers=workers, **keys)
    vec, other = make_vec(config, 5), make_vec(config, 5)
    assert vec.resume_grade == "exact"
    try:
        start = np.zeros((2, vec.observations.dim), np.float32)
        vec.reset_into(start)
        other.reset_into(start.copy())
        played(vec, 33, seed=0)
        saved = vec.state()
        expected = played(vec, 60, seed=1)
        other.restore(saved)
        assert played(other, 60, seed=1) == expected
    finally:
        vec.close()
        other.close()


def played(vec: Any, steps: int, seed: int) -> list[Any]:
    """Plays random actions drawn with `seed`; returns all outputs."""
    n, dim = vec.n_envs, vec.observations.dim
    obs, rewards = np.zeros((n, dim), np.float32), np.zeros(n)
    ends = np.zeros((2, n), np.bool_)
    rng, shown = np.random.default_rng(seed), []
    for _ in range(steps):
        finals = vec.step_into(rng.integers(2, size=n), obs, rewards, ends[0], ends[1])
        told = None if finals is None else [dict(info) for info in finals.infos]
        shown.append((obs.tolist(), rewards.tolist(), ends.tolist(), told))
    return shown


def test_the_draws_of_sticky_actions_are_part_of_the_saved_state() -> None:
    env, other = made(repeat_action_probability=0.5), made(repeat_action_probability=0.5)
    assert can_save(env)
    env.reset(seed=1)
    for action in (0, 1, 2, 0, 1):
        env.step(action)
    other.reset(seed=2)
    restore_env(other, save_env(env))
    for action in [0, 1, 2] * 20:
        env.step(action)
        other.step(action)
    assert env.unwrapped.given == other.unwrapped.given


def test_obs_keys_apply_before_the_wrappers_and_keep_the_mask() -> None:
    env = made(obs_keys=("here",), wrappers=("flatten_observation",))
    assert env.observation_space.shape == (1,)
    assert env.reset()[0].tolist() == [0.0]
    keys = {"obs_keys": ("last",), "action_mask": "observation", "action_mask_key": "mask"}
    masked = made(**keys)
    assert list(masked.observation_space["observation"]) == ["last"]
    assert masked.reset()[0]["action_mask"].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("keys", "source", "told"),
    [
        ({"obs_keys": ("her",)}, Line, "no part 'her', expected some of .*; did you mean 'here'"),
        ({"obs_keys": ("a",)}, Countdown, r"observation space Box.*, expected a Dict"),
        (
            {"wrappers": ("minigrid_flat",)},
            Countdown,
            "minigrid_flat does not fit Mine: .* mission",
        ),
        ({"record_every": 1}, Countdown, "expected 'rgb_array'"),
    ],
)
def test_make_vec_refuses_env_settings_that_do_not_fit_by_name(
    keys: dict[str, Any], source: Any, told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        make_vec(EnvConfig("Mine", n_envs=1, **keys), 0, source)


def test_max_episode_steps_in_both_the_config_and_kwargs_is_an_error() -> None:
    config = EnvConfig("Pendulum-v1", max_episode_steps=5, kwargs={"max_episode_steps": 9})
    with pytest.raises(ConfigError, match="set the same option; leave one of them out"):
        wrapped_factory(config)()


def test_training_scales_then_clips_rewards_and_reports_the_true_return() -> None:
    env = made(training=True, ends=4, reward_scale=-0.5, reward_clip=1.2)
    env.reset()
    steps = [env.step(0) for _ in range(4)]
    assert [step[1] for step in steps] == [-0.5, -1.0, -1.2, -1.2]
    assert steps[-1][4][TRUE_RETURN] == 1.0 + 2 + 3 + 4
    played = made(ends=4, reward_scale=-0.5, reward_clip=1.2)
    played.reset()
    assert [played.step(0)[1] for _ in range(4)] == [1.0, 2.0, 3.0, 4.0]


def test_reward_wrappers_apply_after_action_repeat_and_before_reward_scale() -> None:
    def doubled(env: Any) -> Any:
        return gym.wrappers.TransformReward(env, lambda reward: reward * 2)

    env = made(training=True, action_repeat=2, reward_wrappers=(doubled,), reward_scale=10.0, ends=4)
    env.reset()
    assert env.step(0)[1] == (1.0 + 2) * 2 * 10
    assert env.step(0)[4][TRUE_RETURN] == 1.0 + 2 + 3 + 4


@pytest.mark.parametrize(
    ("wrap", "kind"),
    [
        (lambda env: gym.wrappers.TimeLimit(env, 2), "TimeLimit"),
        (gym.wrappers.Autoreset, "Autoreset"),
        (lambda env: gym.wrappers.NormalizeReward(gym.wrappers.TimeLimit(env, 2)), "TimeLimit"),
        (
            lambda env: gym.wrappers.TransformReward(
                gym.wrappers.TransformAction(env, lambda action: action, None), abs
            ),
            "TransformAction",
        ),
    ],
)
def test_reward_wrappers_that_change_more_than_rewards_are_refused_even_if_nested(
    wrap: Any, kind: str
) -> None:
    with pytest.raises(ConfigError, match=f"reward_wrappers: {kind} changes more than rewards"):
        made(training=True, reward_wrappers=(wrap,))
    made(reward_wrappers=(wrap,))  # evaluations use no reward wrappers


@pytest.mark.parametrize(
    "keys",
    [
        {"max_episode_steps": 10},
        {"action_repeat": 2},
        {"repeat_action_probability": 0.25},
        {"reward_scale": 0.1},
        {"reward_clip": 1.0},
        {"record_every": 5},
    ],
)
def test_settings_without_native_support_use_gymnasium(
    keys: dict[str, Any],
) -> None:
    assert not uses_native(EnvConfig("CartPole-v1", **keys))
    (name,) = keys
    with pytest.raises(ConfigError, match=f"cannot run CartPole-v1 with env.{name}; native ids"):
        uses_native(EnvConfig("CartPole-v1", backend="native", **keys))


def test_evaluations_keep_time_limit_and_action_repeat_but_do_not_scale_rewards() -> None:
    from rlox.algorithms import PPO

    made = PPO("Pendulum-v1", n_envs=1, n_steps=8, max_episode_steps=7, action_repeat=3, reward_scale=0.0)
    evaluation = made.evaluate(2, seed=0)
    made.close()
    assert evaluation.lengths == (3, 3)
    assert all(total < 0 for total in evaluation.returns)


def test_record_every_requires_the_video_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "imageio_ffmpeg", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'imageio\[ffmpeg\]"):
        make_vec(EnvConfig("CartPole-v1", n_envs=1, record_every=2), 0)
