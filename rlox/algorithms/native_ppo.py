"""PPO's update in Rust, on the parameters, moments and minibatches that torch's has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from rlox._core import Iteration
from rlox.algorithms.clipped import NAMES, Clipped
from rlox.algorithms.on_policy import explained_in_rust, where
from rlox.configs import PPOConfig
from rlox.policies import ActorCritic
from rlox.policies.native import NativePolicy, unmasked
from rlox.policies.plain import Adams, stepped, told_where
from rlox.rng import Streams
from rlox.types import Clock, Iterated, Rollout, Update

__all__ = ["NativePPOLearner"]


class NativePPOLearner(Clipped[ActorCritic]):
    """What one rollout does to the weights, in one call.

    Differs from `PPOLearner` by rounding only: the same minibatches, and a state that each can go on from.
    """

    def __init__(self, policy: ActorCritic, config: PPOConfig, streams: Streams) -> None:
        super().__init__(policy, config, streams)
        self.native = NativePolicy(policy, self.optimizer.flat)

    @torch.no_grad()
    def update(self, batch: Rollout, clock: Clock) -> Update:
        """Learn from one rollout; the schedules are read once, from the clock at its start."""
        self._schedule(clock)
        shuffled = [batch.shuffled(generator) for generator in self._shufflers(batch.index)]
        self.native.check()
        update = where(batch.index, len(batch), clock)
        with told_where(update), stepped(self.adam) as adam:
            told = self._learn(batch, torch.stack(shuffled), adam)
        rows = batch.rows()
        return self._update(told, explained_in_rust(rows.values, rows.returns))

    def iterate(self, clock: Clock, iteration: Iteration, index: int, rows: int) -> Iterated:
        """Collect rollout number `index`, of so many rows, and learn from it, with the bits of `update`."""
        self._schedule(clock)
        shuffled = [torch.randperm(rows, generator=g) for g in self._shufflers(index)]
        order = torch.stack(shuffled).numpy()
        with told_where(where(index, rows, clock)), stepped(self.adam) as adam:
            told = iteration.ppo(*adam, order, **self._settings())
        return Iterated(self._update(told, told["explained_variance"]), told["seconds"])

    def _shufflers(self, index: int) -> Iterator[torch.Generator]:
        """Of each pass over rollout number `index`."""
        return (self._shuffler(index, epoch) for epoch in range(self.config.n_epochs))

    def _update(self, told: Mapping[str, float], explained: float) -> Update:
        """What the engine said, by the names of the metrics."""
        means = {name: told[name.rpartition("/")[2]] for name in NAMES} if told["steps"] else {}
        metrics = self._metrics(explained, means, int(told["epochs"]))
        return Update(metrics, count=1, samples=int(told["samples"]))

    def _learn(self, batch: Rollout, order: torch.Tensor, adam: Adams) -> dict[str, float]:
        obs, mask = unmasked(batch)
        return self.native.engine.ppo(
            *adam,
            obs,
            batch.actions.numpy(),
            batch.log_probs.numpy(),
            batch.values.numpy(),
            batch.advantages.numpy(),
            batch.returns.numpy(),
            order.numpy(),
            mask=mask,
            **self._settings(),
        )

    def _settings(self) -> dict[str, Any]:
        """Of an update, as the engine calls them; the schedules are those of its clock."""
        config, loss = self.config, self.loss
        return {
            "batch_size": config.batch_size,
            "learning_rate": self.adam.lr,
            "clip_eps": loss.clip_eps,
            "vf_coef": loss.vf_coef,
            "ent_coef": loss.ent_coef,
            "max_grad_norm": config.max_grad_norm,
            "clip_vloss": config.clip_vloss,
            "normalize_advantages": config.normalize_advantages,
            "target_kl": config.target_kl,
            "adam_eps": self.adam.eps,
        }
