"""Environments whose spaces are missing, of a wrong kind, or change."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from gymnasium import spaces

from .base import Line, VectorLine, register_broken


@register_broken("no-observation-space")
class NoObservationSpace(Line):
    def __init__(self) -> None:
        super().__init__()
        del self.observation_space


@register_broken("no-action-space")
class NoActionSpace(Line):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = None


@register_broken("observation-space-kind")
class ShapeForASpace(Line):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = (2,)


@register_broken("action-space-kind")
class NumberForASpace(Line):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = 3


@register_broken("observation-space-changed")
class WidensItsBounds(Line):
    def step(self, action: Any) -> Any:
        result = super().step(action)
        self.observation_space.high[0] = 10 + self.t
        return result


@register_broken("action-space-changed")
class DrawsItsBounds(VectorLine):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        result = super().reset(seed=seed)
        bound = np.float32(1 + 0.1 * self.np_random.random())
        self.action_space = spaces.Box(-bound, bound, (2,), np.float32)
        return result


@register_broken("no-algorithm", is_isolated=True)
class TextObservation(Line):
    """Gives its position as text, which no network can use."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.observation_space = spaces.Text(20, charset="0123456789.- ")

    def observe(self) -> Any:
        return f"{self.x:.2f} {self.t}"


@register_broken("spaces-differ")
class EachCopyAnother(Line):
    copy_count = itertools.count(3)

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Discrete(next(self.copy_count))

    def action_force(self, action: Any) -> float:
        return float(min(action, 2)) - 1
