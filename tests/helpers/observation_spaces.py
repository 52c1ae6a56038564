"""Observation spaces of every kind by name, and an environment that returns samples of one."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

__all__ = ["REFUSED_SPACES", "SPACES", "Samples"]


def box(shape: tuple[int, ...], dtype: Any = np.float32, high: float = 9) -> spaces.Box:
    return spaces.Box(-high, high, shape, dtype)


def image(shape: tuple[int, ...], high: int = 255) -> spaces.Box:
    return spaces.Box(0, high, shape, np.uint8)


CHOICES = spaces.MultiDiscrete([2, 3])
ARM = spaces.Dict({"joints": box((3,)), "grip": spaces.Discrete(2, start=-1)})
SPACES: dict[str, spaces.Space[Any]] = {
    "a number": box(()),
    "a vector": box((3,)),
    "a matrix": box((2, 3)),
    "a cube of floats": box((2, 3, 4), np.float64),
    "no bounds": box((2,), high=np.inf),
    "whole numbers": box((3,), np.int64),
    "small whole numbers": box((2, 2), np.int8),
    "memory": image((8,)),
    "truths": spaces.Box(0, 1, (3,), np.bool_),
    "a board of two colours": image((3, 3), high=2),
    "a choice": spaces.Discrete(4),
    "a choice from 3 on": spaces.Discrete(3, start=3),
    "choices": CHOICES,
    "a table of choices": spaces.MultiDiscrete(np.array([[2, 3], [4, 2]]), start=np.array([[1, 0], [0, -2]])),
    "bits": spaces.MultiBinary(5),
    "a table of bits": spaces.MultiBinary([2, 3]),
    "a Dict": spaces.Dict({"place": box((2,)), "phase": spaces.Discrete(3), "flags": spaces.MultiBinary(2)}),
    "a Tuple": spaces.Tuple([box((2,)), spaces.Discrete(3), CHOICES]),
    "a Dict of a Dict and a Tuple": spaces.Dict(
        {"arm": ARM, "legs": spaces.Tuple([box((2,)), ARM]), "nothing": spaces.Dict({})}
    ),
    "a grid": image((7, 7, 3)),
    "a picture": image((36, 40, 1)),
    "a picture without channels": image((12, 12)),
    "a picture of a middle size": image((3, 18, 20)),
    "stacked frames": image((4, 36, 36)),
    "frames of pictures": image((2, 9, 9, 3)),
    "a board of planes": image((8, 8, 2), high=1),
    "a picture and a vector": spaces.Dict({"eye": image((7, 7, 3)), "speed": box((2,))}),
    "pictures deep inside": spaces.Dict(
        {"arm": ARM, "e": spaces.Tuple([image((5, 5, 3)), spaces.Dict({"l": image((4, 6)), "z": CHOICES})])}
    ),
}  # fmt: skip

# Spaces without a fixed size, and the text that the message names.
REFUSED_SPACES: dict[str, tuple[spaces.Space[Any], str]] = {
    "text": (spaces.Text(4), "flatten_observation"),
    "a sequence": (spaces.Sequence(box((2,))), "pad it to a Box"),
    "a graph": (spaces.Graph(box((2,)), None), "Boxes of fixed sizes"),
    "one of several": (spaces.OneOf([box((2,)), CHOICES]), "a part for each of its spaces"),
    "text inside": (spaces.Dict({"arm": ARM, "said": spaces.Tuple([spaces.Text(4)])}), "'said', part '0'"),
}  # fmt: skip


class Samples(gym.Env[Any, Any]):
    """Returns samples of its space, five steps an episode; its whole state can be saved."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: Any) -> None:
        self.observation_space = copy.deepcopy(observation_space)
        self.action_space = action_space
        self.t = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        self.t += 1
        return self.observe(), float(self.t), self.t == 5, False, {}

    def save_state(self) -> dict[str, Any]:
        return {"t": self.t}

    def load_state(self, state: dict[str, Any]) -> None:
        self.t = int(state["t"])

    def observe(self) -> Any:
        self.observation_space.seed(int(self.np_random.integers(1 << 30)))
        return self.observation_space.sample()
