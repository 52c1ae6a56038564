"""DQN: deep Q-learning (Mnih et al. 2015), with double, dueling, n-step and prioritized variants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from rlox.algorithms.off_policy import OffPolicy, off_policy_parts
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import DQNConfig, RunConfig
from rlox.configs.schedules import is_known
from rlox.envs.base import VectorEnv
from rlox.envs.make import EnvSource
from rlox.errors import UnsupportedSpaceError
from rlox.losses import td_loss, td_target
from rlox.optim import Adam, FlatParameters
from rlox.policies.masking import MaskedEpsilonGreedy, MaskedQPolicy
from rlox.policies.q import EpsilonGreedy, QPolicy
from rlox.runs.algorithm import Algorithm
from rlox.training.finite import require_finite, require_finite_parameters
from rlox.training.learner import copy_weights
from rlox.training.parts import Parts, Tools
from rlox.training.setup import DEFAULT_ENV, config_from_arguments, environment_of
from rlox.types import Clock, Transitions, Update

__all__ = ["DQN", "DQNLearner"]

NAMES = ("loss/q", "value/q_mean", "train/grad_norm")


class DQNLearner:
    """A value network, its target network, and what batches of transitions do to them."""

    def __init__(self, policy: QPolicy, target: QPolicy, config: DQNConfig) -> None:
        self.policy, self.target, self.config = policy, target, config
        self.optimizer = Adam(policy, config.initial("learning_rate"), eps=1e-8)
        target.load_state_dict(policy.state_dict())
        self._target = FlatParameters(target.requires_grad_(True))
        target.requires_grad_(False)
        self._copied = 0  # copies that were due by the environment steps so far

    def update(self, batch: Transitions, clock: Clock) -> Update:
        """One step for each batch; the target network follows by the environment steps taken."""
        config = self.config
        self.optimizer.lr = config.at("learning_rate", clock.remaining)
        self._follow(batch.env_steps)
        rows, errors = [], []
        for i in range(len(batch)):
            row, error = self._step(batch, i)
            rows.append(row)
            errors.append(error)
        where = f"update {clock.updates} (env_steps {batch.env_steps})"
        table = torch.stack(rows)
        require_finite(table, NAMES, where)
        require_finite_parameters(self.policy, self.optimizer.vector, where)
        metrics = dict(zip(NAMES, table.mean(0).tolist(), strict=True))
        metrics["train/learning_rate"] = self.optimizer.lr
        metrics["policy/epsilon"] = epsilon(
            config, min(batch.env_steps / (clock.horizon or 1), 1.0)
        )
        samples = batch.rewards.numel()
        if batch.weights is None:
            return Update(metrics, len(batch), samples)
        found = torch.cat(errors).abs_().cpu().numpy().astype(np.float64)
        return Update(metrics, len(batch), samples, {"priorities": found}, batch.indices.ravel())

    def state(self) -> dict[str, Any]:
        """Copies of both networks' weights and of the optimizer's moments."""
        return {
            "weights": copy_weights(self.policy),
            "optimizer": {
                "adam": self.optimizer.state(),
                "target": copy_weights(self.target),
                "copied": self._copied,
            },
        }

    def begin_from(self, weights: Mapping[str, Any]) -> None:
        """Begin with these weights in place of the initial ones, in both networks."""
        for network in (self.policy, self.target):
            network.load_state_dict(dict(weights))

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self.policy.load_state_dict(dict(state["weights"]))
        self.optimizer.restore(state["optimizer"]["adam"])
        self.target.load_state_dict(dict(state["optimizer"]["target"]))
        self._copied = int(state["optimizer"]["copied"])

    def _follow(self, env_steps: int) -> None:
        """Make the copies to the target network that have become due.

        The online network was the same at all of them, so that n at once leave (1 - tau)^n of the way.
        """
        due = env_steps // self.config.target_update_interval
        copies = due - self._copied
        if copies > 0:
            self._copied = due
            part = self.config.tau if copies == 1 else 1.0 - (1.0 - self.config.tau) ** copies
            with torch.no_grad():
                if part == 1.0:
                    self._target.vector.copy_(self.optimizer.vector)
                else:
                    self._target.vector.lerp_(self.optimizer.vector, part)

    def _step(self, batch: Transitions, i: int) -> tuple[Tensor, Tensor]:
        """One gradient step; its row of metrics and the errors `[B]`."""
        device = self.optimizer.vector.device
        obs, next_obs = batch.obs[i].to(device), batch.next_obs[i].to(device)
        with torch.no_grad():
            after: Tensor = self.target(next_obs)
            if self.config.double_dqn:
                value = after.gather(-1, self.policy.mode(next_obs).unsqueeze(-1)).squeeze(-1)
            else:
                value = after.amax(-1)
            goal = td_target(batch.rewards[i].to(device), batch.discounts[i].to(device), value)
        q = self.policy(obs).gather(-1, batch.actions[i].to(device).unsqueeze(-1)).squeeze(-1)
        weights = None if batch.weights is None else batch.weights[i].to(device)
        loss = td_loss(q, goal, self.config.loss, weights)
        norm = self.optimizer.backward(loss, self.config.max_grad_norm)
        self.optimizer.step()
        q = q.detach()
        return torch.stack([loss.detach(), q.mean(), norm]), q - goal


def epsilon(config: DQNConfig, elapsed: float) -> float:
    """As it is scheduled; else it falls linearly over the first `exploration_fraction` of the run."""
    if config.exploration_eps is not None:
        return config.at("exploration_eps", 1.0 - elapsed)
    part = min(elapsed / config.exploration_fraction, 1.0)
    first, last = config.exploration_initial_eps, config.exploration_final_eps
    return first + (last - first) * part


def make(config: RunConfig, tools: Tools) -> Parts:
    """DQN's learner on replayed transitions."""
    algo = cast(DQNConfig, config.algo)

    def compose(env: VectorEnv) -> OffPolicy:
        if not env.actions.discrete:
            raise UnsupportedSpaceError(
                f"dqn needs Discrete actions, {config.env.id} has {env.action_space}"
            )
        online, target = (_network(algo, env).to(tools.device) for _ in range(2))
        explorer = MaskedEpsilonGreedy if env.observations.masked else EpsilonGreedy
        part = partial(epsilon, algo)
        explore = explorer(online, env.n_envs, part, config.seed, tools.device)
        return OffPolicy(online, explore, DQNLearner(online, target, algo))

    def widths(env: VectorEnv) -> list[tuple[int, ...]]:
        return [(env.observations.seen, *algo.net_arch, env.actions.size)]

    return off_policy_parts(config, tools, compose, widths)


