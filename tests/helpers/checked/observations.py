"""Observations that are not what the observation space promises."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from .kinds import Line, broken


@broken("observation-dtype")
class DoublePrecision(Line):
    def seen(self) -> Any:
        return np.array([self.x, self.t / 20])


@broken("observation-shape")
class AnotherShape(Line):
    def seen(self) -> Any:
        return super().seen()[None]


@broken("observation-bounds")
class OutOfBounds(Line):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(-1, 0.5, (2,), np.float32)


@broken("observation-nan")
class NotANumber(Line):
    def seen(self) -> Any:
        return super().seen() if self.t != 3 else np.array([np.nan, 0], np.float32)


@broken("observation-infinite")
class Infinite(Line):
    """Within its bounds, which are infinite themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def seen(self) -> Any:
        return super().seen() if self.t != 3 else np.array([np.inf, 0], np.float32)


@broken("observation-container")
class AList(Line):
    def seen(self) -> Any:
        return super().seen().tolist()


@broken("observation-none")
class ForgotToReturn(Line):
    def seen(self) -> Any:
        super().seen()


class Parts(Line):
    """Sound: the place and the time by name."""

    def __init__(self) -> None:
        super().__init__()
        one = spaces.Box(-10, 10, (1,), np.float32)
        self.observation_space = spaces.Dict({"place": one, "time": one})

    def seen(self) -> Any:
        return {"place": np.float32([self.x]), "time": np.float32([self.t / 20])}


@broken("observation-missing-part")
class MissingPart(Parts):
    def seen(self) -> Any:
        return {"place": super().seen()["place"]}


@broken("observation-extra-part")
class ExtraPart(Parts):
    def seen(self) -> Any:
        return super().seen() | {"speed": np.zeros(1, np.float32)}


@broken("observation-no-mapping")
class PartsInARow(Parts):
    def seen(self) -> Any:
        return np.concatenate(list(super().seen().values()))


@broken("observation-tuple-length")
class HalfATuple(Line):
    def __init__(self) -> None:
        super().__init__()
        one = spaces.Box(-10, 10, (1,), np.float32)
        self.observation_space = spaces.Tuple((one, one))

    def seen(self) -> Any:
        return (np.float32([self.x]),)


class Cell(Line):
    """Sound: the place as one of 40 cells."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Discrete(40)

    def seen(self) -> Any:
        return int(np.clip(4 * self.x + 20, 0, 39))


@broken("observation-choice-range")
class CountsFromOne(Cell):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Discrete(20)

    def seen(self) -> Any:
        return 1 + min(self.t, 19)


@broken("observation-choice-kind")
class FloatCell(Cell):
    def seen(self) -> Any:
        return float(super().seen())


class Cells(Line):
    """Sound: the place and the time as cells."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.MultiDiscrete([40, 21])

    def seen(self) -> Any:
        return np.array([np.clip(4 * self.x + 20, 0, 39), self.t], np.int64)


@broken("observation-choices-length")
class OneCellMore(Cells):
    def seen(self) -> Any:
        return np.append(super().seen(), 0)


@broken("observation-choices-range")
class BesideItsCells(Cells):
    def seen(self) -> Any:
        return super().seen() + np.array([0, 5 * (self.t == 20) + 16 * (self.t > 4)])


@broken("observation-binary")
class CountsForBits(Line):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.MultiBinary(3)

    def seen(self) -> Any:
        return np.array([self.x > 0, self.t > 10, self.t % 3], np.int8)


@broken("observation-outside")
class SpeaksInCapitals(Line):
    """Of a space that has no rule of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Text(8, charset="abc")

    def seen(self) -> Any:
        return "ABC"


@broken("observation-aliased")
class OneArrayForAll(Line):
    def __init__(self) -> None:
        super().__init__()
        self.array = np.zeros(2, np.float32)

    def seen(self) -> Any:
        self.array[:] = super().seen()
        return self.array


@broken("image-float", "warning")
class FloatImage(Line):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(0, 255, (12, 12, 3), np.float32)

    def seen(self) -> Any:
        return np.full((12, 12, 3), 100 + 10 * np.clip(self.x, -9, 9), np.float32)


@broken("observation-digits", "warning")
class SecondsSince1970(Line):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)

    def seen(self) -> Any:
        return np.array([self.x, 1.7e9 + self.t])


class MetresOnTheEquator(Line):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)

    def seen(self) -> Any:
        return np.array([self.x, 1e7 + 0.25 * (self.t % 2)])


class MicroscopicDegrees(Line):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Dict(
            {"x": spaces.Box(-10, 10, (), np.float64), "at": spaces.Box(-90, 90, (2,), np.float64)}
        )

    def seen(self) -> Any:
        return {"x": np.float64(self.x), "at": np.array([0.0, 48.137 + 1e-7 * (self.t % 2)])}


@broken("observation-large", "warning")
class TwoMegabytes(Line):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Box(-10, 10, (500_000,), np.float32)

    def seen(self) -> Any:
        return np.full(500_000, np.clip(self.x, -9, 9), np.float32)
