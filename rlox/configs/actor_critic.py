"""What off-policy algorithms with an actor and critics have in common."""

from __future__ import annotations

from dataclasses import dataclass

from rlox.configs.critics import CriticsConfig
from rlox.configs.off_policy import OffPolicyConfig


@dataclass(frozen=True)
class ActorCriticConfig(CriticsConfig, OffPolicyConfig):
    """Defaults follow Stable-Baselines3; an algorithm says its own where they differ."""

    def activation_count(self, actions: int) -> int:
        """The hidden layers' of the actor and of all critics."""
        actor, critic = self.hidden_widths
        return 2 * (sum(actor) + self.n_critics * sum(critic)) + 4 * max(*actor, *critic, 1)
