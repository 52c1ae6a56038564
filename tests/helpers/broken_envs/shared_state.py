"""Environments that share state with other environments or with their copies."""

from __future__ import annotations

import copy
import threading
from typing import Any

from .actions import Walled
from .base import Line, register_broken


@register_broken("instances-share")
class SharedPosition(Line):
    shared_position = [0.0]  # noqa: RUF012

    @property
    def x(self) -> float:  # type: ignore[override]
        return self.shared_position[0]

    @x.setter
    def x(self, value: float) -> None:
        self.shared_position[0] = value


SHARED_LINE = Line()


@register_broken("copies-same")
def get_shared_line() -> Line:
    return SHARED_LINE


@register_broken("state-fails")
class LoadsAfterAReset(Line):
    """Loads a state into an object that only its first reset makes."""

    def __init__(self) -> None:
        super().__init__()
        self.place: dict[str, float] | None = None

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.place = {}
        return super().reset(seed=seed)

    def save_state(self) -> Any:
        return {"x": self.x, "t": self.t}

    def load_state(self, state: Any) -> None:
        self.place["x"] = self.x = state["x"]  # type: ignore[index]
        self.t = state["t"]


@register_broken("state-lost")
class SavesTimeOnly(Line):
    """Saves only the time."""

    def save_state(self) -> Any:
        return {"t": self.t}

    def load_state(self, state: Any) -> None:
        self.t = state["t"]


class SharedMomentum(Walled):
    """Shares the force of its last step among all copies; an episode begins without it."""

    pushed = [0.0]  # noqa: RUF012

    def action_force(self, action: Any) -> float:
        now = super().action_force(action)
        before, self.pushed[0] = self.pushed[0] if self.t > 1 else 0.0, now
        return now + before / 8


class SharedWalledPosition(SharedPosition, Walled):
    """One copy runs into the wall where another one is."""


@register_broken("copy-shares", "warning", is_instance=True)
class CopiesByReference(Line):
    def __init__(self) -> None:
        super().__init__()
        self.place = [0.0]

    def __deepcopy__(self, memo: Any) -> Any:
        return copy.copy(self)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place[0] = self.x
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        self.x = self.place[0]
        result = super().step(action)
        self.place[0] = self.x
        return result


@register_broken("copy-fails", "warning", is_instance=True)
class CannotBeCopied(Line):
    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("cannot copy a simulator")

    def __reduce__(self) -> Any:
        return type(self), ()


@register_broken("pickle-fails", "warning", is_instance=True)
class HoldsALock(Line):
    """Can be copied, because its copy gets a new lock, but not pickled."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def __deepcopy__(self, memo: Any) -> Any:
        other = type(self)()
        other.x, other.t = self.x, self.t
        other._np_random = copy.deepcopy(self._np_random)
        return other
