"""Advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783), section 4 and supplement 4, one worker."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from parity.transcriptions.actor_critic import judged
from parity.transcriptions.common import (
    Adam,
    Kinks,
    RMSprop,
    Step,
    Weights,
    clipped_to,
    detached,
    gradients_of,
    leaves,
    mean,
    standardised,
)


class A2C:
    """One step along the gradient of log pi (R - V) + beta H, and of (R - V)^2."""

    def __init__(self, weights: Weights, settings: dict[str, Any]) -> None:
        self.weights, self.settings = leaves(weights), settings
        self.targets: Weights = {}
        self.kinks = Kinks()
        rate, inside = settings["learning_rate"], settings["rms_prop_tf_like"]
        self.optimizer: Adam | RMSprop = (
            RMSprop(rate, settings["rms_prop_eps"], inside=inside)
            if settings["use_rms_prop"]
            else Adam(rate, eps=1e-5)
        )

    def train(self, batch: dict[str, Tensor]) -> list[Step]:
        s = self.settings
        advantages = batch["advantages"]
        if s["normalize_advantages"]:
            advantages = standardised(advantages)
        policies, values, entropies = [], [], []
        for i in range(len(advantages)):
            log_prob, entropy, value = judged(self.weights, batch["obs"][i], batch["actions"][i])
            policies.append(-log_prob * advantages[i])
            values.append((batch["returns"][i] - value) ** 2)
            entropies.append(entropy)
        policy, value, entropy = mean(policies), mean(values), mean(entropies)
        total = policy + s["vf_coef"] * value - s["ent_coef"] * entropy
        gradients = gradients_of(total, self.weights)
        clipped = clipped_to(gradients, s["max_grad_norm"])
        self.optimizer.step(self.weights, clipped)
        losses = {"policy": policy, "value": value, "entropy": entropy, "total": total}
        return [Step(losses, gradients, clipped, detached(self.weights))]
