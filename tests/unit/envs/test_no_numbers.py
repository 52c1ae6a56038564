"""Tests that text, complex numbers, lists or values besides 0 and 1 are refused as numbers or flags."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from helpers.envs import FixedOutputs

from rlox.configs import EnvConfig
from rlox.envs.base import to_flag, to_reward
from rlox.envs.check import check_env
from rlox.envs.make import make_vec
from rlox.envs.parts_codec import codec_of
from rlox.errors import EnvError

BOX, BINARY = spaces.Box(-9, 9, (1,)), spaces.MultiBinary(2)
IMAGE = spaces.Box(0, 255, (2, 2, 3), np.uint8)
DICT_SPACE = spaces.Dict({"flags": BINARY, "speed": BOX})


def step_env(env: Any, source: Any = None, **config: Any) -> Any:
    """Takes one step; returns the reward and both flags."""
    vec = make_vec(EnvConfig("Mine", n_envs=1, max_restarts=0, **config), 0, source or (lambda: env))
    obs, rewards, flags = vec.observations.rows(1), np.zeros(1), np.zeros((2, 1), np.bool_)
    try:
        vec.reset_into(obs)
        vec.step_into(np.zeros(1, np.int64), obs, rewards, flags[0], flags[1])
    finally:
        vec.close()
    return float(rewards[0]), bool(flags[0, 0]), bool(flags[1, 0])


def add_batch_axis(obs: Any) -> Any:
    """Makes a batch of one observation."""
    return obs[None] if isinstance(obs, np.ma.MaskedArray) else np.array([obs])


@pytest.mark.parametrize(
    ("space", "seen", "told"),
    [
        (BOX, np.array(["3.5"]), "it has dtype <U3, expected real numbers"),
        (BOX, ["3.5"], "it has dtype <U3, expected real numbers"),
        (BOX, np.array([1 + 2j]), "it has dtype complex128, expected real numbers"),
        (BOX, np.array(["2026-01-01"], "M8[D]"), "expected real numbers"),
        (BOX, np.array([None]), "it has dtype object, expected real numbers"),
        (spaces.Discrete(3), np.array(1 + 0j), "it has dtype complex128, expected real numbers"),
        (BINARY, np.array([7, -3]), "it has values other than 0 and 1"),
        (BINARY, np.array([0.5, 1.0]), "it has values other than 0 and 1"),
        (BOX, np.ma.array([1.0], mask=True, dtype=np.float32), "some of it is masked"),
        (IMAGE, np.ma.array(np.zeros((2, 2, 3), np.uint8), mask=True), "some of it is masked"),
        (spaces.Discrete(3), np.ma.masked, "some of it is masked"),
        (
            spaces.MultiDiscrete([3, 2]),
            np.ma.array([1, 1], mask=[1, 0]),
            "some of it is masked",
        ),
        (
            spaces.Dict(kind=spaces.Discrete(3)),
            {"kind": np.ma.array(1, mask=True)},
            "'kind': some of it is masked",
        ),
        (DICT_SPACE, {"flags": [0, 2], "speed": [1.0]}, "'flags': it has values other than 0 and 1"),
        (DICT_SPACE, {"flags": [0, 1], "speed": ["1.0"]}, "'speed': it has dtype <U3"),
    ],
)
def test_invalid_numbers_in_observations_are_refused_alone_and_in_a_batch(
    space: gym.Space[Any], seen: Any, told: str
) -> None:
    vec = make_vec(EnvConfig("Mine", n_envs=1), 0, lambda: FixedOutputs(space, seen, 0.0))
    with pytest.raises(EnvError, match=f"Mine .copy 0. gave an observation of .*{told}"):
        vec.reset_into(vec.observations.rows(1))
    batch = (
        {name: add_batch_axis(part) for name, part in seen.items()}
        if isinstance(seen, dict)
        else add_batch_axis(seen)
    )
    with pytest.raises(ValueError, match=told.partition(": ")[2] or told):
        codec_of(space).encode_batch(batch)


@pytest.mark.parametrize(
    ("space", "seen", "row"),
    [
        (BOX, np.array([2], np.int8), [2.0]),
        (BOX, [np.float16(2.5)], [2.5]),
        (BOX, np.array([True]), [1.0]),
        (BINARY, np.array([True, False]), [1.0, 0.0]),
        (BINARY, [1.0, 0.0], [1.0, 0.0]),
        (spaces.MultiBinary((1, 2)), np.array([[0, 1]], np.int8), [0.0, 1.0]),
    ],
)
def test_real_numbers_of_every_kind_are_taken(space: gym.Space[Any], seen: Any, row: list[float]) -> None:
    codec = codec_of(space)
    assert codec.encode_one(seen)[0].tolist() == row
    assert codec.encode_batch(np.array([seen]))[0].tolist() == row


class UnreadableFloat(float):
    def __float__(self) -> float:
        raise RuntimeError("no number is here")


def type_name(value: Any) -> str:
    """Returns the name of the type, since some of the numbers cannot be written as text."""
    return type(value).__name__


HINT = "; rlox check lists all problems of an environment"
INVALID_REWARDS = [
    "1.0", b"1.0", np.str_("1.0"), np.array("1.0"), 1j, None, np.array([1.0]), [1.0], (1.0,), {},
    torch.ones(1), torch.tensor(1.0, requires_grad=True), np.timedelta64(5), np.ma.masked,
    np.ma.array(1.0, mask=True), 10**400, -(10**5000), Fraction(10**400), UnreadableFloat(1.0),
]  # fmt: skip


@pytest.mark.parametrize("reward", INVALID_REWARDS, ids=type_name)
@pytest.mark.parametrize("config", [{}, {"reward_scale": 2.0}, {"action_repeat": 2}], ids=repr)
def test_a_reward_that_is_no_number_is_refused(reward: Any, config: dict[str, Any]) -> None:
    told = rf"Mine .copy 0.: step returned .* for the reward, expected a number; .*{HINT}"
    with pytest.raises(EnvError, match=told):
        step_env(FixedOutputs(BOX, np.zeros(1), reward), **config)


INVALID_FLAGS = [
    [False], (False,), "False", np.array([False]), np.array([[True]]), np.array([True, False]),
    None, {}, 2, 0.5, np.nan, np.array("False"), torch.zeros(1), np.ma.masked,
]  # fmt: skip
EACH_FLAG = pytest.mark.parametrize("name", ["terminated", "truncated"])


@EACH_FLAG
@pytest.mark.parametrize("flag", INVALID_FLAGS, ids=repr)
@pytest.mark.parametrize(
    "config",
    [{}, {"reward_clip": 1.0}, {"action_repeat": 2}, {"max_episode_steps": 3}],
    ids=repr,
)
def test_an_invalid_flag_is_refused_by_name(flag: Any, name: str, config: dict[str, Any]) -> None:
    flags = (flag, False) if name == "terminated" else (False, flag)
    told = rf"Mine .copy 0.: step returned .* for {name}, expected a bool; .*{HINT}"
    with pytest.raises(EnvError, match=told):
        step_env(FixedOutputs(BOX, np.zeros(1), 1.0, *flags), **config)


@pytest.mark.parametrize(
    ("reward", "flag", "told"),
    [
        (1.0, [False], r"step returned \[False\] .list. for terminated, expected a bool"),
        (None, False, r"step returned None .NoneType. for the reward, expected a number"),
    ],
)
def test_a_worker_refuses_a_flag_or_a_reward_of_a_wrong_kind(reward: Any, flag: Any, told: str) -> None:
    with pytest.raises(EnvError, match=f"Mine .copy 0.: {told}.*{HINT}"):
        step_env(FixedOutputs(BOX, np.zeros(1), reward, flag, False), workers="subprocess")


@EACH_FLAG
@pytest.mark.parametrize("flag", INVALID_FLAGS, ids=repr)
def test_rlox_check_names_an_invalid_flag(flag: Any, name: str) -> None:
    flags = (flag, False) if name == "terminated" else (False, flag)
    codes = [f.code for f in check_env(lambda: FixedOutputs(BOX, np.zeros(1), 1.0, *flags), steps=20)]
    assert f"{name}-kind" in codes


@pytest.mark.parametrize(
    ("flag", "meant"),
    [
        (True, True), (np.bool_(False), False), (np.array(True), True), (np.array(0), False),
        (1, True), (0.0, False), (np.int8(1), True), (np.float32(0), False), (torch.tensor(True), True),
    ],
    ids=repr,
)  # fmt: skip
def test_bools_and_single_zeros_and_ones_are_flags(flag: Any, meant: bool) -> None:
    assert to_flag("terminated", flag) is meant
    assert step_env(FixedOutputs(BOX, np.zeros(1), 1.0, False, flag)) == (1.0, False, meant)


class FixedVectorEnv(gym.vector.VectorEnv[Any, Any, Any]):
    """A vectorised environment of one copy, which returns the same in every step."""

    metadata = {"autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, num_envs: int, *outputs: Any) -> None:
        self.num_envs, self.outputs = num_envs, outputs
        self.single_observation_space, self.single_action_space = BOX, spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        return np.zeros((1, 1), np.float32), {}

    def step(self, actions: Any) -> Any:
        return np.zeros((1, 1), np.float32), *self.outputs, {}


FALSE_FLAG = np.zeros(1, np.bool_)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((np.ones(1), ["False"], FALSE_FLAG), "'terminated' of shape .* expected .1. numbers"),
        (
            (np.ones(1), FALSE_FLAG, np.array([0.5])),
            "'truncated' with 0.5, expected .1. bools, or 0 and 1",
        ),
        ((np.ones(1), [[False]], FALSE_FLAG), r"'terminated' of shape \(1, 1\)"),
        ((np.ones(1), False, FALSE_FLAG), r"'terminated' of shape \(\)"),
        (([None], FALSE_FLAG, FALSE_FLAG), "rewards of shape .* and object"),
        (([10**400], FALSE_FLAG, FALSE_FLAG), "rewards of shape .* and object"),
        ((np.ones(1, "m8[s]"), FALSE_FLAG, FALSE_FLAG), "rewards of shape .* and timedelta64"),
        (
            (np.ma.array([1.0], mask=True), FALSE_FLAG, FALSE_FLAG),
            "rewards with masked entries",
        ),
        ((torch.ones(1, requires_grad=True), FALSE_FLAG, FALSE_FLAG), "rewards that are not an array"),
    ],
)
def test_invalid_rewards_or_flags_of_an_engine_are_refused(given: Any, told: str) -> None:
    with pytest.raises(EnvError, match=f"Mine gave {told}"):
        step_env(None, lambda num_envs: FixedVectorEnv(num_envs, *given))
    taken = step_env(None, lambda num_envs: FixedVectorEnv(num_envs, [2], [0], np.ones(1)))
    assert taken == (2.0, False, True)


def test_an_observation_that_needs_a_gradient_is_refused() -> None:
    seen = torch.ones(1, requires_grad=True)
    with pytest.raises(EnvError, match=rf"gave an observation of shape .*grad.*{HINT}"):
        step_env(FixedOutputs(BOX, seen, 1.0))


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (
            np.array([5.0, 1.0]),
            r"reset returned an array of shape \(2,\) and float64; reset must return two",
        ),
        ((np.zeros(1), None), r"reset returned None \(NoneType\) for the info, expected a dict"),
        (None, r"reset returned None \(NoneType\); reset must return two values"),
    ],
)
def test_the_error_for_a_wrong_reset_result_tells_what_reset_returned(result: Any, told: str) -> None:
    class Resets(FixedOutputs):
        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            return result

    with pytest.raises(EnvError, match=f"{told}.*{HINT}"):
        step_env(Resets(BOX, np.zeros(1), 1.0))


def test_the_error_for_a_masked_reward_mentions_the_masked_array() -> None:
    told = r"step returned a masked array of shape \(\) and float64 for the reward, expected a number"
    with pytest.raises(EnvError, match=told):
        step_env(FixedOutputs(BOX, np.zeros(1), np.ma.array(1.0, mask=True)))


@pytest.mark.parametrize("reward", [np.timedelta64(5), np.ma.masked, 10**400], ids=type_name)
def test_rlox_check_names_a_reward_that_is_no_number(reward: Any) -> None:
    codes = [f.code for f in check_env(lambda: FixedOutputs(BOX, np.zeros(1), reward), steps=20)]
    assert "reward-kind" in codes


def test_to_reward_accepts_every_type_of_real_number() -> None:
    single = np.array(1.0), torch.tensor(1.0), Fraction(1), np.ma.array(1.0)
    given = (1, True, 1.0, np.float32(1), np.int64(1), np.bool_(True), *single)
    assert [to_reward(reward) for reward in given] == [1.0] * len(given)
