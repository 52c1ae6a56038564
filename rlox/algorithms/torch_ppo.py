"""PPO's update in torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from torch import Tensor

from rlox.algorithms.clipped import ClippedLearner
from rlox.policies import ActorCritic, Scored
from rlox.types import Minibatch, Rollout

__all__ = ["PPOLearner"]


class PPOLearner(ClippedLearner[ActorCritic, Minibatch]):
    """PPO's update on minibatches of single rows, which a policy without memory evaluates independently."""

    def _minibatches(self, batch: Rollout, order: Callable[[int], Tensor]) -> Iterator[Minibatch]:
        return batch.minibatches(batch.ordered_indices(order), self.config.batch_size)

    def _evaluate(self, minibatch: Minibatch) -> Scored:
        return self.policy.scored(minibatch.obs, minibatch.actions)
