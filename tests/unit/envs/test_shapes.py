"""Tests that an observation of another shape than its space is refused, even with as many numbers."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rlox.algorithms import PPO
from rlox.envs.parts_codec import codec_of
from rlox.errors import EnvError, RloxError

MATRIX_SPACE = spaces.Box(-1.0, 1.0, (2, 3), np.float32)
IMAGE_SPACE = spaces.Box(0.0, 1.0, (6, 8, 3), np.float32)


@pytest.mark.parametrize(
    ("space", "shape"),
    [
        (MATRIX_SPACE, (3, 2)), (MATRIX_SPACE, (6,)), (MATRIX_SPACE, (6, 1)), (MATRIX_SPACE, (1, 6)),
        (IMAGE_SPACE, (8, 6, 3)), (IMAGE_SPACE, (3, 6, 8)),
        (spaces.Box(0, 255, (36, 40, 3), np.uint8), (40, 36, 3)),
        (spaces.MultiDiscrete([[2, 3, 4], [4, 3, 2]]), (3, 2)),
        (spaces.MultiBinary((2, 3)), (3, 2)),
    ],
)  # fmt: skip
def test_a_codec_refuses_another_shape_of_the_same_size(space: Any, shape: tuple[int, ...]) -> None:
    seen = np.zeros(shape, space.dtype)
    both = codec_of(space), codec_of(spaces.Dict(a=space))
    for codec, one, many in zip(both, (seen, {"a": seen}), (seen[None], {"a": seen[None]}), strict=True):
        with pytest.raises(ValueError, match=r"shape"):
            codec.encode_one(one)
        with pytest.raises(ValueError, match=r"shape"):
            codec.encode_batch(many)


@pytest.mark.parametrize(
    ("space", "seen"),
    [
        (spaces.Box(-1.0, 1.0, (1,)), 0.5),
        (spaces.Box(-1.0, 1.0, (3,)), [[0.5], [0.5], [0.5]]),
        (spaces.Box(-1.0, 1.0, (3, 1)), [0.5, 0.5, 0.5]),
        (spaces.Box(-1.0, 1.0, ()), [0.5]),
    ],
)
def test_a_codec_ignores_axes_of_length_1(space: Any, seen: Any) -> None:
    assert (codec_of(space).encode_one(seen) == 0.5).all()


class TransposedObs(gym.Env[Any, Any]):
    """Its third observation has the transposed shape."""

    observation_space, action_space = MATRIX_SPACE, spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.t = 0
        return np.zeros((2, 3), np.float32), {}

    def step(self, action: Any) -> Any:
        self.t += 1
        return np.zeros((3, 2) if self.t == 3 else (2, 3), np.float32), 0.0, False, self.t == 9, {}


@pytest.mark.parametrize("workers", ["sync", "subprocess"])
def test_the_error_for_a_transposed_observation_names_both_shapes(workers: str) -> None:
    algorithm = PPO(TransposedObs, n_envs=2, n_steps=8, batch_size=8, workers=workers)
    with pytest.raises(EnvError, match=r"\(3, 2\), expected \(2, 3\)"):
        algorithm.train(64)


def test_predict_refuses_a_transposed_observation() -> None:
    algorithm = PPO(TransposedObs, n_envs=1, n_steps=8, batch_size=8)
    assert algorithm.predict(np.zeros((2, 3))) in (0, 1)
    for turned in (np.zeros((3, 2)), np.zeros((4, 3, 2))):
        with pytest.raises(RloxError, match=r"\(3, 2\)"):
            algorithm.predict(turned)
