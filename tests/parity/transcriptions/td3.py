"""Twin delayed deep deterministic policy gradient (Fujimoto et al. 2018, arXiv:1802.09477), algorithm 1."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from parity.transcriptions.common import (
    Adam,
    Kinks,
    Step,
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


class TD3:
    """`batch["noise_target"]` `[B, A]` is N(0, sigma) before clipping."""

    def __init__(self, weights: Weights, settings: dict[str, Any]) -> None:
        self.weights, self.settings = leaves(weights), settings
        self.targets = {f"target.{name}": value for name, value in detached(weights).items()}
        self.kinks = Kinks()
        rate = settings["learning_rate"]
        self.optimizers = {name: Adam(rate, eps=1e-8) for name in ("critic", "actor")}
        self.updates = 0

    def _part(self, name: str) -> Weights:
        return {key: value for key, value in self.weights.items() if key.startswith(name)}

    def train(self, batch: dict[str, Tensor]) -> list[Step]:
        self.updates += 1
        losses = {"critic": self._critics(batch)}
        gradients, clipped = self._descend("critic", losses["critic"])
        if self.updates % self.settings["policy_delay"] == 0:
            losses["actor"] = self._actor(batch)
            found, limited = self._descend("actor", losses["actor"])
            gradients, clipped = gradients | found, clipped | limited
            online = {f"target.{name}": value for name, value in self.weights.items()}
            moved(self.targets, online, self.settings["tau"])
        return [Step(losses, gradients, clipped, detached(self.weights))]

    def _descend(self, name: str, loss: Tensor) -> tuple[Weights, Weights]:
        gradients = gradients_of(loss, self._part(name))
        limit = self.settings.get("max_grad_norm")
        clipped = gradients if limit is None else clipped_to(gradients, limit)
        self.optimizers[name].step(self.weights, clipped)
        return gradients, clipped

    def _critics(self, batch: dict[str, Tensor]) -> Tensor:
        """y = r + gamma min_k Q'_k(s', clip(pi'(s') + clip(eps, -c, c), -1, 1)); the sum of the errors."""
        limit = self.settings["target_noise_clip"]
        terms = []
        for i in range(len(batch["rewards"])):
            goal, weight = batch["rewards"][i], batch["weights"][i] if "weights" in batch else 1.0
            if not bool(batch["terminated"][i]):
                obs, noise = batch["next_obs"][i], batch["noise_target"][i].clamp(-limit, limit)
                action = self.act(self.targets, "target.actor", obs) + noise
                action = action.clamp(-1, 1)
                first, second = (self.q(self.targets, f"target.critic.{k}", obs, action) for k in (0, 1))
                value = least(first, second, self.kinks, "targets")
                goal = goal + self.settings["gamma"] ** int(batch["steps"][i]) * value
            for k in (0, 1):
                q = self.q(self.weights, f"critic.{k}", batch["obs"][i], batch["actions"][i])
                terms.append(weight * (q - goal.detach()) ** 2)
        return 2 * mean(terms)

    def _actor(self, batch: dict[str, Tensor]) -> Tensor:
        """-E[Q_1(s, pi(s))]."""
        return -mean(
            self.q(self.weights, "critic.0", obs, self.act(self.weights, "actor", obs))
            for obs in batch["obs"]
        )

    def act(self, weights: Weights, name: str, obs: Tensor) -> Tensor:
        return torch.tanh(mlp(weights, name, obs, "relu", self.kinks))

    def q(self, weights: Weights, name: str, obs: Tensor, action: Tensor) -> Tensor:
        return mlp(weights, name, torch.cat([obs, action]), "relu", self.kinks)[0]
