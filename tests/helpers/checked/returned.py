"""Wrong kinds of things that `reset` and `step` give back, or that they raise."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from .kinds import Line, broken


@broken("made-fails")
class NeverMade(Line):
    def __init__(self) -> None:
        raise FileNotFoundError("map.json")


@broken("no-environment")
class NoEnvironment:
    """Has all that an environment has, but the class."""

    def __init__(self) -> None:
        inner = Line()
        self.observation_space, self.action_space = inner.observation_space, inner.action_space
        self.reset, self.step, self.close = inner.reset, inner.step, inner.close


@broken("reset-fails")
class NeverBegins(Line):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        raise KeyError("start")


@broken("reset-no-pair")
class ObservationOnly(Line):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed)[0]


@broken("reset-info")
class NoInfoOfResets(Line):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed)[0], None


@broken("step-fails")
class FailsInTheFifthStep(Line):
    def step(self, action: Any) -> Any:
        if self.t == 4:
            raise ZeroDivisionError("float division by zero")
        return super().step(action)


@broken("step-exits")
class EndsItsProcess(Line):
    def step(self, action: Any) -> Any:
        if self.t == 4:
            raise SystemExit(0)
        return super().step(action)


@broken("step-length")
class FourThings(Line):
    def step(self, action: Any) -> Any:
        seen, reward, terminated, truncated, info = super().step(action)
        return seen, reward, terminated or truncated, info


@broken("step-info")
class ListForInfo(Line):
    def step(self, action: Any) -> Any:
        return *super().step(action)[:4], []


@broken("info-pickle", "warning")
class LockInItsInfo(Line):
    def told(self) -> Any:
        return {"lock": threading.Lock()}


@broken("reward-kind")
class NothingPaid(Line):
    def paid(self) -> Any:
        return None


@broken("reward-shape")
class ArrayPaid(Line):
    def paid(self) -> Any:
        return np.array([-abs(self.x)])


@broken("reward-nan")
class NaNPaid(Line):
    def paid(self) -> Any:
        return np.nan if self.t == 3 else 1.0


@broken("reward-infinite")
class InfinitelyPaid(Line):
    def paid(self) -> Any:
        return -np.inf if self.over() else 1.0


@broken("reward-huge", "warning")
class WellPaid(Line):
    def paid(self) -> Any:
        return 3e8 * self.x


@broken("terminated-kind")
class NumberForTerminated(Line):
    def over(self) -> Any:
        return int(super().over())


@broken("truncated-kind")
class NothingForTruncated(Line):
    def late(self) -> Any:
        return True if super().late() else None


@broken("success-kind")
class ListForSuccess(Line):
    def told(self) -> Any:
        return {"is_success": [super().over()]}
