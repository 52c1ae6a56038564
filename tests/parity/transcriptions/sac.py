"""Soft actor-critic with a learned temperature (Haarnoja et al. 2018, arXiv:1812.05905), algorithm 1.

State-dependent noise is from Raffin et al. 2021 (arXiv:2005.05719), section 3; the m-step return and the
importance weights are those of `dqn.py`.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from parity.transcriptions.common import (
    Adam,
    Kinks,
    Step,
    Weights,
    activation,
    clipped_to,
    detached,
    gradients_of,
    least,
    leaves,
    linear,
    mean,
    mlp,
    moved,
)

LOG_STD = (-20.0, 2.0)
SDE_MEAN = 2.0  # the limit of Stable-Baselines3 for the mean under gSDE
SDE_VARIANCE = 1e-6  # its addition to the variance


class SAC:
    """`batch["noise_obs"]` and `batch["noise_next"]` `[B, A]` are the epsilon of eq. 8.

    Under gSDE they are `[features, A]`: one matrix for all rows, multiplied by the deviations.
    """

    def __init__(self, weights: Weights, settings: dict[str, Any]) -> None:
        self.weights, self.settings = leaves(weights), settings
        self.targets = {
            name.replace("critic", "target"): value for name, value in detached(self._part("critic")).items()
        }
        self.kinks = Kinks()
        rate = settings["learning_rate"]
        self.optimizers = {name: Adam(rate, eps=1e-8) for name in ("log_alpha", "critic", "actor")}

    def _part(self, name: str) -> Weights:
        return {key: value for key, value in self.weights.items() if key.startswith(name)}

    def train(self, batch: dict[str, Tensor]) -> list[Step]:
        alpha = math.exp(self.weights["log_alpha"].item())
        if self.settings["use_sde"]:
            size = (len(batch["obs"]), -1, -1)
            batch = {k: v.expand(size) if k.startswith("noise") else v for k, v in batch.items()}
        gradients: Weights = {}
        clipped: Weights = {}
        losses = {
            "temperature": self._temperature(batch),
            "critic": self._critics(batch, alpha),
        }
        # the losses of the actor and the temperature use the actor from before this update
        self._descend("log_alpha", losses["temperature"], None, gradients, clipped)
        limit = self.settings.get("max_grad_norm")
        self._descend("critic", losses["critic"], limit, gradients, clipped)
        losses["actor"] = self._actor(batch, alpha)
        self._descend("actor", losses["actor"], limit, gradients, clipped)
        online = {k.replace("critic", "target"): v for k, v in self._part("critic").items()}
        moved(self.targets, online, self.settings["tau"])
        return [Step(losses, gradients, clipped, detached(self.weights))]

    def _descend(
        self, name: str, loss: Tensor, limit: float | None, gradients: Weights, clipped: Weights
    ) -> None:
        found = gradients_of(loss, self._part(name))
        gradients |= found
        found = found if limit is None else clipped_to(found, limit)
        clipped |= found
        self.optimizers[name].step(self.weights, found)

    def _temperature(self, batch: dict[str, Tensor]) -> Tensor:
        """Eq. 18, with log alpha in place of alpha, as in the authors' code."""
        terms = []
        for obs, noise in zip(batch["obs"], batch["noise_obs"], strict=True):
            _, log_prob = self.act(obs, noise)
            surplus = (log_prob + self.settings["target_entropy"]).detach()
            terms.append(-self.weights["log_alpha"][0] * surplus)
        return mean(terms)

    def _critics(self, batch: dict[str, Tensor], alpha: float) -> Tensor:
        """Eq. 5 for both critics; its factor 1/2 matters for the gradient."""
        terms = []
        for i in range(len(batch["rewards"])):
            goal, weight = batch["rewards"][i], batch["weights"][i] if "weights" in batch else 1.0
            if not bool(batch["terminated"][i]):
                obs = batch["next_obs"][i]
                action, log_prob = self.act(obs, batch["noise_next"][i])
                first, second = (self.q(self.targets, f"target.{k}", obs, action) for k in (0, 1))
                value = least(first, second, self.kinks, "two targets") - alpha * log_prob
                goal = goal + self.settings["gamma"] ** int(batch["steps"][i]) * value
            for k in (0, 1):
                q = self.q(self.weights, f"critic.{k}", batch["obs"][i], batch["actions"][i])
                terms.append(weight * 0.5 * (q - goal.detach()) ** 2)
        return 2 * mean(terms)

    def _actor(self, batch: dict[str, Tensor], alpha: float) -> Tensor:
        """Eq. 9 with the smaller of the two values."""
        terms = []
        for obs, noise in zip(batch["obs"], batch["noise_obs"], strict=True):
            action, log_prob = self.act(obs, noise)
            first, second = (self.q(self.weights, f"critic.{k}", obs, action) for k in (0, 1))
            terms.append(alpha * log_prob - least(first, second, self.kinks, "two critics"))
        return mean(terms)

    def q(self, weights: Weights, name: str, obs: Tensor, action: Tensor) -> Tensor:
        return mlp(weights, name, torch.cat([obs, action]), "relu", self.kinks)[0]

    def act(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """a = tanh(u) with u = mu + sigma epsilon, and log pi(a|s) by eq. 21 (appendix C)."""
        x = obs
        for layer in ("actor.0", "actor.1"):
            x = activation(linear(self.weights, layer, x), "relu", self.kinks)
        if self.settings["use_sde"]:
            return self._act_by_state(x, noise)
        mu, log_std = (linear(self.weights, f"actor.{head}", x) for head in ("mean", "log_std"))
        for bound in LOG_STD:
            self.kinks.note((log_std - bound).abs().min(), "a deviation at its bound")
        log_std = log_std.clamp(*LOG_STD)
        u = mu + torch.exp(log_std) * noise
        density = -0.5 * noise**2 - log_std - 0.5 * math.log(2 * math.pi)
        action = torch.tanh(u)
        return action, density.sum() - torch.log(1 - action**2).sum()

    def _act_by_state(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """u = mu + x E with E_ij = sigma_ij epsilon_ij, so that u_j ~ N(mu_j, sum_i (x_i sigma_ij)^2)."""
        mean = linear(self.weights, "actor.mean", x)
        self.kinks.note((mean.abs() - SDE_MEAN).abs().min(), "a mean at its bound")
        mean = mean.clamp(-SDE_MEAN, SDE_MEAN)
        sigma = torch.exp(self.weights["actor.log_std"])
        u = mean + (x[:, None] * sigma * noise).sum(0)
        variance = ((x[:, None] * sigma) ** 2).sum(0) + SDE_VARIANCE
        density = -((u - mean) ** 2) / (2 * variance) - 0.5 * torch.log(2 * math.pi * variance)
        action = torch.tanh(u)
        return action, density.sum() - torch.log(1 - action**2).sum()
