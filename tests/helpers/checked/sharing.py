"""Environments that are not alone: with one another, or with copies of themselves."""

from __future__ import annotations

import copy
import threading
from typing import Any

from .actions import Walled
from .kinds import Line, broken


@broken("instances-share")
class OnePlaceForAll(Line):
    place = [0.0]  # noqa: RUF012

    @property
    def x(self) -> float:  # type: ignore[override]
        return self.place[0]

    @x.setter
    def x(self, value: float) -> None:
        self.place[0] = value


ONLY = Line()


@broken("copies-same")
def the_only_one() -> Line:
    return ONLY


@broken("state-fails")
class LoadsAfterAReset(Line):
    """Puts its state into what its first reset makes."""

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


@broken("state-lost")
class ForgetsItsPlace(Line):
    """Saves the time alone."""

    def save_state(self) -> Any:
        return {"t": self.t}

    def load_state(self, state: Any) -> None:
        self.t = state["t"]


class OneMomentumForAll(Walled):
    """What its last step did is kept for all; an episode begins without it."""

    pushed = [0.0]  # noqa: RUF012

    def push(self, action: Any) -> float:
        now = super().push(action)
        before, self.pushed[0] = self.pushed[0] if self.t > 1 else 0.0, now
        return now + before / 8


class OneWalledPlaceForAll(OnePlaceForAll, Walled):
    """One copy runs into the wall that another one stands at."""


@broken("copy-shares", "warning", instance=True)
class CopiesByReference(Line):
    def __init__(self) -> None:
        super().__init__()
        self.place = [0.0]

    def __deepcopy__(self, memo: Any) -> Any:
        return copy.copy(self)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place[0] = self.x
        return self.seen(), {}

    def step(self, action: Any) -> Any:
        self.x = self.place[0]
        result = super().step(action)
        self.place[0] = self.x
        return result


@broken("copy-fails", "warning", instance=True)
class CannotBeCopied(Line):
    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("cannot copy a simulator")

    def __reduce__(self) -> Any:
        return type(self), ()


@broken("pickle-fails", "warning", instance=True)
class HoldsALock(Line):
    """Can be copied, as its copy gets a lock of its own, and cannot be sent."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def __deepcopy__(self, memo: Any) -> Any:
        other = type(self)()
        other.x, other.t = self.x, self.t
        other._np_random = copy.deepcopy(self._np_random)
        return other
