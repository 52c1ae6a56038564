"""One-step tasks that a policy can solve only if it uses every part of the observation.

Half of the answers are 1 whatever a single part shows. So a policy that misses one part gets 0 on average,
and a policy that uses all parts gets 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

__all__ = ["EYE", "PROBES", "ObservationProbe"]

MakeTask = Callable[[np.random.Generator], tuple[Any, bool]]


class ObservationProbe(gym.Env[Any, Any]):
    """Shows an observation of `make_task`; pays 1 for the right choice and -1 for the wrong one.

    With vectors the answer is 0.7 or -0.7; the reward is 1 there and 0 in the middle.
    """

    def __init__(self, space: spaces.Space[Any], make_task: MakeTask, vectors: bool = False) -> None:
        self.observation_space, self.make_task = space, make_task
        self.action_space: Any = spaces.Box(-1, 1, (1,)) if vectors else spaces.Discrete(2)
        self.vectors = vectors

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.obs, self.answer = self.make_task(self.np_random)
        return self.obs, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self.vectors:
            reward = 1.0 - abs(float(action[0]) - (0.7 if self.answer else -0.7)) / 0.7
        else:
            reward = 1.0 if bool(action) == self.answer else -1.0
        return self.obs, reward, True, False, {}

    def save_state(self) -> dict[str, Any]:
        return {"shown": self.obs, "answer": self.answer}

    def load_state(self, state: dict[str, Any]) -> None:
        self.obs, self.answer = state["shown"], bool(state["answer"])


def bit(rng: np.random.Generator) -> bool:
    return bool(rng.integers(2))


def picture(rng: np.random.Generator, side: int, answer: bool, channels: int = 1) -> Any:
    """Return a dark image with a bright square in the right or the left half."""
    image = rng.integers(0, 30, (side, side, channels)).astype(np.uint8)
    size = max(side // 6, 1)
    row = rng.integers(side - size + 1)
    column = rng.integers(side // 2 - size + 1) + (side - side // 2 if answer else 0)
    image[row : row + size, column : column + size] = 255
    return image


def both_keys(rng: np.random.Generator) -> tuple[Any, bool]:
    one, other = bit(rng), bit(rng)
    sign = np.array([1.0 if other else -1.0], np.float32)
    return {"one": np.int64(one), "other": sign}, one != other


def every_part(rng: np.random.Generator) -> tuple[Any, bool]:
    one, two, three = bit(rng), bit(rng), bit(rng)
    inside = {"flags": np.array([two, bit(rng)], np.int8), "choices": np.array([three, 2])}
    return (np.int64(one + 5), inside), one ^ two ^ three


def image_alone(side: int, channels: int) -> MakeTask:
    def ask(rng: np.random.Generator) -> tuple[Any, bool]:
        answer = bit(rng)
        return picture(rng, side, answer, channels), answer

    return ask


def image_and_vector(rng: np.random.Generator) -> tuple[Any, bool]:
    answer, up = bit(rng), bit(rng)
    wind = np.array([1.0 if up else -1.0, rng.normal()], np.float32)
    return {"eye": picture(rng, 8, answer, 3), "wind": wind}, answer != up


def frames(rng: np.random.Generator) -> tuple[Any, bool]:
    """Return frames of a moving square, whose position does not show its direction."""
    answer, at, row = bit(rng), int(rng.integers(2, 8)), int(rng.integers(9))
    stack = np.zeros((2, 10, 10), np.uint8)
    for t in range(2):
        column = at + (2 if answer else -2) * t - (1 if answer else -1)
        stack[t, row : row + 2, column] = 255
    return stack, answer


def image(*shape: int) -> spaces.Box:
    return spaces.Box(0, 255, shape, np.uint8)


PROBES: dict[str, tuple[spaces.Space[Any], MakeTask]] = {
    "both keys of a Dict": (
        spaces.Dict({"one": spaces.Discrete(2), "other": spaces.Box(-1, 1, (1,))}),
        both_keys,
    ),
    "every part of a Tuple": (
        spaces.Tuple(
            [
                spaces.Discrete(2, start=5),
                spaces.Dict({"flags": spaces.MultiBinary(2), "choices": spaces.MultiDiscrete([2, 3])}),
            ]
        ),
        every_part,
    ),
    "a small image": (image(8, 8, 3), image_alone(8, 3)),
    "an image": (image(36, 36, 1), image_alone(36, 1)),
    "an image and a vector": (
        spaces.Dict({"eye": image(8, 8, 3), "wind": spaces.Box(-9, 9, (2,))}),
        image_and_vector,
    ),
    "the movement between frames": (image(2, 10, 10), frames),
}


EYE = "Riddle/Eye-v0"
gym.register(EYE, lambda: ObservationProbe(*PROBES["an image and a vector"]))
