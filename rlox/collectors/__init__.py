"""Sources of experience."""

from rlox.collectors.on_policy import OnPolicySource
from rlox.collectors.rollout import RolloutCollector

__all__ = ["OnPolicySource", "RolloutCollector"]
