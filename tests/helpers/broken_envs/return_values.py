"""Environments whose `reset` or `step` returns values of a wrong kind, or raises."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from .base import Line, register_broken


@register_broken("made-fails")
class ConstructorRaises(Line):
    def __init__(self) -> None:
        raise FileNotFoundError("map.json")


@register_broken("no-environment")
class NoEnvironment:
    """Has all members of an environment, but not the class."""

    def __init__(self) -> None:
        inner = Line()
        self.observation_space, self.action_space = inner.observation_space, inner.action_space
        self.reset, self.step, self.close = inner.reset, inner.step, inner.close


@register_broken("reset-fails")
class ResetRaises(Line):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        raise KeyError("start")


@register_broken("reset-no-pair")
class ObservationOnly(Line):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed)[0]


@register_broken("reset-info")
class NoInfoOfResets(Line):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed)[0], None


@register_broken("step-fails")
class FailsInTheFifthStep(Line):
    def step(self, action: Any) -> Any:
        if self.t == 4:
            raise ZeroDivisionError("float division by zero")
        return super().step(action)


@register_broken("step-exits")
class EndsItsProcess(Line):
    def step(self, action: Any) -> Any:
        if self.t == 4:
            raise SystemExit(0)
        return super().step(action)


@register_broken("step-length")
class FourThings(Line):
    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated or truncated, info


@register_broken("step-info")
class ListForInfo(Line):
    def step(self, action: Any) -> Any:
        return *super().step(action)[:4], []


@register_broken("info-pickle", "warning")
class LockInItsInfo(Line):
    def make_info(self) -> Any:
        return {"lock": threading.Lock()}


@register_broken("reward-kind")
class NoneReward(Line):
    def compute_reward(self) -> Any:
        return None


@register_broken("reward-shape")
class ArrayReward(Line):
    def compute_reward(self) -> Any:
        return np.array([-abs(self.x)])


@register_broken("reward-nan")
class NaNReward(Line):
    def compute_reward(self) -> Any:
        return np.nan if self.t == 3 else 1.0


@register_broken("reward-infinite")
class InfiniteReward(Line):
    def compute_reward(self) -> Any:
        return -np.inf if self.is_terminated() else 1.0


@register_broken("reward-huge", "warning")
class HugeReward(Line):
    def compute_reward(self) -> Any:
        return 3e8 * self.x


@register_broken("terminated-kind")
class NumberForTerminated(Line):
    def is_terminated(self) -> Any:
        return int(super().is_terminated())


@register_broken("truncated-kind")
class NothingForTruncated(Line):
    def is_truncated(self) -> Any:
        return True if super().is_truncated() else None


@register_broken("success-kind")
class ListForSuccess(Line):
    def make_info(self) -> Any:
        return {"is_success": [super().is_terminated()]}
