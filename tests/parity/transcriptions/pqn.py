"""PQN (Gallici et al. 2025, arXiv:2407.04811), algorithm 1, from its lambda-returns on."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from parity.transcriptions.common import (
    Kinks,
    Step,
    Weights,
    activation,
    clipped_to,
    detached,
    gradients_of,
    leaf,
    leaves,
    linear,
    mean,
)


@dataclass
class RAdam:
    """Liu et al. 2020 (arXiv:1908.03265), algorithm 2, with epsilon as in torch."""

    lr: float
    eps: float = 1e-8
    beta1: float = 0.9
    beta2: float = 0.999
    t: int = 0
    m: Weights = field(default_factory=dict)
    v: Weights = field(default_factory=dict)

    def step(self, weights: Weights, gradients: Weights) -> None:
        self.t += 1
        last = 2 / (1 - self.beta2) - 1  # rho_infinity
        rho = last - 2 * self.t * self.beta2**self.t / (1 - self.beta2**self.t)
        for name, g in gradients.items():
            m = self.beta1 * self.m.get(name, torch.zeros_like(g)) + (1 - self.beta1) * g
            v = self.beta2 * self.v.get(name, torch.zeros_like(g)) + (1 - self.beta2) * g * g
            self.m[name], self.v[name] = m, v
            change = m / (1 - self.beta1**self.t)
            if rho > 5:
                r = ((rho - 4) * (rho - 2) * last) / ((last - 4) * (last - 2) * rho)
                change = change * math.sqrt(r) * math.sqrt(1 - self.beta2**self.t) / (v.sqrt() + self.eps)
            weights[name] = leaf(weights[name] - self.lr * change)


class PQN:
    """Epochs of minibatches; `batch["order"]` `[epochs, rows]` gives their rows."""

    def __init__(self, weights: Weights, settings: dict[str, Any]) -> None:
        self.weights, self.settings = leaves(weights), settings
        self.targets: Weights = {}  # PQN has no target network
        self.kinks = Kinks()
        self.optimizer = RAdam(settings["learning_rate"])

    def train(self, batch: dict[str, Tensor]) -> list[Step]:
        size = self.settings["batch_size"]
        minibatches = [rows for epoch in batch["order"] for rows in epoch.long().split(size)]
        return [self._step({k: v[rows] for k, v in batch.items() if k != "order"}) for rows in minibatches]

    def values(self, obs: Tensor) -> Tensor:
        """Q(s, .): layer normalisation precedes each hidden activation."""
        x = linear(self.weights, "q.0", obs)
        for i in range(len(self.settings["net_arch"])):
            centred = x - x.sum() / len(x)
            variance = (centred**2).sum() / len(x)
            x = centred / (variance + 1e-5).sqrt()
            x = x * self.weights[f"q.norm.{i}.weight"] + self.weights[f"q.norm.{i}.bias"]
            x = linear(self.weights, f"q.{i + 1}", activation(x, "relu", self.kinks))
        return x

    def _step(self, rows: dict[str, Tensor]) -> Step:
        """One step along the gradient of the mean of (Q(s, a) - R)^2, which is not halved."""
        losses = []
        for i in range(len(rows["returns"])):
            q = self.values(rows["obs"][i])[int(rows["actions"][i])]
            losses.append((q - rows["returns"][i]) ** 2)
        loss = mean(losses)
        gradients = gradients_of(loss, self.weights)
        clipped = clipped_to(gradients, self.settings["max_grad_norm"])
        self.optimizer.step(self.weights, clipped)
        return Step({"q": loss}, gradients, clipped, detached(self.weights))
