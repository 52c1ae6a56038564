"""DQN: deep Q-learning (Mnih et al. 2015), and what became of it, part by part (Hessel et al. 2018)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from rlox.algorithms.encoding import encoding_of
from rlox.algorithms.off_policy import OffPolicy, off_policy_parts
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import DQNConfig, RunConfig
from rlox.configs.schedules import is_known
from rlox.devices import moved
from rlox.envs.base import VectorEnv
from rlox.envs.make import EnvSource
from rlox.networks import begun
from rlox.networks.noisy import stream_factors
from rlox.optim import Adam, TargetNetwork
from rlox.policies.engine import counted, told_where
from rlox.policies.masking import MaskedEpsilonGreedy, MaskedQPolicy
from rlox.policies.native_exploring import NativeGreedy
from rlox.policies.native_q import NativeQ
from rlox.policies.q import EpsilonGreedy, NoisyGreedy, QPolicy
from rlox.policies.returns import Atoms, Expectation, Quantiles, Returns
from rlox.runs.algorithm import Algorithm
from rlox.sources.replay import Behaviour
from rlox.training.backend import Choice
from rlox.training.finite import require_finite_parameters
from rlox.training.learner import copy_weights, learn_each, learned
from rlox.training.parts import Parts, Tools
from rlox.training.setup import DEFAULT_ENV, config_from_arguments, environment_of
from rlox.types import Clock, Transitions, Update

__all__ = ["DQN", "DQNLearner", "NativeDQNLearner"]

NAMES = ("loss/q", "value/q_mean", "train/grad_norm")


class DQNLearner:
    """A value network, its target network, and what batches of transitions do to them.

    Of noisy networks each batch has noise of its own, numbers of streams of `seed`: for the values that are
    learned, for the choice of the next action, and for its value.
    """

    def __init__(self, policy: QPolicy, target: QPolicy, config: DQNConfig, seed: int = 0) -> None:
        self.policy, self.target, self.config = policy, target, config
        self.returns = _returns(config)
        self._seed = seed
        self.optimizer = Adam(policy, config.initial("learning_rate"), eps=config.adam_eps)
        self._follower = TargetNetwork(target, self.optimizer.flat)
        self._copied = 0  # copies that were due by the environment steps so far

    @torch.no_grad()
    def update(self, batch: Transitions, clock: Clock) -> Update:
        """One step for each batch; the target network follows by the environment steps taken."""
        config = self.config
        self.optimizer.lr = config.at("learning_rate", clock.remaining)
        self._follow(batch.env_steps)
        batch = batch.to(self.optimizer.vector.device)
        where = f"update {clock.updates} (env_steps {batch.env_steps})"
        update = self._learn(batch, clock.updates, where)
        metrics = {**update.metrics, "train/learning_rate": self.optimizer.lr}
        if not config.noisy:
            elapsed = min(batch.env_steps / (clock.horizon or 1), 1.0)
            metrics["policy/epsilon"] = epsilon(config, elapsed)
        return replace(update, metrics=metrics)

    def _learn(self, batch: Transitions, number: int, where: str) -> Update:
        """One step for each batch, the first of which is `number` of the run."""
        update = learn_each(batch, lambda i: self._step(batch, i, number + i), NAMES, where)
        require_finite_parameters(self.policy, self.optimizer.vector, where)
        return update

    def state(self) -> dict[str, Any]:
        """Copies of both networks' weights and of the optimizer's moments."""
        return {
            "weights": copy_weights(self.policy),
            "optimizer": {
                "adam": self.optimizer.state(),
                "target": self._follower.state(),
                "copied": self._copied,
            },
        }

    def begin_from(self, weights: Mapping[str, Any]) -> None:
        """Begin with these weights in place of the initial ones, in both networks."""
        self.policy.load_state_dict(dict(weights))
        self._follower.copy()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self.policy.load_state_dict(dict(state["weights"]))
        self.optimizer.restore(state["optimizer"]["adam"])
        self._follower.restore(state["optimizer"]["target"])
        self._copied = int(state["optimizer"]["copied"])

    def _follow(self, env_steps: int) -> None:
        """Make the copies to the target network that have become due.

        The online network was the same at all of them, so that n at once leave (1 - tau)^n of the way.
        """
        due = env_steps // self.config.target_update_interval
        copies = due - self._copied
        if copies > 0:
            self._copied = due
            tau = self.config.tau
            self._follower.follow(tau if copies == 1 else 1.0 - (1.0 - tau) ** copies)

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


class NativeDQNLearner(DQNLearner):
    """All batches of a training in one call.

    Differs from `DQNLearner` by rounding only, and has a state that each can go on from.
    """

    def __init__(self, policy: QPolicy, target: QPolicy, config: DQNConfig, seed: int = 0) -> None:
        super().__init__(policy, target, config, seed)
        self.native = NativeQ(policy, self.optimizer.flat)

    @torch.no_grad()
    def _learn(self, batch: Transitions, number: int, where: str) -> Update:
        adam, config = self.optimizer, self.config
        self.native.check()
        errors = np.empty(batch.rewards.shape, np.float32)
        with told_where(where), counted(adam) as steps:
            told = self.native.learns.learn(
                adam.vector.numpy(),
                self._follower.vector.numpy(),
                adam.moment("exp_avg").numpy(),
                adam.moment("exp_avg_sq").numpy(),
                steps,
                batch.obs.numpy(),
                batch.actions.numpy(),
                batch.rewards.numpy(),
                batch.next_obs.numpy(),
                batch.discounts.numpy(),
                errors,
                None if batch.weights is None else batch.weights.numpy(),
                learning_rate=adam.lr,
                double=config.double_dqn,
                loss=config.loss,
                max_grad_norm=config.max_grad_norm,
                adam_eps=adam.eps,
            )
        metrics = {
            "loss/q": told["loss"], "value/q_mean": told["q_mean"], "train/grad_norm": told["grad_norm"],
        }  # fmt: skip
        return learned(batch, metrics, errors)


def _index(said: Tensor, actions: Tensor) -> Tensor:
    """Where `actions` `[B]` are in `[B, n_actions]` or `[B, n_actions, numbers]`, along dimension 1."""
    return actions.view(-1, *(1,) * (said.ndim - 1)).expand(-1, 1, *said.shape[2:])


def epsilon(config: DQNConfig, elapsed: float) -> float:
    """As it is scheduled; else it falls linearly over the first `exploration_fraction` of the run."""
    if config.exploration_eps is not None:
        return config.at("exploration_eps", 1.0 - elapsed)
    part = min(elapsed / config.exploration_fraction, 1.0)
    first, last = config.exploration_initial_eps, config.exploration_final_eps
    return first + (last - first) * part


def make(config: RunConfig, tools: Tools) -> Parts:
    """DQN's learner, with whatever parts, on replayed transitions."""
    algo = cast(DQNConfig, config.algo)
    choice = Choice(algo.backend, config, algo.batch_size, tools.backend)

    def compose(env: VectorEnv) -> OffPolicy:
        online, target = (_network(config, env).to(tools.device) for _ in range(2))
        given = (online, target, algo, config.seed)
        learner = choice.learner(
            online, lambda: NativeDQNLearner(*given), lambda: DQNLearner(*given)
        )
        explorer = _explorer(config, online, env, tools.device, learner)
        return OffPolicy(online, explorer, learner, choice.made)

    return off_policy_parts(config, tools, compose)


