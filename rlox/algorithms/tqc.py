"""TQC: truncated quantile critics (Kuznetsov et al. 2020, arXiv:2005.04269), for continuous actions.

It is soft actor-critic whose critics learn quantiles of the return. The target drops the largest quantiles
of all critics together, which counters overestimation.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.off_policy import OffPolicyComponents, build_off_policy_run
from rlox.algorithms.sac.learner import SACLearner, build_actor, build_continuous
from rlox.configs import RunConfig, TQCConfig
from rlox.envs.base import VectorEnv
from rlox.losses import quantile_critics_loss, td_target, truncate_quantiles
from rlox.networks import EnsembleMLP
from rlox.policies.soft import QuantileSACPolicy
from rlox.runs.algorithm import Algorithm
from rlox.training.backend import BackendSelector
from rlox.training.components import BuildContext, RunComponents
from rlox.training.learner import cast_obs
from rlox.types import Transitions

__all__ = ["TQC", "TQCLearner"]


class TQCLearner(SACLearner):
    """Soft actor-critic with quantile critics and a truncated target.

    The temperature and the targets' Polyak averages are those of `SACLearner`. So is the actor's loss,
    E[alpha log pi(a|s) - Q(s, a)], in which Q is the mean of all quantiles of all critics, none dropped
    (`QuantileSACPolicy.value`).
    """

    policy: QuantileSACPolicy
    config: TQCConfig

    def _improve_critics(
        self, batch: Transitions, i: int, obs: Tensor, alpha: Tensor, noise: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Step the critics; return loss, values `[members, B]`, absolute errors `[B]` and gradient norm.

        The error of a row is the mean |y_k - theta_j| over critics, quantiles and atoms: its priority. It is
        0 without importance weights, because then the buffer has no priorities.

        The target atoms are y_k = R + gamma^m (z_(k) - alpha log pi(a'|s')). z_(1) <= z_(2) <= ... are the
        sorted quantiles of all target critics for a' ~ pi(.|s'), without the largest n_critics *
        `top_quantiles_to_drop_per_net` (Kuznetsov et al. 2020, section 3 and algorithm 1).
        """
        policy, config, like = self.policy, self.config, self.critic_optimizer.vector
        with torch.no_grad():
            next_obs = cast_obs(batch.next_obs[i], like)
            next_actions, next_log_prob = policy.draw(next_obs, noise)
            next_quantiles = policy.quantiles(self.target.module, next_obs, next_actions)
            kept = truncate_quantiles(next_quantiles, config.top_quantiles_to_drop_per_net)
            soft = kept - (alpha * next_log_prob).unsqueeze(-1)
            rewards, discounts = (x[i].to(like).unsqueeze(-1) for x in (batch.rewards, batch.discounts))
            atoms = td_target(rewards, discounts, soft)  # [B, n_critics * (n_quantiles - dropped)]
        weights = None if batch.weights is None else batch.weights[i].to(like)
        quantiles = policy.quantiles(policy.critic, obs, batch.actions[i].to(like))  # [members, B, N]
        loss = quantile_critics_loss(quantiles, atoms, weights)
        grad_norm = self.critic_optimizer.minimize(loss, config.max_grad_norm)
        quantiles = quantiles.detach()
        if weights is None:
            error = torch.zeros_like(atoms[:, 0])
        else:
            error = (atoms.unsqueeze(-2) - quantiles.unsqueeze(-1)).abs().mean((0, -2, -1))
        return loss, quantiles.mean(-1), error, grad_norm


def build_policy(algo: TQCConfig, encoder_spec: EncoderSpec, act_dim: int) -> QuantileSACPolicy:
    """Build the configured actor and critics, which take features."""
    sizes = (encoder_spec.features + act_dim, *algo.hidden_widths[1], algo.n_quantiles)
    critic = EnsembleMLP(algo.n_critics, sizes, algo.activation)
    return QuantileSACPolicy(build_actor(algo, encoder_spec.actor_features, act_dim), critic)


def make(config: RunConfig, context: BuildContext) -> RunComponents:
    """Build the components of a TQC run on replayed transitions."""

    def build_learner(env: VectorEnv, encoder_spec: EncoderSpec, _: BackendSelector) -> OffPolicyComponents:
        actions = env.actions.unit_codec(config.env.id, "tqc")
        return build_continuous(config, context, env, encoder_spec, actions, build_policy, TQCLearner)

    return build_off_policy_run(config, context, build_learner)


class TQC(Algorithm):
    """Truncated quantile critics, for Box actions with finite bounds."""

    name = "tqc"
    make = staticmethod(make)