class DQN(Algorithm):
    """Deep Q-learning for Discrete actions.

    Parameters
    ----------
    env_id : Gymnasium id, a `gymnasium.Env`, or a callable that makes one
    n_envs : parallel environments
    seed : keys every random stream of the run
    logger : receives metrics rows
    callbacks : called during training; one that returns False from `on_step` stops it
    **config_kwargs : any field of `DQNConfig` (`double_dqn`, `dueling`, `n_step`, `prioritized`, ...), of
        its buffer (`buffer_size`, `alpha`, `beta`, ...) or of `EnvConfig` (its `backend` as
        `env_backend`), or `device`; unknown names are errors
    """

    name = "dqn"
    make = staticmethod(make)

    def __init__(
        self,
        env_id: EnvSource = DEFAULT_ENV,
        n_envs: int = 1,
        seed: int = 42,
        logger: LoggerCallback | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        **config_kwargs: Any,
    ) -> None:
        env_id = environment_of(env_id, DEFAULT_ENV, config_kwargs)
        config = config_from_arguments("dqn", env_id, n_envs, seed, config_kwargs)
        super().__init__(config, env_id, None, logger, callbacks)


def _network(config: DQNConfig, env: VectorEnv) -> QPolicy:
    kind = MaskedQPolicy if env.observations.masked else QPolicy
    return kind(
        env.observations.seen,
        env.actions.size,
        config.net_arch,
        config.activation,
        config.dueling,
        epsilon(config, 1.0) if is_known(config.exploration_eps) else 0.0,
    )
