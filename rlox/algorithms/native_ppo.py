"""PPO's update in Rust, on the parameters, moments and minibatches that torch's has."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from rlox.algorithms.clipped import NAMES, Clipped
from rlox.algorithms.on_policy import where
from rlox.configs import PPOConfig
from rlox.policies import ActorCritic
from rlox.policies.native import NativePolicy, unmasked
from rlox.policies.plain import counted, told_where
from rlox.rng import Streams
from rlox.types import Clock, Rollout, Update

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
        passes = range(self.config.n_epochs)
        order = torch.stack([batch.shuffled(self._shuffler(batch, epoch)) for epoch in passes])
        self.native.check()
        with told_where(where(batch, clock)), counted(self.adam) as steps:
            told = self._learn(batch, order, steps)
        means = {name: told[name.rpartition("/")[2]] for name in NAMES}
        metrics = self._metrics(batch, means if told["steps"] else {}, int(told["epochs"]))
        return Update(metrics, count=1, samples=int(told["samples"]))

    def _learn(
        self, batch: Rollout, order: torch.Tensor, steps: NDArray[np.int64]
    ) -> dict[str, float]:
        adam, loss, config = self.adam, self.loss, self.config
        obs, mask = unmasked(batch)
        return self.native.engine.ppo(
            adam.vector.numpy(),
            adam.moment("exp_avg").numpy(),
            adam.moment("exp_avg_sq").numpy(),
            steps,
            obs,
            batch.actions.numpy(),
            batch.log_probs.numpy(),
            batch.values.numpy(),
            batch.advantages.numpy(),
            batch.returns.numpy(),
            order.numpy(),
            batch_size=config.batch_size,
            learning_rate=adam.lr,
            clip_eps=loss.clip_eps,
            vf_coef=loss.vf_coef,
            ent_coef=loss.ent_coef,
            max_grad_norm=config.max_grad_norm,
            clip_vloss=config.clip_vloss,
            normalize_advantages=config.normalize_advantages,
            target_kl=config.target_kl,
            adam_eps=adam.eps,
            mask=mask,
        )
