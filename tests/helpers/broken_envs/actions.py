"""Environments that treat actions against their action space, or have wrong action masks."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from .base import Line, VectorLine, register_broken


@register_broken("action-changed")
class ClipsInPlace(VectorLine):
    def action_force(self, action: Any) -> float:
        np.clip(action, -0.2, 0.2, out=action)
        return super().action_force(action)


@register_broken("action-kept")
class KeepsCallerArray(VectorLine):
    """Rewards smoothness, and keeps the caller's array instead of a copy."""

    last: Any = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.last = None
        return super().reset(seed=seed)

    def step(self, action: Any) -> Any:
        obs, reward, *rest = super().step(action)
        before, self.last = self.last, action
        return obs, reward if before is None else -float(np.abs(action - before).sum()), *rest


@register_broken("bounds-refused")
class StrictlyInside(VectorLine):
    def action_force(self, action: Any) -> float:
        assert (np.abs(action) < 1).all(), "action out of range"
        return super().action_force(action)


@register_broken("choice-refused")
class OffByOne(Line):
    """Fails at its last choice."""

    def action_force(self, action: Any) -> float:
        return (-1.0, 1.0)[action]


@register_broken("actions-unbounded", "warning")
class WithoutBounds(VectorLine):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def action_force(self, action: Any) -> float:
        return super().action_force(np.clip(action, -1, 1))


@register_broken("actions-uneven", "warning")
class ForwardOnly(VectorLine):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Box(0, 100, (2,), np.float32)

    def action_force(self, action: Any) -> float:
        return super().action_force(action) / 50 - 1


@register_broken("actions-constant", "warning")
class NothingToChoose(VectorLine):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Box(np.float32([-1, 0]), np.float32([1, 0]))


@register_broken("actions-whole", "warning")
class WholeNumbers(VectorLine):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Box(-1, 1, (2,), np.int64)


class Walled(Line):
    """Sound: it allows no step further out at a wall, and its mask says so."""

    def mask(self) -> Any:
        return np.array([self.x > -1, True, self.x < 1], np.int8)

    def make_info(self) -> Any:
        return {"action_mask": self.mask()}

    def action_force(self, action: Any) -> float:
        assert self.mask()[action], "there is a wall"
        return super().action_force(action)


@register_broken("mask-unused", is_isolated=True)
class RefusesWhatIsForbidden(Line):
    """Has its mask only as a method, which a run must select in its configuration."""

    def action_masks(self) -> Any:
        return np.array([self.t % 2, True, True], bool)

    def step(self, action: Any) -> Any:
        assert self.action_masks()[action], "there is a wall"
        return super().step(action)


@register_broken("mask-length")
class MaskTooLong(Walled):
    def make_info(self) -> Any:
        return {"action_mask": np.append(self.mask(), 1)}


@register_broken("mask-values")
class MaskOfTwos(Walled):
    def make_info(self) -> Any:
        return {"action_mask": 2 * self.mask()}


@register_broken("mask-empty")
class NothingAllowed(Walled):
    def make_info(self) -> Any:
        return {"action_mask": self.mask() * (self.t != 3)}


@register_broken("mask-missing")
class MaskOfResetsOnly(Line):
    def make_info(self) -> Any:
        return {} if self.t else {"action_mask": np.ones(3, np.int8)}


@register_broken("mask-fails")
class FailsToTellItsMask(Line):
    """Its mask method fails in the middle of an episode."""

    def action_masks(self) -> Any:
        if self.t == 3:
            raise LookupError("no such square")
        return np.ones(3, bool)


@register_broken("allowed-refused")
class MaskOfEverything(Walled):
    """Its mask allows everything, but the environment refuses an action."""

    def make_info(self) -> Any:
        return {"action_mask": np.ones(3, np.int8)}

    def action_force(self, action: Any) -> float:
        assert action != 2, "there is a wall"
        return super().action_force(action)
