"""Environments of any action space, where each part of an action must be right by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import signature
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

CONTEXTS = 4

FORCE = spaces.Box(-1, 1, (1,), np.float32)
GEAR = spaces.Dict({"gear": spaces.Discrete(3, start=-1), "force": FORCE})

# The oldest supported Gymnasium has no dtype of Discrete: its actions are int64.
BYTES: dict[str, Any] = {"dtype": np.uint8} if "dtype" in signature(spaces.Discrete).parameters else {}

# The spaces by name; the environment is `Match<name>-v0`.
SPACES: dict[str, gym.Space[Any]] = {
    "Discrete": spaces.Discrete(3),
    "DiscreteFromFive": spaces.Discrete(3, start=5, **BYTES),
    "MultiDiscrete": spaces.MultiDiscrete([3, 2]),
    "MultiDiscreteGrid": spaces.MultiDiscrete(
        np.array([[2, 3], [4, 2]]), dtype=np.int32, start=np.array([[0, -1], [7, 1]])
    ),
    "MultiBinary": spaces.MultiBinary(3),
    "MultiBinaryGrid": spaces.MultiBinary([2, 2]),
    "Box": spaces.Box(-1, 1, (2,), np.float32),
    "BoxOneSided": spaces.Box(np.array([-np.inf, 0]), np.array([2, np.inf]), dtype=np.float64),
    "BoxGrid": spaces.Box(np.float16([[-1, 0]] * 2), np.float16([[1, 2]] * 2), dtype=np.float16),
    "BoxWhole": spaces.Box(np.int8([-2, 0]), np.int8([2, 100]), dtype=np.int8),
    "BoxSingle": spaces.Box(-1, 1, (), np.float32),
    "DictMixed": GEAR,
    "TupleOfChoices": spaces.Tuple([spaces.MultiDiscrete([2, 3]), spaces.MultiBinary(2)]),
    "Nested": spaces.Dict({"arm": spaces.Tuple([GEAR, FORCE]), "lamp": spaces.MultiBinary(1)}),
    "DictOfBoxes": spaces.Dict({"wheel": FORCE, "brake": spaces.Box(0, 1, (2,), np.float64)}),
    "Text": spaces.Text(3),
    "DictWithSequence": spaces.Dict({"gear": spaces.Discrete(2), "path": spaces.Sequence(FORCE)}),
}


class Match(gym.Env[Any, Any]):
    """Shows a number at each of `limit` steps; each part of an action is right for some numbers only.

    Choice k of a space is right at `(number + k) % n`. Number k of its Boxes is right at 0.5 or, for odd
    `number + k`, at -0.5 (in a Box that begins at 0: 0.5 or 0). The reward is the mean of all parts'
    correctness, from 0 to 1. A policy that leaves one part to chance stays below 1. An action outside the
    space, by its form or its dtype, raises.
    """

    def __init__(self, name: str = "MultiDiscrete", limit: int = 8) -> None:
        self.observation_space = spaces.Box(0, 1, (CONTEXTS,), np.float32)
        self.action_space = SPACES[name]
        self.limit = limit
        self.t = self.number = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self.observe(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        require_form(self.action_space, action)
        part_scores = [
            score for part in parts_of(self.action_space, action) for score in self.part_scores(*part)
        ]
        self.t += 1
        return (
            self.observe(),
            float(np.mean(part_scores)),
            self.t == self.limit,
            False,
            self._info(),
        )

    def save_state(self) -> dict[str, Any]:
        return {"t": self.t, "number": self.number}

    def load_state(self, state: dict[str, Any]) -> None:
        self.t, self.number = state["t"], state["number"]

    def observe(self) -> NDArray[np.float32]:
        self.number = int(self.np_random.integers(CONTEXTS))
        return np.eye(CONTEXTS, dtype=np.float32)[self.number]

    def _info(self) -> dict[str, Any]:
        return {}

    def part_scores(self, space: gym.Space[Any], value: Any) -> Iterator[float]:
        if isinstance(space, spaces.Box):
            for k, number in enumerate(np.ravel(value).astype(np.float64)):
                lowest = 0.0 if space.low.flat[k] == 0 else -0.5
                goal = lowest if (self.number + k) % 2 else 0.5
                yield 1.0 - min(abs(number - goal), 1.0)
            return
        for k, (choice, n) in enumerate(zip(choices_of(space, value), values_of(space), strict=True)):
            yield float(choice == (self.number + k) % n)


class MaskedMatch(Match):
    """The same with masks: each choice of several values forbids `(number + k + 1) % n`, and then raises.

    The info has the mask: of all choices in a row, or with `parts` in the form of the space. `spoil` changes
    the mask.
    """

    def __init__(
        self,
        name: str = "MultiDiscrete",
        limit: int = 8,
        parts: bool = False,
        spoil: Callable[[Any], Any] = lambda mask: mask,
    ) -> None:
        super().__init__(name, limit)
        self.parts, self.spoil = parts, spoil

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        for space, value in parts_of(self.action_space, action):
            if not isinstance(space, spaces.Box):
                masks = self._masks(space)
                for mask, choice in zip(masks, choices_of(space, value), strict=True):
                    assert mask[choice], f"{choice} of {space} is barred by {mask}"
        return super().step(action)

    def mask(self) -> Any:
        """Return the mask for the info."""
        if self.parts:
            return self._nested(self.action_space)
        leaves = [part for part, _ in parts_of(self.action_space, self.action_space.sample())]
        return np.concatenate([m for part in leaves for m in self._masks(part)])

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self.spoil(self.mask())}

    def _masks(self, space: gym.Space[Any]) -> list[NDArray[np.int8]]:
        masks = []
        for k, n in enumerate([] if isinstance(space, spaces.Box) else values_of(space)):
            masks.append(np.ones(n, np.int8))
            if n > 1:
                masks[k][(self.number + k + 1) % n] = 0
        return masks

    def _nested(self, space: gym.Space[Any]) -> Any:
        if isinstance(space, spaces.Dict):
            boxes = {key for key, part in space.spaces.items() if isinstance(part, spaces.Box)}
            return {k: self._nested(part) for k, part in space.spaces.items() if k not in boxes}
        if isinstance(space, spaces.Tuple):
            return tuple(self._nested(part) for part in space.spaces)
        return None if isinstance(space, spaces.Box) else np.concatenate(self._masks(space))


def values_of(space: Any) -> list[int]:
    """Return the number of values of each choice."""
    if isinstance(space, spaces.MultiBinary):
        return [2] * int(np.prod(space.shape))
    return [int(n) for n in np.ravel(space.n if isinstance(space, spaces.Discrete) else space.nvec)]


def choices_of(space: Any, value: Any) -> list[int]:
    """Return the choices of an action, from 0."""
    start = 0 if isinstance(space, spaces.MultiBinary) else space.start
    return [int(choice) for choice in np.ravel(value - start)]


def parts_of(space: gym.Space[Any], value: Any) -> list[tuple[gym.Space[Any], Any]]:
    """Return the parts of Dicts and Tuples with their values."""
    if isinstance(space, spaces.Dict):
        return [pair for k, part in space.spaces.items() for pair in parts_of(part, value[k])]
    if isinstance(space, spaces.Tuple):
        return [p for part, v in zip(space.spaces, value, strict=True) for p in parts_of(part, v)]
    return [(space, value)]


def require_form(space: gym.Space[Any], action: Any) -> None:
    """Assert that the action is in the space, and that each array and number has its exact dtype."""
    assert space.contains(action), f"{action!r} is not in {space}"
    for part, value in parts_of(space, action):
        assert value.dtype == part.dtype, f"{value!r} is {value.dtype}, not of {part}"
        assert isinstance(value, np.generic if isinstance(part, spaces.Discrete) else np.ndarray)


def env_id(name: str) -> str:
    """Return the id of the environment with that action space."""
    return f"Match{name}-v0"


for _name in SPACES:
    gym.register(env_id(_name), Match, kwargs={"name": _name})
MASKED_MATCH = "BarredNested-v0"
gym.register(MASKED_MATCH, lambda: MaskedMatch("Nested", parts=True))
