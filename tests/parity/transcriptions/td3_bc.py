"""TD3+BC (Fujimoto & Gu 2021, arXiv:2106.06860)."""

from __future__ import annotations

from torch import Tensor

from parity.transcriptions.common import mean
from parity.transcriptions.td3 import TD3


class TD3BC(TD3):
    """TD3 of that paper's algorithm 1, with another actor loss."""

    def _actor(self, batch: dict[str, Tensor]) -> Tensor:
        """Eq. 3, 5: -lambda E[Q_1(s, pi(s))] + E[(pi(s) - a)^2], constant lambda = alpha / mean |Q_1|."""
        values, errors = [], []
        for obs, taken in zip(batch["obs"], batch["actions"], strict=True):
            action = self.act(self.weights, "actor", obs)
            values.append(self.q(self.weights, "critic.0", obs, action))
            errors += [(a - b) ** 2 for a, b in zip(action, taken, strict=True)]
        weight = self.settings["alpha"] / mean([abs(q) for q in values]).item()
        return mean(errors) - weight * mean(values)
