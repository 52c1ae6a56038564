"""Rollouts with advantages, as a training loop of one's own uses them."""

from rlox.collectors.candle import CandleCollector
from rlox.collectors.native import NativeCollector
from rlox.collectors.rollout import RolloutCollector

__all__ = ["CandleCollector", "NativeCollector", "RolloutCollector"]
