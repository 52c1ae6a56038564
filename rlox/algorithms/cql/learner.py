"""CQL(H)'s update for continuous actions in torch: soft actor-critic's with a conservative penalty."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, cast

import torch
from torch import Tensor

from rlox._core import Stream
from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.sac.common import resolve_target_entropy
from rlox.algorithms.sac.learner import SACLearner, build_squashed_policy
from rlox.configs import CQLConfig, RunConfig
from rlox.configs.schedules import is_constant
from rlox.devices import to_device
from rlox.envs.actions import ActionCodec
from rlox.losses import critics_loss, td_target
from rlox.networks import init_weights, squashed_log_prob
from rlox.networks.critics import q_values
from rlox.policies.soft import SquashedSACPolicy
from rlox.training.components import BuildContext
from rlox.training.learner import (
    FixedCoefficient,
    LearnedCoefficient,
    NoiseFunction,
    UpdateNoise,
    cast_obs,
    require_finite,
)
from rlox.types import Clock, Transitions, Update

__all__ = [
    "CQLLearner",
    "FixedPenaltyWeight",
    "LearnedPenaltyWeight",
    "PenaltyNoise",
    "PenaltyNoiseFunction",
    "build_torch",
]

MAX_WEIGHT = 1e6  # limit of a learned weight, as in the authors' code

# Maps an update's number, a shape `(B, n, act_dim)` and a tensor to standard normal numbers
# `[2, B, n, act_dim]` and uniform ones in [-1, 1] `[B, n, act_dim]`, of the tensor's dtype and device.
PenaltyNoiseFunction = Callable[[int, tuple[int, int, int], Tensor], tuple[Tensor, Tensor]]


class PenaltyNoise:
    """Random numbers that are a function of the run's seed and the update's number."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __call__(self, update: int, shape: tuple[int, int, int], like: Tensor) -> tuple[Tensor, Tensor]:
        """Return the normal and uniform numbers of an update."""
        stream, count = Stream(self._seed, "penalty", update), math.prod(shape)
        normal = torch.from_numpy(stream.standard_normal(2 * count)).reshape(2, *shape)
        uniform = torch.from_numpy(stream.uniform(count)).reshape(shape).mul_(2.0).sub_(1.0)
        normal, uniform = (to_device(noise.to(like.dtype), like.device) for noise in (normal, uniform))
        return normal, uniform


class FixedPenaltyWeight(FixedCoefficient):
    """A fixed weight."""

    def learn(self, penalty: Tensor, lr: float) -> None:
        """Learn nothing."""


class LearnedPenaltyWeight(LearnedCoefficient, FixedPenaltyWeight):
    """A weight alpha that rises while the penalty p is above `target` tau; at most 1e6.

    It maximises alpha (p - tau): CQL's Lagrangian version (Kumar et al. 2020, appendix F).
    """

    def __init__(self, alpha: float, target: float, lr: float, like: Tensor) -> None:
        super().__init__(alpha, lr, like)
        self.target = target

    def learn(self, penalty: Tensor, lr: float) -> None:
        """Take one step for the mean `penalty` of the critics."""
        self.minimize(self.log_alpha.exp() * (self.target - penalty), lr)
        self.log_alpha.detach().clamp_(max=math.log(MAX_WEIGHT))


MAX_ROWS = 512  # rows per pass over the actions of several states; more are no faster and need more memory


class PenaltySamples(NamedTuple):
    """The random numbers of a critic step."""

    next_noise: Tensor  # [B, act_dim]
    normal: Tensor  # [2, B, n, act_dim]
    uniform: Tensor  # [B, n, act_dim]


