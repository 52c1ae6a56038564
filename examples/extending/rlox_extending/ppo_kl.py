"""PPO with an adaptive penalty on the KL divergence (Schulman et al. 2017, eq. 8)."""

from dataclasses import replace

import torch

from rlox.algorithms.assembly.on_policy import build_on_policy_run
from rlox.algorithms.ppo.learner import PPOLearner
from rlox.losses import PPOTerms, kl_estimate, value_loss
from rlox.runs.algorithm import Algorithm

MIN_COEF, MAX_COEF = 1e-6, 1e6  # of the KL divergence


class PPOKLLearner(PPOLearner):
    """PPO's epochs of minibatches, with another loss; `kl_coef` adapts after each rollout."""

    def __init__(self, policy, config, streams):
        super().__init__(policy, config, streams)
        self.kl_coef = config.kl_coef

    def _terms(self, minibatch):
        """Compute the loss E[-r A + beta KL(old, new)] and its terms."""
        log_probs, entropy, values = self._evaluate(minibatch)
        log_ratio = log_probs - minibatch.log_probs
        policy = -(log_ratio.exp() * self._advantages(minibatch)).mean()
        value, kl = value_loss(values, minibatch.returns), kl_estimate(log_ratio)
        total = policy + self.kl_coef * kl + self.config.vf_coef * value
        total = total - self.loss.ent_coef * entropy.mean()
        parts = (policy, value, entropy.mean(), kl, torch.zeros_like(kl))
        return PPOTerms(total, *(part.detach() for part in parts))

    def update(self, batch, clock):
        """Learn from one rollout, then adapt the weight of the KL divergence."""
        update = super().update(batch, clock)
        rows = batch.rows()
        with torch.no_grad():  # of the whole update; `policy/approx_kl` is a mean over its minibatches
            log_probs, _, _ = self.policy.evaluate_actions(rows.obs, rows.actions)
            kl = float(kl_estimate(log_probs - rows.log_probs))
        metrics = {**update.metrics, "policy/kl": kl, "policy/kl_coef": self.kl_coef}
        if kl < self.config.kl_target / 1.5:
            self.kl_coef = max(self.kl_coef / 2, MIN_COEF)
        elif kl > self.config.kl_target * 1.5:
            self.kl_coef = min(self.kl_coef * 2, MAX_COEF)
        return replace(update, metrics=metrics)

    def state(self):
        """Return what a checkpoint saves; the weight is part of it, so that a resumed run is exact."""
        state = super().state()
        return {**state, "optimizer": {**state["optimizer"], "kl_coef": self.kl_coef}}

    def restore(self, state):
        """Continue from `state()`."""
        optimizer = dict(state["optimizer"])
        self.kl_coef = float(optimizer.pop("kl_coef"))
        super().restore({**state, "optimizer": optimizer})


def make(config, context):
    """Make the components of a run."""

    def build_learner(policy, env, encoder_spec):
        return PPOKLLearner(policy, config.algo, context.streams)

    return build_on_policy_run(config, context, build_learner, minibatch_size=config.algo.batch_size)


class PPOKL(Algorithm):
    """`PPOKL("CartPole-v1", kl_target=0.02).train(50_000)`."""

    name = "ppo_kl"
    make = staticmethod(make)
