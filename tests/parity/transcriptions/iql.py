"""Implicit Q-learning (Kostrikov, Nair & Levine 2022, arXiv:2110.06169), algorithm 1."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from parity.transcriptions.common import (
    Adam,
    Kinks,
    Weights,
    clipped_to,
    detached,
    gradients_of,
    least,
    leaves,
    mean,
    mlp,
    moved,
)

LOG_STD = (-5.0, 2.0)  # the limits of the authors' code


class IQL:
    """The policy is Normal(tanh(net(s)), sigma); the authors' code extracts it in the same step."""

    def __init__(self, weights: Weights, settings: dict[str, Any]) -> None:
        self.weights, self.settings = leaves(weights), settings
        critics = {k: v for k, v in detached(weights).items() if k.startswith("critic")}
        self.targets = {k.replace("critic", "target"): v for k, v in critics.items()}
        self.kinks = Kinks()
        rate = settings["learning_rate"]
        self.optimizers = {name: Adam(rate, eps=1e-8) for name in ("value", "actor", "critic")}
        self.updates = 0

    def _part(self, name: str) -> Weights:
        return {key: value for key, value in self.weights.items() if key.startswith(name)}

    def _descend(self, name: str, loss: Tensor) -> None:
        part = self._part(name)
        gradients = clipped_to(gradients_of(loss, part), self.settings["max_grad_norm"])
        self.optimizers[name].step(part, gradients)
        self.weights |= part

    def train(self, batch: dict[str, Tensor]) -> None:
        over = self.updates / self.settings["total"]
        rate = self.settings["learning_rate"] * 0.5 * (1 + math.cos(math.pi * over))
        self.optimizers["actor"].lr = rate
        self.updates += 1
        self._descend("value", self._value(batch))
        self._descend("actor", self._actor(batch))
        self._descend("critic", self._critics(batch))
        online = {k.replace("critic", "target"): v for k, v in self._part("critic").items()}
        moved(self.targets, online, self.settings["tau"])

    def _lowest(self, obs: Tensor, action: Tensor) -> Tensor:
        first, second = (self.q(self.targets, f"target.{k}", obs, action) for k in (0, 1))
        return least(first, second, self.kinks, "two targets").detach()

    def _value(self, batch: dict[str, Tensor]) -> Tensor:
        """Eq. 5: E[L2^tau(Qbar(s, a) - V(s))], L2^tau(u) = |tau - 1(u < 0)| u^2 (eq. 4)."""
        terms = []
        for obs, taken in zip(batch["obs"], batch["actions"], strict=True):
            u = self._lowest(obs, taken) - self.v(obs)
            self.kinks.note(u, "an error of zero")
            terms.append(abs(self.settings["expectile"] - (1.0 if u.item() < 0 else 0.0)) * u**2)
        return mean(terms)

    def _actor(self, batch: dict[str, Tensor]) -> Tensor:
        """Eq. 7: -E[exp(beta (Qbar(s, a) - V(s))) log pi(a|s)]; the weight is constant and at most 100."""
        terms = []
        for obs, taken in zip(batch["obs"], batch["actions"], strict=True):
            advantage = (self._lowest(obs, taken) - self.v(obs)).item()
            weight = min(math.exp(self.settings["temperature"] * advantage), 100.0)
            terms.append(-weight * self.log_prob(obs, taken))
        return mean(terms)

    def _critics(self, batch: dict[str, Tensor]) -> Tensor:
        """Eq. 6 for both critics: E[(r + gamma V(s') - Q(s, a))^2]."""
        terms = []
        for i in range(len(batch["rewards"])):
            goal = batch["rewards"][i]
            if not bool(batch["terminated"][i]):
                goal = goal + self.settings["gamma"] * self.v(batch["next_obs"][i])
            for k in (0, 1):
                q = self.q(self.weights, f"critic.{k}", batch["obs"][i], batch["actions"][i])
                terms.append((goal.detach() - q) ** 2)
        return 2 * mean(terms)

    def q(self, weights: Weights, name: str, obs: Tensor, action: Tensor) -> Tensor:
        return mlp(weights, name, torch.cat([obs, action]), "relu", self.kinks)[0]

    def v(self, obs: Tensor) -> Tensor:
        return mlp(self.weights, "value", obs, "relu", self.kinks)[0]

    def log_prob(self, obs: Tensor, action: Tensor) -> Tensor:
        mu = torch.tanh(mlp(self.weights, "actor.net", obs, "relu", self.kinks))
        log_std = self.weights["actor.log_std"].clamp(*LOG_STD)
        z = (action - mu) / torch.exp(log_std)
        return (-0.5 * z**2 - log_std - 0.5 * math.log(2 * math.pi)).sum()