class CQLLearner(SACLearner):
    """Soft actor-critic with a conservative penalty on the critics, and the penalty's weight.

    `penalty_noise` returns the random numbers that estimate the penalty of an update.
    """

    policy: SquashedSACPolicy
    config: CQLConfig

    def __init__(
        self,
        policy: SquashedSACPolicy,
        config: CQLConfig,
        target_entropy: float,
        noise: NoiseFunction,
        penalty_noise: PenaltyNoiseFunction,
    ) -> None:
        super().__init__(policy, config, target_entropy, noise)
        self._penalty_noise = penalty_noise
        self.weight = make_penalty_weight(config, self.critic_optimizer.vector)
        self._parts = {**self._parts, "weight": self.weight}
        self._penalties: list[Tensor] = []  # one of each step of the present update

    def _apply_schedules(self, clock: Clock) -> None:
        """Set the learning rates; the actor's is `actor_learning_rate`."""
        super()._apply_schedules(clock)
        is_rate_constant = is_constant(self.config.actor_learning_rate)  # else it has its own schedule
        decay_factor = clock.remaining if self.config.anneal_lr and is_rate_constant else 1.0
        self.actor_optimizer.lr = decay_factor * self.config.at("actor_learning_rate", clock.remaining)

    def _own_metrics(self) -> dict[str, float]:
        """Return the learning rates of critics and actor."""
        return {
            "train/learning_rate": self.critic_optimizer.lr,
            "train/actor_learning_rate": self.actor_optimizer.lr,
        }

    def _learn(self, batch: Transitions, first_update: int, label: str) -> Update:
        update = super()._learn(batch, first_update, label)
        penalties = torch.stack(self._penalties)
        self._penalties.clear()
        require_finite(penalties.unsqueeze(-1), ("loss/conservative",), label)
        extra_metrics = {"loss/conservative": float(penalties.mean()), "cql/alpha": float(self.weight.alpha)}
        return replace(update, metrics={**update.metrics, **extra_metrics})

    def _noise(self, update: int, rows: int, like: Tensor) -> tuple[Tensor, PenaltySamples]:
        noise = self.noise(update, (2, *self.policy.noise_shape(rows)), like)
        shape = (rows, self.config.n_random_actions, self.policy.actor.act_dim)
        return noise[0], PenaltySamples(noise[1], *self._penalty_noise(update, shape, like))

    def _improve_critics(
        self, batch: Transitions, i: int, obs: Tensor, alpha: Tensor, noise: PenaltySamples
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Step the critics on sum_i E[(Q_i - y)^2] + w penalty_i, without entropy in y.

        Squared errors have no factor 1/2. The authors' code has none either, and their penalty weights were
        chosen for errors without it.
        """
        policy, like = self.policy, self.critic_optimizer.vector
        with torch.no_grad():
            next_obs = cast_obs(batch.next_obs[i], like)
            next_actions, _ = policy.draw(next_obs, noise.next_noise)
            next_value = policy.value(self.target.module, next_obs, next_actions)
            target_q = td_target(batch.rewards[i].to(like), batch.discounts[i].to(like), next_value)
            actions, log_p = self._sample_actions(obs, next_obs, noise)
        actions = torch.cat([actions, batch.actions[i].to(like).unsqueeze(1)], 1)
        q, td_loss, penalty = self._critic_gradients(obs, actions, log_p, target_q)
        norm = self.critic_optimizer.clip(self.config.max_grad_norm)
        self.critic_optimizer.step()
        self._penalties.append(penalty)
        self.weight.learn(penalty, self.critic_optimizer.lr)
        return td_loss, q, (q - target_q).abs().mean(0), norm

    def _sample_actions(self, obs: Tensor, next_obs: Tensor, noise: PenaltySamples) -> tuple[Tensor, Tensor]:
        """Sample uniform actions and the policy's at s and s', `[B, 3 n, act_dim]`, with log-densities."""
        mean, log_std = self.policy.actor(torch.cat([obs, next_obs]))
        mean, log_std = (torch.unflatten(x, 0, (2, -1)).unsqueeze(2) for x in (mean, log_std))
        u = mean + log_std.exp() * noise.normal
        policy_log_prob = squashed_log_prob(u, mean, log_std)
        uniform_log_prob = torch.full_like(policy_log_prob[0], -noise.uniform.shape[-1] * math.log(2.0))
        return torch.cat([noise.uniform, *u.tanh()], 1), torch.cat([uniform_log_prob, *policy_log_prob], 1)

    def _critic_gradients(
        self, obs: Tensor, actions: Tensor, log_p: Tensor, target_q: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Set the critics' gradients; return Q_i of the dataset's actions, the TD loss and the mean penalty.

        The last of each state's `actions` is the dataset's. penalty_i = log(1/3n sum_k exp(Q_i(s, a_k) -
        log p_k)) - Q_i(s, a), where the first term estimates the log of the integral of exp Q_i(s, .). Each
        pass covers only some of the states, to bound memory.
        """
        n_actions, weight, rows = actions.shape[1], self.weight.alpha, len(obs)
        states_per_pass = max(1, MAX_ROWS // n_actions)
        gradient = torch.zeros_like(self.critic_optimizer.gradient)
        data_values, losses = [], []
        for start in range(0, rows, states_per_pass):
            chunk = slice(start, start + states_per_pass)
            state_rows = obs[chunk].repeat_interleave(n_actions, 0)
            values = q_values(self.policy.critic, state_rows, actions[chunk].flatten(0, 1))
            q = torch.unflatten(values, -1, (-1, n_actions))
            q_data, q_sampled = q[..., -1], q[..., :-1]
            share = q_data.shape[-1] / rows  # of the batch
            td_loss = share * critics_loss(q_data, target_q[chunk])
            log_mean = (q_sampled - log_p[chunk]).logsumexp(-1) - math.log(n_actions - 1)
            penalty = share * (log_mean - q_data).mean(-1).sum()
            self.critic_optimizer.backward(td_loss + weight * penalty, None)
            gradient.add_(self.critic_optimizer.gradient)
            data_values.append(q_data.detach())
            losses.append(torch.stack([td_loss.detach(), penalty.detach()]))
        self.critic_optimizer.gradient.copy_(gradient)
        td_loss, penalty = torch.stack(losses).sum(0)
        return torch.cat(data_values, -1), td_loss, penalty / len(data_values[0])


def make_penalty_weight(config: CQLConfig, like: Tensor) -> FixedPenaltyWeight:
    """Make the penalty's weight, learned if `auto_alpha` is set."""
    if not config.auto_alpha:
        return FixedPenaltyWeight(config.cql_alpha, like)
    lr = config.initial("learning_rate")
    return LearnedPenaltyWeight(config.cql_alpha, config.cql_target_value, lr, like)


def build_torch(
    config: RunConfig, context: BuildContext, encoder_spec: EncoderSpec, actions: ActionCodec
) -> tuple[SquashedSACPolicy, CQLLearner]:
    """Build the policy and its learner."""
    algo = cast(CQLConfig, config.algo)
    policy = init_weights(build_squashed_policy(algo, encoder_spec, actions.size), config.seed)
    policy.actor.net = encoder_spec.wrap_network(policy.actor.net)
    policy.critic = encoder_spec.wrap_ensemble(policy.critic)
    policy = policy.to(context.device)
    noise, penalty_noise = UpdateNoise(context.streams), PenaltyNoise(config.seed)
    return policy, CQLLearner(policy, algo, resolve_target_entropy(algo, actions), noise, penalty_noise)
