"""Configuration that off-policy actor-critic algorithms share."""

from __future__ import annotations

from dataclasses import dataclass

from rlox.configs.critics import CriticsConfig
from rlox.configs.off_policy import OffPolicyConfig


@dataclass(frozen=True)
class ActorCriticConfig(CriticsConfig, OffPolicyConfig):
    """Defaults follow Stable-Baselines3; an algorithm overrides those that differ."""

    def activation_count(self, actions: int) -> int:
        """Return the number of activations in the hidden layers of the actor and all critics."""
        actor, critic = self.hidden_widths
        return 2 * (sum(actor) + self.n_critics * sum(critic)) + 4 * max(*actor, *critic, 1)
