"""Spaces that are missing, of another kind, or that change."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from gymnasium import spaces

from .kinds import Line, VectorLine, broken


@broken("no-observation-space")
class NoObservationSpace(Line):
    def __init__(self) -> None:
        super().__init__()
        del self.observation_space


@broken("no-action-space")
class NoActionSpace(Line):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = None


@broken("observation-space-kind")
class ShapeForASpace(Line):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = (2,)


@broken("action-space-kind")
class NumberForASpace(Line):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = 3


@broken("observation-space-changed")
class WidensItsBounds(Line):
    def step(self, action: Any) -> Any:
        result = super().step(action)
        self.observation_space.high[0] = 10 + self.t
        return result


@broken("action-space-changed")
class DrawsItsBounds(VectorLine):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        result = super().reset(seed=seed)
        bound = np.float32(1 + 0.1 * self.np_random.random())
        self.action_space = spaces.Box(-bound, bound, (2,), np.float32)
        return result


@broken("no-algorithm", apart=True)
class Tells(Line):
    """Says where it is in words, of which no network makes anything."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.observation_space = spaces.Text(20, charset="0123456789.- ")

    def seen(self) -> Any:
        return f"{self.x:.2f} {self.t}"


@broken("spaces-differ")
class EachCopyAnother(Line):
    made = itertools.count(3)

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Discrete(next(self.made))

    def push(self, action: Any) -> float:
        return float(min(action, 2)) - 1
