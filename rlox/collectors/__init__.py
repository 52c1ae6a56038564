"""Collectors of rollouts with advantages, for use in your own training loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlox.lazy_imports import lazy_getattr
from rlox.native.collector import NativeCollector
from rlox.sources.rollout_collector import RolloutCollector

if TYPE_CHECKING:
    from rlox.collectors.candle import CandleCollector

__all__ = ["CandleCollector", "NativeCollector", "RolloutCollector"]

__getattr__ = lazy_getattr(__name__, {"candle": ("CandleCollector",)})


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
