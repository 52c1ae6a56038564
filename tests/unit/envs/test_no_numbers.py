"""What is no number is not made one: text, complex numbers, other values than 0 and 1 of a MultiBinary."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rlox.configs import EnvConfig
from rlox.envs.base import reward_of
from rlox.envs.make import make_vec
from rlox.envs.spaces import ObservationCodec
from rlox.errors import EnvError

BOX, BINARY = spaces.Box(-9, 9, (1,)), spaces.MultiBinary(2)
BOTH = spaces.Dict({"flags": BINARY, "speed": BOX})


class Given(gym.Env[Any, Any]):
    """Shows what it is given; pays the same."""

    action_space = spaces.Discrete(2)

    def __init__(self, space: gym.Space[Any], seen: Any, reward: Any) -> None:
        self.observation_space, self.seen, self.reward = space, seen, reward

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.seen, {}

    def step(self, action: Any) -> Any:
        return self.seen, self.reward, False, False, {}


@pytest.mark.parametrize(
    ("space", "seen", "told"),
    [
        (BOX, np.array(["3.5"]), "it is of <U3, expected real numbers"),
        (BOX, ["3.5"], "it is of <U3, expected real numbers"),
        (BOX, np.array([1 + 2j]), "it is of complex128, expected real numbers"),
        (BOX, np.array(["2026-01-01"], "M8[D]"), "expected real numbers"),
        (BOX, np.array([None]), "it is of object, expected real numbers"),
        (spaces.Discrete(3), np.array(1 + 0j), "it is of complex128, expected real numbers"),
        (BINARY, np.array([7, -3]), "not all of it is 0 or 1"),
        (BINARY, np.array([0.5, 1.0]), "not all of it is 0 or 1"),
        (BOTH, {"flags": [0, 2], "speed": [1.0]}, "'flags': not all of it is 0 or 1"),
        (BOTH, {"flags": [0, 1], "speed": ["1.0"]}, "'speed': it is of <U3"),
    ],
)
def test_an_observation_that_is_no_number_is_refused_alone_and_in_a_batch(
    space: gym.Space[Any], seen: Any, told: str
) -> None:
    vec = make_vec(EnvConfig("Mine", n_envs=1), 0, lambda: Given(space, seen, 0.0))
    with pytest.raises(EnvError, match=f"Mine .copy 0. gave an observation of .*{told}"):
        vec.reset_into(vec.observations.rows(1))
    batch = (
        {name: np.array([part]) for name, part in seen.items()}
        if isinstance(seen, dict)
        else np.array([seen])
    )
    with pytest.raises(ValueError, match=told.partition(": ")[2] or told):
        ObservationCodec.of(space).encode_batch(batch)


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
def test_real_numbers_of_every_kind_are_taken(
    space: gym.Space[Any], seen: Any, row: list[float]
) -> None:
    codec = ObservationCodec.of(space)
    assert codec.encode_one(seen)[0].tolist() == row
    assert codec.encode_batch(np.array([seen]))[0].tolist() == row


@pytest.mark.parametrize("reward", ["1.0", b"1.0", np.str_("1.0"), np.array("1.0"), 1j, None])
@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_a_reward_that_is_no_number_is_refused(reward: Any, scale: float) -> None:
    config = EnvConfig("Mine", n_envs=1, reward_scale=scale)
    vec = make_vec(config, 0, lambda: Given(BOX, np.zeros(1), reward))
    obs, rewards, ends = vec.observations.rows(1), np.zeros(1), np.zeros((2, 1), np.bool_)
    vec.reset_into(obs)
    with pytest.raises(EnvError, match=r"Mine .copy 0. raised TypeError in step: .*"):
        vec.step_into(np.zeros(1, np.int64), obs, rewards, ends[0], ends[1])


def test_reward_of_accepts_every_type_of_real_number() -> None:
    given = (1, True, 1.0, np.float32(1), np.int64(1), np.bool_(True), np.array(1.0))
    assert [reward_of(reward) for reward in given] == [1.0] * len(given)
