"""Tests that every opened environment is closed, also if opening, wrapping or `close` fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.vector import SyncVectorEnv
from helpers.hard_evaluations import Dice, LimitedInstances

from rlox.configs import EnvConfig
from rlox.envs.make import EvalEnvFactory, make_vec, wrapped_factory
from rlox.envs.parts_codec import codec_of
from rlox.errors import ConfigError, EnvError

SEEN = codec_of(Dice.observation_space)


class Stubborn(LimitedInstances):
    """Closes itself and then raises."""

    def close(self) -> None:
        super().close()
        raise OSError("the port is busy")


def refusing(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    raise ValueError("no such sensor")


@pytest.fixture(autouse=True)
def counted() -> Iterator[None]:
    LimitedInstances.alive, LimitedInstances.limit = 0, 2
    yield
    LimitedInstances.alive, LimitedInstances.limit = 0, 1


@pytest.mark.parametrize("kind", [LimitedInstances, Stubborn])
def test_an_evaluation_that_cannot_open_all_environments_closes_those_before(
    kind: type[LimitedInstances],
) -> None:
    with pytest.raises(OSError, match="Address already in use"):
        EvalEnvFactory(EnvConfig("alone"), kind).open(3, 0, SEEN)
    assert LimitedInstances.alive == 0


@pytest.mark.parametrize("kind", [LimitedInstances, Stubborn])
def test_training_that_cannot_open_all_environments_closes_those_before(
    kind: type[LimitedInstances],
) -> None:
    with pytest.raises(OSError, match="Address already in use"):
        make_vec(EnvConfig("alone", n_envs=3), 0, kind)
    assert LimitedInstances.alive == 0


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"wrappers": (refusing,)}, "no such sensor"),
        ({"action_mask": "method"}, r"has no method action_masks\(\)"),
        ({"obs_keys": ("eye",)}, "expected a Dict"),
    ],
)
def test_an_environment_is_closed_if_its_wrapping_fails(config: Any, told: str) -> None:
    for made in (wrapped_factory, lambda c, s: lambda: make_vec(c, 0, s)):
        with pytest.raises(Exception, match=told):
            made(EnvConfig("alone", n_envs=2, **config), LimitedInstances)()
        assert LimitedInstances.alive == 0


def test_every_environment_is_closed_once_and_an_error_in_close_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    vec = make_vec(EnvConfig("alone", n_envs=2), 0, Stubborn)
    vec.close()
    vec.close()
    assert LimitedInstances.alive == 0
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("WARNING", f"alone (copy {i}) raised OSError in close: the port is busy") for i in (0, 1)
    ]


def test_an_error_in_an_engines_close_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def lonely(num_envs: int) -> SyncVectorEnv:
        return SyncVectorEnv([Stubborn] * num_envs)

    make_vec(EnvConfig("engine", n_envs=2), 0, lonely).close()
    (told,) = [each.getMessage() for each in caplog.records]
    assert told == "engine raised OSError in close: the port is busy"


def test_an_engine_of_another_size_is_closed() -> None:
    def of_two(num_envs: int) -> SyncVectorEnv:
        return SyncVectorEnv([LimitedInstances] * 2)

    with pytest.raises(EnvError, match="gave 2 environments, expected num_envs=4"):
        make_vec(EnvConfig("engine", n_envs=4), 0, of_two)
    assert LimitedInstances.alive == 0


def test_an_engine_without_the_masks_that_are_asked_for_is_closed() -> None:
    def lonely(num_envs: int) -> SyncVectorEnv:
        return SyncVectorEnv([LimitedInstances] * num_envs)

    with pytest.raises(ConfigError, match=r"has no method action_masks\(\)"):
        make_vec(EnvConfig("engine", n_envs=2, action_mask="method"), 0, lonely)
    assert LimitedInstances.alive == 0
