"""PPO (Schulman et al. 2017, arXiv:1707.06347), eq. 7 and 9."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from parity.transcriptions.actor_critic import judged
from parity.transcriptions.common import (
    Adam,
    Kinks,
    Step,
    Weights,
    clipped_to,
    detached,
    gradients_of,
    leaves,
    mean,
    standardised,
)


class PPO:
    """Epochs of minibatches; `batch["order"]` `[epochs, rows]` gives their rows."""

    def __init__(self, weights: Weights, settings: dict[str, Any]) -> None:
        self.weights, self.settings = leaves(weights), settings
        self.targets: Weights = {}
        self.kinks = Kinks()
        # Adam's epsilon is that of OpenAI Baselines
        self.optimizer = Adam(settings["learning_rate"], eps=1e-5)

    def train(self, batch: dict[str, Tensor]) -> list[Step]:
        size = self.settings["batch_size"]
        minibatches = [rows for epoch in batch["order"] for rows in epoch.long().split(size)]
        return [self._step({k: v[rows] for k, v in batch.items() if k != "order"}) for rows in minibatches]

    def _step(self, rows: dict[str, Tensor]) -> Step:
        s = self.settings
        advantages = rows["advantages"]
        if s["normalize_advantages"]:
            advantages = standardised(advantages)
        surrogates, values, entropies = [], [], []
        for i in range(len(advantages)):
            log_prob, entropy, value = judged(self.weights, rows["obs"][i], rows["actions"][i])
            surrogates.append(self._surrogate(log_prob - rows["log_probs"][i], advantages[i]))
            values.append(self._value(value, rows["values"][i], rows["returns"][i]))
            entropies.append(entropy)
        policy, value, entropy = -mean(surrogates), mean(values), mean(entropies)
        total = policy + s["vf_coef"] * value - s["ent_coef"] * entropy
        gradients = gradients_of(total, self.weights)
        clipped = clipped_to(gradients, s["max_grad_norm"])
        self.optimizer.step(self.weights, clipped)
        losses = {"policy": policy, "value": value, "entropy": entropy, "total": total}
        return Step(losses, gradients, clipped, detached(self.weights))

    def _surrogate(self, log_ratio: Tensor, advantage: Tensor) -> Tensor:
        """min(r A, clip(r, 1 - eps, 1 + eps) A)."""
        eps, r = self.settings["clip_eps"], torch.exp(log_ratio)
        for bound in (1 - eps, 1 + eps):
            self.kinks.note(r - bound, "a ratio at a bound")
        bounded = r if 1 - eps <= r.item() <= 1 + eps else r.new_tensor(1 - eps if r.item() < 1 else 1 + eps)
        plain, clipped = r * advantage, bounded * advantage
        return plain if plain.item() <= clipped.item() else clipped

    def _value(self, value: Tensor, old: Tensor, target: Tensor) -> Tensor:
        """(V - V_target)^2; clipped as in Engstrom et al. 2020 (arXiv:2005.12729), section 2."""
        plain = (value - target) ** 2
        if not self.settings["clip_vloss"]:
            return plain
        eps, change = self.settings["clip_eps"], float(value.detach() - old)
        self.kinks.note(abs(change) - eps, "a value at its bound")
        if abs(change) <= eps:
            return plain
        clipped = (old + eps * (1 if change > 0 else -1) - target) ** 2
        self.kinks.note(plain - clipped, "two value errors")
        return plain if plain.item() > clipped.item() else clipped
