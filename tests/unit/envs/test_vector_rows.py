"""Tests that the error for an engine's missing or wrong rows names the engine, the part and the shape."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from helpers.envs import Countdown

from rlox.configs import EnvConfig
from rlox.envs.engines.rows import select_info
from rlox.envs.make import make_vec, wrapped_factory
from rlox.errors import EnvError

N = 4
PLACES = ("observations", "rewards", "terminated", "truncated", "infos")


class Changed(gym.vector.SyncVectorEnv):
    """Countdowns of two steps; `value` replaces one of the five results of a step."""

    def __init__(self, num_envs: int, part: str, value: Any, mode: AutoresetMode) -> None:
        super().__init__([lambda: Countdown((2,))] * num_envs, autoreset_mode=mode)
        self.part, self.value = part, value

    def step(self, actions: Any) -> Any:
        given = list(super().step(actions))
        if self.part == "all":
            return self.value(given)
        place = PLACES.index(self.part)
        given[place] = self.value(given[place])
        return tuple(given)


def step_until_ended(part: str, value: Any, mode: AutoresetMode = AutoresetMode.NEXT_STEP) -> None:
    """Steps past the first ends; the engine returns `value(given)` in place of a part."""
    vec = make_vec(EnvConfig("Mine", n_envs=N), 0, lambda num_envs: Changed(num_envs, part, value, mode))
    obs, rewards, ends = np.zeros((N, 3), np.float32), np.zeros(N), np.zeros((2, N), np.bool_)
    vec.reset_into(obs)
    for _ in range(3):
        vec.step_into(np.zeros(N, np.int64), obs, rewards, ends[0], ends[1])


@pytest.mark.parametrize(
    ("part", "value", "told"),
    [
        ("observations", lambda given: given[:1], r"observations of shape \(1, 3\), expected 4 of"),
        ("observations", lambda given: given[0, 0], r"observations of shape \(\), expected 4 of"),
        ("rewards", lambda given: given[:1], r"rewards of shape \(1,\) and float64, expected \[4\]"),
        ("rewards", lambda given: 1.0, r"rewards of shape \(\) and float64, expected \[4\]"),
        ("rewards", lambda given: given[:, None], r"rewards of shape \(4, 1\)"),
        ("rewards", lambda given: ["1.0"] * N, r"rewards of shape \(4,\) and <U3, expected \[4\] n"),
        ("rewards", lambda given: [[1.0], []], r"rewards of unequal lengths, expected \[4\]"),
        ("terminated", lambda given: given[:1], r"'terminated' of shape \(1,\) and bool"),
        ("truncated", lambda given: False, r"'truncated' of shape \(\) and bool"),
        ("infos", lambda given: None, "infos without a readable entry for environment 0"),
        ("all", lambda given: tuple(given[:4]), "a tuple of 4 in step, expected a tuple of 5"),
        ("all", lambda given: None, "a NoneType in step, expected a tuple of 5"),
    ],
)  # fmt: skip
def test_a_part_without_a_row_for_each_environment_is_refused_and_not_broadcast(
    part: str, value: Any, told: str
) -> None:
    with pytest.raises(EnvError, match=f"^Mine gave .*{told}"):
        step_until_ended(part, value)


def absent(infos: dict[str, Any]) -> dict[str, Any]:
    if "final_obs" in infos:
        infos["final_obs"][1] = None
    return infos


def too_few(infos: dict[str, Any]) -> dict[str, Any]:
    if "final_obs" in infos:
        infos["final_obs"] = infos["final_obs"][:2]
    return infos


def listed(infos: dict[str, Any]) -> dict[str, Any]:
    return {**infos, "final_info": [{}] * N}


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (absent, r"environment 1, whose last observation is not in 'final_obs' of shape \(4,\)"),
        (too_few, r"environment 2, whose last observation is not in 'final_obs' of shape \(2,\)"),
        (listed, "infos without a readable entry for environment 0"),
    ],
)
def test_an_absent_last_observation_or_info_is_an_error(value: Any, told: str) -> None:
    with pytest.raises(EnvError, match=told):
        step_until_ended("infos", value, AutoresetMode.SAME_STEP)


def test_select_info_takes_one_environments_entry_from_each_list() -> None:
    infos = {"path": [[1, 2], [3]], "pair": ("a", "b"), "of_all": [1, 2, 3], "size": np.array(7)}
    assert select_info(infos, 1, 2) == {"path": [3], "pair": "b"}


def test_an_evaluation_reports_wrong_rows_of_an_engine_of_one() -> None:
    env = wrapped_factory(
        EnvConfig("Mine", n_envs=N),
        lambda num_envs: Changed(num_envs, "rewards", lambda given: 1.0, AutoresetMode.NEXT_STEP),
    )()
    env.reset(seed=0)
    with pytest.raises(EnvError, match=r"Mine gave rewards of shape \(\) and float64"):
        env.step(0)
