"""Tests that a policy goes on in the spaces of its training. An error names other spaces of the same size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from helpers.observation_spaces import Samples

from rlox.algorithms import A2C, PPO, SAC
from rlox.errors import CheckpointError, ConfigError
from rlox.runs.loading import describe_space

SMALL: dict[str, Any] = {"n_envs": 1, "n_steps": 8, "batch_size": 8, "net_arch": (4,)}
TWO_ACTIONS = spaces.Discrete(2)


def make_box(*shape: int, high: float = 1.0, dtype: Any = np.float32) -> spaces.Box:
    return spaces.Box(-high, high, shape, dtype)


def make_samples_env(
    observation: spaces.Space[Any], action: spaces.Space[Any] = TWO_ACTIONS
) -> Callable[[], Any]:
    return lambda: Samples(observation, action)


OTHER_SPACES = {
    "another shape": (make_box(4), make_box(2, 2), "Box(4)", "Box(2x2)"),
    "another kind": (make_box(2), TWO_ACTIONS, "Box(2)", "Discrete(2)"),
    "other choices": (
        spaces.Discrete(5),
        spaces.MultiDiscrete([2, 3]),
        "Discrete(5)",
        "MultiDiscrete([2, 3])",
    ),
    "other parts": (
        spaces.Dict({"a": make_box(2), "b": TWO_ACTIONS}),
        spaces.Dict({"a": TWO_ACTIONS, "b": make_box(2)}),
        "Dict(a: Box(2), b: Discrete(2))",
        "Dict(a: Discrete(2), b: Box(2))",
    ),
}


@pytest.mark.parametrize("case", OTHER_SPACES)
def test_a_policy_is_refused_in_another_observation_space_of_equal_size(case: str, tmp_path: Path) -> None:
    first, second, there, here = OTHER_SPACES[case]
    PPO(make_samples_env(first), **SMALL).save(tmp_path / "saved")
    told = f"its policy learned with observations {there}, but observations here are {here}; use an env"
    with pytest.raises(CheckpointError) as loading:
        PPO.from_checkpoint(tmp_path / "saved", env_id=make_samples_env(second))
    assert f"does not fit ppo on <{make_samples_env.__qualname__}.<locals>.<lambda>>: {told}" in str(
        loading.value
    )
    with pytest.raises(ConfigError) as beginning:
        PPO(make_samples_env(second), init_from=tmp_path / "saved", **SMALL)
    assert str(beginning.value).startswith(f"init_from={tmp_path / 'saved'}: {told}")


@pytest.mark.parametrize(
    ("facade", "first", "second", "there", "here"),
    [
        (PPO, make_box(2), make_box(2, high=2.0), "Box(2, from -1 to 1)", "Box(2, from -2 to 2)"),
        (SAC, make_box(1), make_box(1, high=2.0), "Box(1, from -1 to 1)", "Box(1, from -2 to 2)"),
        (PPO, TWO_ACTIONS, spaces.Discrete(2, start=1), "Discrete(2)", "Discrete(2, start=1)"),
    ],
)
def test_a_policy_is_refused_with_action_spaces_of_other_bounds_or_starts(
    facade: Any, first: Any, second: Any, there: str, here: str, tmp_path: Path
) -> None:
    options: dict[str, Any] = SMALL if facade is PPO else {"net_arch": (4,), "batch_size": 8}
    facade(make_samples_env(make_box(3), first), **options).save(tmp_path / "saved")
    told = f"its policy learned with actions {there}, but actions here are {here}"
    with pytest.raises(CheckpointError) as loading:
        facade.from_checkpoint(tmp_path / "saved", env_id=make_samples_env(make_box(3), second))
    assert told in str(loading.value)
    with pytest.raises(ConfigError) as beginning:
        facade(make_samples_env(make_box(3), second), init_from=tmp_path / "saved", **options)
    assert told in str(beginning.value)


@pytest.mark.parametrize(
    "other",
    [make_box(3, high=9.0), make_box(1, 3), make_box(3, dtype=np.float64)],
    ids=["wider", "axis", "f64"],
)
def test_a_policy_accepts_observation_spaces_with_equal_rows(other: Any, tmp_path: Path) -> None:
    PPO(make_samples_env(make_box(3)), **SMALL).save(tmp_path / "saved")
    loaded = PPO.from_checkpoint(tmp_path / "saved", env_id=make_samples_env(other))
    loaded.train(8)
    assert loaded.clock.now == 8
    begun = PPO(make_samples_env(other), init_from=tmp_path / "saved", **SMALL)
    assert begun.origin is not None


@pytest.mark.parametrize("facade", [PPO, A2C])
@pytest.mark.parametrize("backend", ["native", "torch"])
def test_every_engine_writes_the_spaces_and_earlier_checkpoints_without_them_are_taken(
    facade: Any, backend: str, tmp_path: Path
) -> None:
    options = {"n_envs": 1, "net_arch": (4,), "backend": backend}
    saved = facade("Pendulum-v1", **options).checkpoint()
    assert saved.state["spaces"] == {
        "observations": "Box(3)",
        "actions": "Box(1, from -2 to 2)",
    }
    state = {key: value for key, value in saved.state.items() if key != "spaces"}
    unit = np.float32([-1, 1])
    narrow = facade(lambda: gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), *unit), **options)
    narrow.restore(replace(saved, state=state))
    with pytest.raises(CheckpointError, match=r"actions here are Box\(1, from -1 to 1\)"):
        narrow.restore(saved)


@pytest.mark.parametrize(
    ("space", "bounds", "words"),
    [
        (make_box(4), True, "Box(4, from -1 to 1)"),
        (spaces.Box(np.float32([-1, -2]), np.float32([1, 0.1])), True, "Box(2, from [-1, -2] to [1, 0.1])"),
        (spaces.Box(0.1, 0.2, (1,), np.float64), True, "Box(1, from 0.1 to 0.2)"),
        (spaces.Box(-np.inf, np.inf, ()), True, "Box(1, from -inf to inf)"),
        (spaces.Box(0, 9, (2,), np.int64), True, "Box(2, from 0 to 9, whole numbers)"),
        (spaces.Box(0, 9, (2,), np.int64), False, "Box(2)"),
        (spaces.Box(0, 255, (8, 8, 1), np.uint8), False, "Box(8x8x1)"),
        (spaces.MultiDiscrete([2, 3], start=[0, 1]), False, "MultiDiscrete([2, 3], start=[0, 1])"),
        (spaces.MultiBinary([2, 3]), False, "MultiBinary(2x3)"),
        (spaces.Tuple([TWO_ACTIONS, make_box(2)]), True, "Tuple(Discrete(2), Box(2, from -1 to 1))"),
    ],
)  # fmt: skip
def test_a_space_in_words_says_what_a_policy_depends_on(space: Any, bounds: bool, words: str) -> None:
    assert describe_space(space, bounds) == words
