"""Actions that are not taken as the action space says, and masks of them that are wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from .kinds import Line, VectorLine, broken


@broken("action-changed")
class ClipsInPlace(VectorLine):
    def push(self, action: Any) -> float:
        np.clip(action, -0.2, 0.2, out=action)
        return super().push(action)


@broken("action-kept")
class LooksAtTheLastOne(VectorLine):
    """Pays for smoothness, and keeps the caller's array instead of its numbers."""

    last: Any = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.last = None
        return super().reset(seed=seed)

    def step(self, action: Any) -> Any:
        seen, reward, *rest = super().step(action)
        before, self.last = self.last, action
        return seen, reward if before is None else -float(np.abs(action - before).sum()), *rest


@broken("bounds-refused")
class StrictlyInside(VectorLine):
    def push(self, action: Any) -> float:
        assert (np.abs(action) < 1).all(), "action out of range"
        return super().push(action)


@broken("choice-refused")
class OffByOne(Line):
    """Its last choice is one too many."""

    def push(self, action: Any) -> float:
        return (-1.0, 1.0)[action]


@broken("actions-unbounded", "warning")
class WithoutBounds(VectorLine):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def push(self, action: Any) -> float:
        return super().push(np.clip(action, -1, 1))


@broken("actions-uneven", "warning")
class ForwardOnly(VectorLine):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Box(0, 100, (2,), np.float32)

    def push(self, action: Any) -> float:
        return super().push(action) / 50 - 1


@broken("actions-constant", "warning")
class NothingToChoose(VectorLine):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Box(np.float32([-1, 0]), np.float32([1, 0]))


@broken("actions-whole", "warning")
class WholeNumbers(VectorLine):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Box(-1, 1, (2,), np.int64)


class Walled(Line):
    """Sound: no step further out where it stands at the side, which its mask tells."""

    def mask(self) -> Any:
        return np.array([self.x > -1, True, self.x < 1], np.int8)

    def told(self) -> Any:
        return {"action_mask": self.mask()}

    def push(self, action: Any) -> float:
        assert self.mask()[action], "there is a wall"
        return super().push(action)


@broken("mask-unused", apart=True)
class RefusesWhatIsForbidden(Line):
    """Told by a method that a run has to be told of."""

    def action_masks(self) -> Any:
        return np.array([self.t % 2, True, True], bool)

    def step(self, action: Any) -> Any:
        assert self.action_masks()[action], "there is a wall"
        return super().step(action)


@broken("mask-length")
class MaskTooLong(Walled):
    def told(self) -> Any:
        return {"action_mask": np.append(self.mask(), 1)}


@broken("mask-values")
class MaskOfTwos(Walled):
    def told(self) -> Any:
        return {"action_mask": 2 * self.mask()}


@broken("mask-empty")
class NothingAllowed(Walled):
    def told(self) -> Any:
        return {"action_mask": self.mask() * (self.t != 3)}


@broken("mask-missing")
class MaskOfResetsOnly(Line):
    def told(self) -> Any:
        return {} if self.t else {"action_mask": np.ones(3, np.int8)}


@broken("mask-fails")
class FailsToTellItsMask(Line):
    """Told by a method that does not know what to say in the middle of an episode."""

    def action_masks(self) -> Any:
        if self.t == 3:
            raise LookupError("no such square")
        return np.ones(3, bool)


@broken("allowed-refused")
class MaskOfEverything(Walled):
    """Allows all, and refuses what leads into a wall."""

    def told(self) -> Any:
        return {"action_mask": np.ones(3, np.int8)}

    def push(self, action: Any) -> float:
        assert action != 2, "there is a wall"
        return super().push(action)
