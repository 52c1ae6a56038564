"""CQL(H)'s update of vectors in torch: soft actor-critic's, with values held down away from the data."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple, cast

import torch
from torch import Tensor

from rlox.algorithms.encoding import Encoding
from rlox.algorithms.sac_schedule import target_entropy
from rlox.algorithms.torch_sac import SACLearner, squashed
from rlox.configs import CQLConfig, RunConfig
from rlox.configs.schedules import is_constant
from rlox.envs.actions import ActionCodec
from rlox.losses import critics_loss, td_target
from rlox.networks import ActionValues, begun, squashed_log_prob
from rlox.policies.soft import SquashedPolicy
from rlox.training.conservative import Draws, FixedWeight, LearnedWeight, PenaltyDraws
from rlox.training.finite import require_finite
from rlox.training.learner import Noise, UpdateNoise, seen
from rlox.training.parts import Tools
from rlox.types import Clock, Transitions, Update

__all__ = ["CQLLearner", "composed"]

ROWS = 512  # of a pass over the actions of several states: as fast as more, in less memory


class Drawn(NamedTuple):
    """What the critics' step draws with."""

    next_noise: Tensor  # [B, act_dim]
    normal: Tensor  # [2, B, n, act_dim]
    uniform: Tensor  # [B, n, act_dim]


