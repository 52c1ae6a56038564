"""DQN's update in torch, with whatever parts."""

from __future__ import annotations

from functools import partial
from typing import cast

import torch
from torch import Tensor

from rlox.algorithms.dqn_schedule import NAMES, Scheduled, epsilon
from rlox.algorithms.encoding import Encoding
from rlox.algorithms.off_policy import OffPolicy
from rlox.configs import DQNConfig, RunConfig
from rlox.configs.schedules import is_known
from rlox.devices import moved
from rlox.envs.base import VectorEnv
from rlox.networks import begun
from rlox.networks.noisy import stream_factors
from rlox.optim import Adam, TargetNetwork
from rlox.policies.masking import MaskedEpsilonGreedy, MaskedQPolicy
from rlox.policies.q import EpsilonGreedy, NoisyGreedy, QPolicy
from rlox.policies.returns import Atoms, Expectation, Quantiles, Returns
from rlox.sources.replay import Behaviour
from rlox.training.finite import require_finite_parameters
from rlox.training.learned import Stateful, where
from rlox.training.learner import ActorCriticLearner, learn_each
from rlox.training.parts import Tools
from rlox.types import Clock, Transitions, Update

__all__ = ["DQNLearner", "composed", "described"]


class DQNLearner(Scheduled, ActorCriticLearner[QPolicy]):
    """A value network, its target network, and what batches of transitions do to them.

    Of noisy networks each batch has noise of its own, numbers of streams of `seed`: for the values that are
    learned, for the choice of the next action, and for its value.
    """

    def __init__(self, policy: QPolicy, target: QPolicy, config: DQNConfig, seed: int = 0) -> None:
        self.target, self.config = target, config
        self.returns = _returns(config)
        self._seed = seed
        self.optimizer = Adam(policy, config.initial("learning_rate"), eps=config.adam_eps)
        self.follower: TargetNetwork[QPolicy] = TargetNetwork(target, self.optimizer.flat)
        parts: dict[str, Stateful] = {"adam": self.optimizer, "target": self.follower}
        super().__init__(policy, parts, [self.follower])

    @torch.no_grad()
    def update(self, batch: Transitions, clock: Clock) -> Update:
        """One step for each batch; the target network follows by the environment steps taken."""
        self._schedule(batch.env_steps, clock)
        on = batch.to(self.optimizer.vector.device)
        update = self._learn(on, clock.updates, where(batch, clock))
        return self._told(update, batch.env_steps, clock)

    def _learn(self, batch: Transitions, number: int, where: str) -> Update:
        """One step for each batch, the first of which is `number` of the run."""
        update = learn_each(batch, lambda i: self._step(batch, i, number + i), NAMES, where)
        require_finite_parameters(self.policy, self.optimizer.vector, where)
        return update

    def noise(self, stream: str, number: int) -> Tensor | None:
        """The noise of batch `number` of the run, by what it is for; None of plain networks."""
        size = self.policy.noise_size
        if not size:
            return None
        made = stream_factors(self._seed, stream, number, (size,))
        return moved(made, self.optimizer.vector.device)

    def _step(self, batch: Transitions, i: int, number: int) -> tuple[Tensor, Tensor]:
        """One gradient step; its row of metrics and by how much each row was wrong `[B]`."""
        returns, policy = self.returns, self.policy
        after = self._after(batch.next_obs[i], number)
        goal = returns.goal(batch.rewards[i], batch.discounts[i], after)
        traced = policy.trace(batch.obs[i], self.noise("noise-learning", number))
        choices = policy.by_choice(traced.out)
        index = _index(choices, batch.actions[i])
        said = choices.gather(1, index).squeeze(1)
        weights = None if batch.weights is None else batch.weights[i]
        slope = returns.gradient(said, goal, weights).unsqueeze(1)
        traced.learn(torch.zeros_like(choices).scatter_(1, index, slope).view_as(traced.out))
        norm = self.optimizer.clip(self.config.max_grad_norm)
        self.optimizer.step()
        loss, errors = returns.loss(said, goal, weights)
        return torch.stack([loss, returns.values(said).mean(), norm]), errors

    def _after(self, next_obs: Tensor, number: int) -> Tensor:
        """What the target network says of the best action, in its own eyes or the online network's."""
        after = self.target.said(next_obs, self.noise("noise-target", number))
        if self.config.double_dqn:
            values = self.policy(next_obs, self.noise("noise-choice", number))
        else:
            values = self.target.worth(after, next_obs)
        return after.gather(1, _index(after, values.argmax(-1))).squeeze(1)


def _index(said: Tensor, actions: Tensor) -> Tensor:
    """Where `actions` `[B]` are in `[B, n_actions]` or `[B, n_actions, numbers]`, along dimension 1."""
    return actions.view(-1, *(1,) * (said.ndim - 1)).expand(-1, 1, *said.shape[2:])


def composed(config: RunConfig, tools: Tools, env: VectorEnv, encoding: Encoding) -> OffPolicy:
    """What learns, explores and acts."""
    algo, device = cast(DQNConfig, config.algo), tools.device
    with tools.networks(config):
        online, target = (_network(config, env, encoding).to(device) for _ in range(2))
    learner = DQNLearner(online, target, algo, config.seed)
    return OffPolicy(online, _explorer(config, online, env, device), learner)


def _network(config: RunConfig, env: VectorEnv, encoding: Encoding) -> QPolicy:
    """The network that is configured, with the weights that a run begins with."""
    policy = begun(described(cast(DQNConfig, config.algo), env, encoding), config.seed)
    policy.q = encoding.before(policy.q)
    return policy


def described(config: DQNConfig, env: VectorEnv, encoding: Encoding) -> QPolicy:
    """The network of features that is configured for these environments."""
    kind = MaskedQPolicy if env.observations.masked else QPolicy
    return kind(
        encoding.features,
        env.actions.size,
        config.net_arch,
        config.activation,
        config.dueling,
        epsilon(config, 1.0) if is_known(config.exploration_eps) else 0.0,
        _returns(config),
        config.noisy_sigma if config.noisy else None,
    )


def _returns(config: DQNConfig) -> Returns:
    if config.distribution == "categorical":
        return Atoms(config.n_atoms, config.v_min, config.v_max)
    if config.distribution == "quantile":
        return Quantiles(config.n_quantiles)
    return Expectation(config.loss)


def _explorer(run: RunConfig, policy: QPolicy, env: VectorEnv, device: torch.device) -> Behaviour:
    config = cast(DQNConfig, run.algo)
    kind = MaskedEpsilonGreedy if env.observations.masked else EpsilonGreedy
    explore = kind(policy, env.n_envs, partial(epsilon, config), run.seed, device)
    return NoisyGreedy(policy, explore, run.seed, device) if config.noisy else explore
