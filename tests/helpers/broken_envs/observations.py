"""Environments whose observations violate their observation space."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from .base import Line, register_broken


@register_broken("observation-dtype")
class DoublePrecision(Line):
    def observe(self) -> Any:
        return np.array([self.x, self.t / 20])


@register_broken("observation-shape")
class AnotherShape(Line):
    def observe(self) -> Any:
        return super().observe()[None]


@register_broken("observation-bounds")
class OutOfBounds(Line):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(-1, 0.5, (2,), np.float32)


@register_broken("observation-nan")
class NotANumber(Line):
    def observe(self) -> Any:
        return super().observe() if self.t != 3 else np.array([np.nan, 0], np.float32)


@register_broken("observation-infinite")
class Infinite(Line):
    """Its observation is within the bounds, which are infinite."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def observe(self) -> Any:
        return super().observe() if self.t != 3 else np.array([np.inf, 0], np.float32)


@register_broken("observation-container")
class AList(Line):
    def observe(self) -> Any:
        return super().observe().tolist()


@register_broken("observation-none")
class ForgotToReturn(Line):
    def observe(self) -> Any:
        super().observe()


class Parts(Line):
    """Sound: place and time by name."""

    def __init__(self) -> None:
        super().__init__()
        one = spaces.Box(-10, 10, (1,), np.float32)
        self.observation_space = spaces.Dict({"place": one, "time": one})

    def observe(self) -> Any:
        return {"place": np.float32([self.x]), "time": np.float32([self.t / 20])}


@register_broken("observation-missing-part")
class MissingPart(Parts):
    def observe(self) -> Any:
        return {"place": super().observe()["place"]}


@register_broken("observation-extra-part")
class ExtraPart(Parts):
    def observe(self) -> Any:
        return super().observe() | {"speed": np.zeros(1, np.float32)}


@register_broken("observation-no-mapping")
class PartsAsList(Parts):
    def observe(self) -> Any:
        return np.concatenate(list(super().observe().values()))


@register_broken("observation-tuple-length")
class HalfATuple(Line):
    def __init__(self) -> None:
        super().__init__()
        one = spaces.Box(-10, 10, (1,), np.float32)
        self.observation_space = spaces.Tuple((one, one))

    def observe(self) -> Any:
        return (np.float32([self.x]),)


class Cell(Line):
    """Sound: the place as one of 40 cells."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Discrete(40)

    def observe(self) -> Any:
        return int(np.clip(4 * self.x + 20, 0, 39))


@register_broken("observation-choice-range")
class CountsFromOne(Cell):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Discrete(20)

    def observe(self) -> Any:
        return 1 + min(self.t, 19)


@register_broken("observation-choice-kind")
class FloatCell(Cell):
    def observe(self) -> Any:
        return float(super().observe())


class Cells(Line):
    """Sound: place and time as cells."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.MultiDiscrete([40, 21])

    def observe(self) -> Any:
        return np.array([np.clip(4 * self.x + 20, 0, 39), self.t], np.int64)


@register_broken("observation-choices-length")
class OneCellMore(Cells):
    def observe(self) -> Any:
        return np.append(super().observe(), 0)


@register_broken("observation-choices-range")
class CellOutOfRange(Cells):
    def observe(self) -> Any:
        return super().observe() + np.array([0, 5 * (self.t == 20) + 16 * (self.t > 4)])


@register_broken("observation-binary")
class CountsForBits(Line):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.MultiBinary(3)

    def observe(self) -> Any:
        return np.array([self.x > 0, self.t > 10, self.t % 3], np.int8)


@register_broken("observation-outside")
class TextOutOfCharset(Line):
    """Its space has no rule of its own in the check."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Text(8, charset="abc")

    def observe(self) -> Any:
        return "ABC"


@register_broken("observation-aliased")
class OneArrayForAll(Line):
    def __init__(self) -> None:
        super().__init__()
        self.array = np.zeros(2, np.float32)

    def observe(self) -> Any:
        self.array[:] = super().observe()
        return self.array


@register_broken("image-float", "warning")
class FloatImage(Line):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0, 255, (12, 12, 3), np.float32)

    def observe(self) -> Any:
        return np.full((12, 12, 3), 100 + 10 * np.clip(self.x, -9, 9), np.float32)


@register_broken("observation-digits", "warning")
class SecondsSince1970(Line):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)

    def observe(self) -> Any:
        return np.array([self.x, 1.7e9 + self.t])


class MetresOnTheEquator(Line):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)

    def observe(self) -> Any:
        return np.array([self.x, 1e7 + 0.25 * (self.t % 2)])


class MicroscopicDegrees(Line):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Dict(
            {"x": spaces.Box(-10, 10, (), np.float64), "at": spaces.Box(-90, 90, (2,), np.float64)}
        )

    def observe(self) -> Any:
        return {"x": np.float64(self.x), "at": np.array([0.0, 48.137 + 1e-7 * (self.t % 2)])}


@register_broken("observation-large", "warning")
class TwoMegabytes(Line):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(-10, 10, (500_000,), np.float32)

    def observe(self) -> Any:
        return np.full(500_000, np.clip(self.x, -9, 9), np.float32)
