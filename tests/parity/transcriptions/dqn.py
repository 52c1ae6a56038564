"""Deep Q-learning (Mnih et al. 2015, doi:10.1038/nature14236, algorithm 1) and its extensions.

The double estimator is from van Hasselt et al. 2016 (arXiv:1509.06461, eq. 4), the dueling network from
Wang et al. 2016 (arXiv:1511.06581, eq. 9), the importance weights from Schaul et al. 2016
(arXiv:1511.05952, algorithm 1), the m-step return from Mnih et al. 2016 (arXiv:1602.01783).
"""

from __future__ import annotations

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
    greatest,
    leaves,
    linear,
    mean,
    mlp,
    moved,
)


class DQN:
    """One step for each batch; the target network is updated after a fixed number of environment steps."""

    def __init__(self, weights: Weights, settings: dict[str, Any]) -> None:
        self.weights, self.settings = leaves(weights), settings
        self.targets = {f"target.{name}": value for name, value in detached(weights).items()}
        self.kinks = Kinks()
        self.optimizer = Adam(settings["learning_rate"], eps=1e-8)
        self.env_steps = 0

    def train(self, batch: dict[str, Tensor]) -> list[Step]:
        s = self.settings
        while self.env_steps < int(batch["env_steps"]):
            self.env_steps += 1
            if self.env_steps % s["target_update_interval"] == 0:
                online = {f"target.{name}": value for name, value in self.weights.items()}
                moved(self.targets, online, s["tau"])
        losses = []
        for i in range(len(batch["rewards"])):
            row = {name: values[i] for name, values in batch.items() if name != "env_steps"}
            q = self.values(self.weights, "q", row["obs"])[int(row["actions"])]
            error = q - self._target(row)
            weight = row.get("weights", 1.0)
            losses.append(weight * self._loss(error))
        loss = mean(losses)
        gradients = gradients_of(loss, self.weights)
        clipped = clipped_to(gradients, s["max_grad_norm"])
        self.optimizer.step(self.weights, clipped)
        return [Step({"q": loss}, gradients, clipped, detached(self.weights))]

    def values(self, weights: Weights, name: str, obs: Tensor) -> Tensor:
        """Q(s, .)."""
        if not self.settings["dueling"]:
            return mlp(weights, name, obs, "relu", self.kinks)
        x = activation(linear(weights, f"{name}.shared.0", obs), "relu", self.kinks)
        value = mlp(weights, f"{name}.value", x, "relu", self.kinks)[0]
        advantage = mlp(weights, f"{name}.advantage", x, "relu", self.kinks)
        return value + (advantage - advantage.sum() / len(advantage))

    def _target(self, row: dict[str, Tensor]) -> Tensor:
        """R + gamma^m max_a Q'(s', a), or the reward alone where the episode ended."""
        if bool(row["terminated"]):
            return row["rewards"]
        after = self.values(self.targets, "target.q", row["next_obs"])
        chooser = after
        if self.settings["double_dqn"]:
            chooser = self.values(self.weights, "q", row["next_obs"])
        best = greatest(chooser, self.kinks)
        return (row["rewards"] + self.settings["gamma"] ** int(row["steps"]) * after[best]).detach()

    def _loss(self, error: Tensor) -> Tensor:
        """The squared error, or Huber's, whose derivative is clipped to [-1, 1]."""
        if self.settings["loss"] == "mse":
            return error**2
        self.kinks.note(error.abs() - 1, "an error of one")
        return 0.5 * error**2 if abs(error.item()) < 1 else torch.abs(error) - 0.5
