"""CQL(H) (Kumar, Zhou, Tucker & Levine 2020, arXiv:2006.04779), eq. 4, for vectors and for choices."""

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
    greatest,
    leaf,
    least,
    leaves,
    mean,
    mlp,
    moved,
)
from parity.transcriptions.sac import SAC


class CQL(SAC):
    """Soft actor-critic with the penalty, and without entropy in the targets.

    `batch["uniform"]` `[B, n, A]` in [-1, 1]; `batch["normal"]` `[2, B, n, A]`, for the policy in s and s'.
    """

    def __init__(self, weights: Weights, settings: dict[str, Any]) -> None:
        super().__init__(weights, {**settings, "use_sde": False})
        for name in ("log_alpha", "actor"):
            self.optimizers[name].lr = settings["actor_learning_rate"]
        self.weight = Weight(settings)

    def _critics(self, batch: dict[str, Tensor], alpha: float) -> Tensor:
        """E[(Q_k - y)^2] + w E[log sum_a exp Q_k(s, a) - Q_k(s, a_data)], summed over both critics.

        The factor 1/2 of eq. 4 is left out, as in the authors' code.
        """
        errors, penalties = [], []
        for i in range(len(batch["rewards"])):
            goal, obs, after = (batch[name][i] for name in ("rewards", "obs", "next_obs"))
            if not bool(batch["terminated"][i]):
                action, _ = self.act(after, batch["noise_next"][i])
                first, second = (self.q(self.targets, f"target.{k}", after, action) for k in (0, 1))
                goal = goal + self.settings["gamma"] * least(first, second, self.kinks, "targets")
            drawn = [(a, -len(a) * math.log(2.0)) for a in batch["uniform"][i]]
            for state, noises in zip((obs, after), batch["normal"][:, i], strict=True):
                drawn += [(a.detach(), p.item()) for a, p in (self.act(state, n) for n in noises)]
            for k in (0, 1):
                q = self.q(self.weights, f"critic.{k}", obs, batch["actions"][i])
                sampled = [
                    torch.exp(self.q(self.weights, f"critic.{k}", obs, action)) / math.exp(log_p)
                    for action, log_p in drawn
                ]
                errors.append((q - goal.detach()) ** 2)
                penalties.append(torch.log(mean(sampled)) - q)
        loss = 2 * mean(errors) + 2 * self.weight.value * mean(penalties)
        self.weight.learn(mean(penalties).item())
        return loss


class CQLChoices:
    """Double Q-learning with the penalty, which is a sum over all choices."""

    def __init__(self, weights: Weights, settings: dict[str, Any]) -> None:
        self.weights, self.settings = leaves(weights), settings
        self.targets = {k.replace("critic", "target"): v for k, v in detached(weights).items()}
        self.kinks = Kinks()
        self.optimizer = Adam(settings["learning_rate"], eps=1e-8)
        self.weight, self.updates = Weight(settings), 0

    def train(self, batch: dict[str, Tensor]) -> None:
        loss = self._critics(batch)
        gradients = gradients_of(loss, self.weights)
        self.optimizer.step(self.weights, clipped_to(gradients, self.settings["max_grad_norm"]))
        self.updates += 1
        if self.updates % self.settings["target_update_interval"]:
            return
        online = {k.replace("critic", "target"): v for k, v in self.weights.items()}
        moved(self.targets, online, self.settings["tau"])

    def lowest(self, weights: Weights, name: str, obs: Tensor) -> Tensor:
        first, second = (mlp(weights, f"{name}.{k}", obs, "relu", self.kinks) for k in (0, 1))
        return torch.stack([least(a, b, self.kinks, name) for a, b in zip(first, second, strict=True)])

    def _critics(self, batch: dict[str, Tensor]) -> Tensor:
        errors, penalties = [], []
        for i in range(len(batch["rewards"])):
            goal, after, chosen = batch["rewards"][i], batch["next_obs"][i], batch["actions"][i]
            if not bool(batch["terminated"][i]):
                best = greatest(self.lowest(self.weights, "critic", after), self.kinks)
                there = self.lowest(self.targets, "target", after)[best]
                goal = goal + self.settings["gamma"] * there
            for k in (0, 1):
                q = mlp(self.weights, f"critic.{k}", batch["obs"][i], "relu", self.kinks)
                errors.append((q[int(chosen)] - goal.detach()) ** 2)
                penalties.append(torch.log(torch.exp(q).sum()) - q[int(chosen)])
        loss = 2 * mean(errors) + 2 * self.weight.value * mean(penalties)
        self.weight.learn(mean(penalties).item())
        return loss


class Weight:
    """alpha of eq. 4, or the multiplier of its Lagrangian version: max_alpha alpha (penalty - tau)."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.learned, self.target = settings["auto_alpha"], settings["cql_target_value"]
        self.weights = {"log": leaf(torch.tensor(math.log(settings["cql_alpha"]), dtype=torch.float64))}
        self.optimizer = Adam(settings["learning_rate"], eps=1e-8)

    @property
    def value(self) -> float:
        return math.exp(self.weights["log"].item())

    def learn(self, penalty: float) -> None:
        if self.learned:
            loss = -torch.exp(self.weights["log"]) * (penalty - self.target)
            self.optimizer.step(self.weights, gradients_of(loss, self.weights))