class DQN(Algorithm):
    """Deep Q-learning for Discrete actions.

    Parameters
    ----------
    env_id : Gymnasium id, a `gymnasium.Env`, or a callable that makes one
    n_envs : parallel environments; `None`: 1, or as many as a ready vectorised one has
    seed : keys every random stream of the run
    logger : receives metrics rows
    callbacks : called during training; one that returns False from `on_step` stops it
    **config_kwargs : any field of `DQNConfig` (`double_dqn`, `dueling`, `n_step`, `prioritized`, `noisy`,
        `distribution`, ...), of its buffer (`buffer_size`, `alpha`, `beta`, ...) or of `EnvConfig` (its
        `backend` as `env_backend`), or `device`; unknown names are errors
    """

    name = "dqn"
    make = staticmethod(make)

    def __init__(
        self,
        env_id: EnvSource = DEFAULT_ENV,
        n_envs: int | None = None,
        seed: int = 42,
        logger: LoggerCallback | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        **config_kwargs: Any,
    ) -> None:
        env_id = environment_of(env_id, DEFAULT_ENV, config_kwargs)
        config = config_from_arguments("dqn", env_id, n_envs, seed, config_kwargs)
        super().__init__(config, env_id, None, logger, callbacks)


def _network(run: RunConfig, env: VectorEnv) -> QPolicy:
    config = cast(DQNConfig, run.algo)
    kind = MaskedQPolicy if env.observations.masked else QPolicy
    encoding = encoding_of(config, env.observations)
    policy = kind(
        encoding.features,
        env.actions.size,
        config.net_arch,
        config.activation,
        config.dueling,
        epsilon(config, 1.0) if is_known(config.exploration_eps) else 0.0,
        _returns(config),
        config.noisy_sigma if config.noisy else None,
    )
    policy = begun(policy, run.seed)
    policy.q = encoding.before(policy.q)
    return policy


def _returns(config: DQNConfig) -> Returns:
    if config.distribution == "categorical":
        return Atoms(config.n_atoms, config.v_min, config.v_max)
    if config.distribution == "quantile":
        return Quantiles(config.n_quantiles)
    return Expectation(config.loss)


def _explorer(
    run: RunConfig, policy: QPolicy, env: VectorEnv, device: torch.device, learner: DQNLearner
) -> Behaviour:
    config = cast(DQNConfig, run.algo)
    kind = MaskedEpsilonGreedy if env.observations.masked else EpsilonGreedy
    given = (policy, env.n_envs, partial(epsilon, config), run.seed, device)
    if isinstance(learner, NativeDQNLearner):
        return NativeGreedy(learner.native, *given)
    explore = kind(*given)
    return NoisyGreedy(policy, explore, run.seed, device) if config.noisy else explore
