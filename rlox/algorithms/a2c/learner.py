"""A2C's update in torch."""

from __future__ import annotations

import torch

from rlox.algorithms.a2c.common import METRIC_NAMES, RMS_DECAY, A2CLearnerMixin
from rlox.algorithms.assembly.on_policy import update_label
from rlox.algorithms.assembly.torch_policies import explained_variance
from rlox.configs import A2CConfig
from rlox.losses import policy_gradient, standardize, value_loss
from rlox.optim import Adam, RMSprop
from rlox.policies import ActorCritic
from rlox.policies.base import evaluate_for_update
from rlox.training.learner import PolicyLearner, require_finite, require_finite_parameters
from rlox.types import Clock, Minibatch, Rollout, Update

__all__ = ["A2CLearner"]


class A2CLearner(A2CLearnerMixin, PolicyLearner[ActorCritic]):
    """Takes one gradient step on each whole rollout."""

    def __init__(self, policy: ActorCritic, config: A2CConfig) -> None:
        self.optimizer: Adam | RMSprop = _optimizer(policy, config)
        super().__init__(policy, self.optimizer)
        self.config = config

    @torch.enable_grad()
    def update(self, batch: Rollout, clock: Clock) -> Update:
        """Learn from one rollout; schedules are evaluated once, at the clock of the update's start."""
        ent_coef = self._apply_schedules(clock)
        rows = batch.rows()
        losses = self._step(rows, ent_coef, update_label(batch.index, len(batch), clock))
        explained_var = explained_variance(rows.values, rows.returns)
        return self._build_update(losses, explained_var, ent_coef, len(rows.obs))

    def _step(self, rows: Minibatch, ent_coef: float, label: str) -> dict[str, float]:
        """Take one gradient step on all rows and return the metrics `METRIC_NAMES`."""
        config = self.config
        advantages = standardize(rows.advantages) if config.normalize_advantages else rows.advantages
        log_probs, entropies, values = evaluate_for_update(self.policy, rows.obs, rows.actions)
        policy_term, value_term = policy_gradient(log_probs, advantages), value_loss(values, rows.returns)
        entropy = entropies.mean()
        total = policy_term + config.vf_coef * value_term - ent_coef * entropy
        norm = self.optimizer.minimize(total, config.max_grad_norm)
        row = torch.stack([policy_term, value_term, entropy, total, norm]).detach()
        require_finite(row[None], METRIC_NAMES, label)
        require_finite_parameters(self.policy, self.optimizer.vector, label)
        return dict(zip(METRIC_NAMES, row.tolist(), strict=True))


def _optimizer(policy: ActorCritic, config: A2CConfig) -> Adam | RMSprop:
    if not config.use_rms_prop:
        return Adam(policy, config.initial("learning_rate"))
    return RMSprop(
        policy,
        config.initial("learning_rate"),
        alpha=RMS_DECAY,
        eps=config.rms_prop_eps,
        tf_like=config.rms_prop_tf_like,
    )
