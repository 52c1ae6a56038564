"""The learner of VPG and its class."""

import torch

from rlox.algorithms.assembly.on_policy import build_on_policy_run
from rlox.losses import policy_gradient, standardize, value_loss
from rlox.optim import Adam
from rlox.runs.algorithm import Algorithm
from rlox.training.learner import PolicyLearner, require_finite
from rlox.types import Update

METRIC_NAMES = ("loss/policy", "loss/value", "train/grad_norm")


class VPGLearner(PolicyLearner):
    """Update the weights once for each rollout."""

    def __init__(self, policy, config):
        super().__init__(policy, Adam(policy, config.initial("learning_rate")))
        self.config = config

    @torch.enable_grad()
    def update(self, batch, clock):
        """Learn from one rollout."""
        config, rows = self.config, batch.rows()
        self.optimizer.lr = config.at("learning_rate", clock.remaining)
        advantages = standardize(rows.advantages)
        log_probs, _, values = self.policy.evaluate_actions(rows.obs, rows.actions)
        policy, value = policy_gradient(log_probs, advantages), value_loss(values, rows.returns)
        norm = self.optimizer.minimize(policy + config.vf_coef * value, config.max_grad_norm)
        row = torch.stack([policy, value, norm]).detach()
        require_finite(row[None], METRIC_NAMES, f"step {clock.now}")
        return Update(dict(zip(METRIC_NAMES, row.tolist(), strict=True)), count=1, samples=len(rows.obs))


def make(config, context):
    """Make the components of a run."""

    def build_learner(policy, env, encoder_spec):
        return VPGLearner(policy, config.algo)

    return build_on_policy_run(config, context, build_learner)


class VPG(Algorithm):
    """`VPG("CartPole-v1").train(50_000)`."""

    name = "vpg"
    make = staticmethod(make)
