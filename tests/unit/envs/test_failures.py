"""Tests that the error for a raising or invalid environment is one line and gives the remedy."""

from __future__ import annotations

import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from helpers.envs import FailingAssert

from rlox.configs import EnvConfig
from rlox.envs.make import make_vec
from rlox.errors import EnvError, UnknownNameError, describe_error, one_line_message


class Short(gym.Env[Any, Any]):
    """A valid environment; each subclass breaks one part of it."""

    observation_space = spaces.Box(-1, 1, (4,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(4, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(4, np.float32), 0.0, False, False, {}


class FourValues(Short):
    def step(self, action: Any) -> Any:
        return np.zeros(4, np.float32), 0.0, False, {}


class NoValue(Short):
    def step(self, action: Any) -> Any:
        return None


class SeenAlone(Short):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(4, np.float32)


class ManyLines(Short):
    def step(self, action: Any) -> Any:
        raise ValueError("the joint\n  broke\n\nat 7")


class UnpacksItsOwn(Short):
    def step(self, action: Any) -> Any:
        one, two = (1,)
        return one, two


class NoSpace(Short):
    observation_space = None  # type: ignore[assignment]


class SetsNoSpace(gym.Env[Any, Any]):
    action_space = spaces.Discrete(2)


class ShapeForActions(Short):
    action_space = (2,)  # type: ignore[assignment]


class NoEnv:
    """Does not derive from a Gymnasium class."""


KINDS = (
    FailingAssert,
    FourValues,
    ManyLines,
    NoEnv,
    NoSpace,
    NoValue,
    SeenAlone,
    SetsNoSpace,
    ShapeForActions,
    UnpacksItsOwn,
)
for kind in KINDS:
    gym.register(f"failures/{kind.__name__}-v0", kind, max_episode_steps=9)


def config_of(kind: Any, **options: Any) -> EnvConfig:
    return EnvConfig(f"{__name__}:failures/{kind.__name__}-v0", n_envs=1, **options)


def said(kind: Any, source: Any = None, **options: Any) -> str:
    """Steps an environment and returns the message of the `EnvError` that this raises."""
    with pytest.raises(EnvError) as found:
        vec = make_vec(config_of(kind, **options), 0, source)
        try:
            obs, rewards, flags = (
                np.zeros((1, vec.observations.dim), np.float32),
                np.zeros(1),
                np.zeros((2, 1), bool),
            )
            vec.reset_into(obs)
            for _ in range(3):
                vec.step_into(np.zeros(1, np.int64), obs, rewards, *flags)
        finally:
            vec.close()
    return str(found.value)


FIVE = "step must return five values: observation, reward, terminated, truncated, info"


@pytest.mark.parametrize("registered", [True, False], ids=["in wrappers", "alone"])
@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (FourValues, FIVE),
        (NoValue, FIVE),
        (SeenAlone, "reset must return two values"),
    ],
)
def test_the_error_for_a_wrong_result_length_lists_the_expected_values(
    kind: Any, told: str, registered: bool
) -> None:
    assert told in said(kind, None if registered else kind)


def test_a_worker_reports_a_wrong_result_length_like_a_single_process() -> None:
    assert FIVE in said(FourValues, workers="subprocess", max_restarts=0)


def test_an_unpacking_error_inside_an_environment_is_reported_unchanged() -> None:
    assert "must return" not in said(UnpacksItsOwn)
    assert "not enough values to unpack (expected 2, got 1)" in said(UnpacksItsOwn)


def test_the_error_for_an_assertion_without_text_quotes_its_line() -> None:
    assert said(FailingAssert).endswith("raised AssertionError in step: assert action > 7")
    workers = said(FailingAssert, workers="subprocess", max_restarts=0)
    assert "raised AssertionError in step: assert action > 7;" in workers


def test_the_text_of_an_exception_is_one_line() -> None:
    assert said(ManyLines).endswith("raised ValueError in step: the joint broke at 7")
    assert one_line_message(ValueError("x" * 1000)) == "x" * 497 + "..."
    assert one_line_message(ValueError()) == "without a word"
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        assert re.fullmatch(r"ValueError: two lines \(.*test_failures\.py, line \d+\)", describe_error(error))


# Construction of environments


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (NoSpace, "has no observation_space, expected a space"),
        (SetsNoSpace, "has no observation_space, expected a space"),
        (ShapeForActions, "has tuple for its action_space, expected a space"),
    ],
)
@pytest.mark.parametrize("registered", [True, False], ids=["by id", "an object"])
def test_an_environment_without_a_valid_space_is_refused_with_its_name(
    kind: Any, told: str, registered: bool
) -> None:
    assert told in said(kind, None if registered else kind)


def test_the_error_for_a_non_environment_does_not_blame_its_kwargs() -> None:
    told = said(NoEnv)
    assert "NoEnv, expected a gymnasium.Env; derive its class from gymnasium.Env" in told
    assert "kwargs" not in told


def test_a_suggested_id_includes_its_module() -> None:
    with pytest.raises(UnknownNameError, match=rf"did you mean '{__name__}:failures/NoSpace-v0'"):
        make_vec(EnvConfig(f"{__name__}:failures/NoSpac-v0"), 0)