class CQLLearner(SACLearner):
    """Soft actor-critic's networks, critics' penalty and its weight.

    `draws` gives the numbers that the penalty of an update is estimated with.
    """

    policy: SquashedPolicy
    config: CQLConfig

    def __init__(
        self,
        policy: SquashedPolicy,
        config: CQLConfig,
        target_entropy: float,
        noise: Noise,
        draws: Draws,
    ) -> None:
        super().__init__(policy, config, target_entropy, noise)
        self._draws = draws
        self.weight = weight_of(config, self.critic.vector)
        self._parts = {**self._parts, "weight": self.weight}
        self._penalties: list[Tensor] = []  # of the update under way

    def _schedule(self, clock: Clock) -> None:
        """The actor has a step size of its own."""
        super()._schedule(clock)
        level = is_constant(self.config.actor_learning_rate)  # else it has a schedule of its own
        falls = clock.remaining if self.config.anneal_lr and level else 1.0
        self.actor.lr = falls * self.config.at("actor_learning_rate", clock.remaining)

    def _told(self, update: Update) -> Update:
        """Both step sizes."""
        told = super()._told(update)
        rates = {"train/learning_rate": self.critic.lr, "train/actor_learning_rate": self.actor.lr}
        return replace(told, metrics={**told.metrics, **rates})

    def _learn(self, batch: Transitions, number: int, at: str) -> Update:
        update = super()._learn(batch, number, at)
        table = torch.stack(self._penalties)
        self._penalties.clear()
        require_finite(table.unsqueeze(-1), ("loss/conservative",), at)
        beside = {"loss/conservative": float(table.mean()), "cql/alpha": float(self.weight.alpha)}
        return replace(update, metrics={**update.metrics, **beside})

    def _noise(self, update: int, rows: int, like: Tensor) -> tuple[Tensor, Drawn]:
        noise = self.noise(update, (2, *self.policy.noise_shape(rows)), like)
        shape = (rows, self.config.n_random_actions, self.policy.actor.act_dim)
        return noise[0], Drawn(noise[1], *self._draws(update, shape, like))

    def _improve_critics(
        self, batch: Transitions, i: int, obs: Tensor, alpha: Tensor, noise: Drawn
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """One step of the critics, of sum_i E[(Q_i - y)^2] + w penalty_i, without entropy in y.

        Squared errors have no factor 1/2, as in the authors' code, in which weights are given.
        """
        policy, like = self.policy, self.critic.vector
        next_obs = seen(batch.next_obs[i], like)
        drawn, _, _ = policy.draw(next_obs, noise.next_noise)
        value, _ = policy.value(self.target.module, next_obs, drawn)
        goal = td_target(batch.rewards[i].to(like), batch.discounts[i].to(like), value)
        actions, log_p = self._sampled(obs, next_obs, noise)
        actions = torch.cat([actions, batch.actions[i].to(like).unsqueeze(1)], 1)
        q, penalty = self._back(obs, actions, log_p, goal)
        norm = self.critic.clip(self.config.max_grad_norm)
        self.critic.step()
        self._penalties.append(penalty)
        self.weight.learn(penalty, self.critic.lr)
        return critics_loss(q, goal), q, (q - goal).abs().mean(0), norm

    def _sampled(self, obs: Tensor, next_obs: Tensor, noise: Drawn) -> tuple[Tensor, Tensor]:
        """Actions `[B, 3 n, act_dim]`, uniform and the policy's here and there, and their log-densities."""
        mean, log_std = self.policy.actor(torch.cat([obs, next_obs]))
        mean, log_std = (torch.unflatten(x, 0, (2, -1)).unsqueeze(2) for x in (mean, log_std))
        u = mean + log_std.exp() * noise.normal
        density = squashed_log_prob(u, mean, log_std)
        even = torch.full_like(density[0], -noise.uniform.shape[-1] * math.log(2.0))
        return torch.cat([noise.uniform, *u.tanh()], 1), torch.cat([even, *density], 1)

    def _back(
        self, obs: Tensor, actions: Tensor, log_p: Tensor, goal: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The critics' gradients; Q_i of the dataset's actions, the last of `actions`, and the mean penalty.

        penalty_i = log(1/3n sum_k exp(Q_i(s, a_k) - log p_k)) - Q_i(s, a), which estimates
        log of the integral of exp Q_i(s, .) - Q_i(s, a); state by state, so that no pass is over all.
        """
        each, weight, rows = actions.shape[1], self.weight.alpha, len(obs)
        states = max(1, ROWS // each)
        total = torch.zeros_like(self.critic.gradient)
        found, penalties = [], []
        for at in range(0, rows, states):
            some = slice(at, at + states)
            given = obs[some].repeat_interleave(each, 0), actions[some].flatten(0, 1)
            values = ActionValues(self.policy.critic, *given)
            q = torch.unflatten(values.out, -1, (-1, each))
            likely = q[..., :-1] - log_p[some]
            penalties.append(likely.logsumexp(-1) - math.log(each - 1) - q[..., -1])
            found.append(q[..., -1])
            slope = torch.cat([weight * likely.softmax(-1), torch.zeros_like(q[..., -1:])], -1)
            slope[..., -1] = 2.0 * (q[..., -1] - goal[some]) - weight
            values.learn(slope.div_(rows).flatten(-2))
            total.add_(self.critic.gradient)
        self.critic.gradient.copy_(total)
        return torch.cat(found, -1), torch.cat(penalties, -1).mean()


def weight_of(config: CQLConfig, like: Tensor) -> FixedWeight:
    """The penalty's weight, learned where that is asked for."""
    if not config.auto_alpha:
        return FixedWeight(config.cql_alpha, like)
    lr = config.initial("learning_rate")
    return LearnedWeight(config.cql_alpha, config.cql_target_value, lr, like)


def composed(
    config: RunConfig, tools: Tools, encoding: Encoding, actions: ActionCodec
) -> tuple[SquashedPolicy, CQLLearner]:
    """The policy and what it learns by."""
    algo = cast(CQLConfig, config.algo)
    policy = begun(squashed(algo, encoding.features, actions.size), config.seed)
    policy.actor.net = encoding.before(policy.actor.net)
    policy.critic = encoding.ensemble(policy.critic)
    policy = policy.to(tools.device)
    noise, draws = UpdateNoise(tools.streams), PenaltyDraws(config.seed)
    return policy, CQLLearner(policy, algo, target_entropy(algo, actions), noise, draws)
