"""BC: behavioural cloning, the likelihood of a dataset's actions (Pomerleau 1991)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor

from rlox.algorithms.encoding import Encoding
from rlox.algorithms.offline import NO_ENV, DatasetGiven, from_dataset, offline_parts
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import BCConfig, RunConfig
from rlox.envs.actions import ActionCodec
from rlox.envs.make import EnvSource
from rlox.errors import ConfigError
from rlox.networks import begun
from rlox.optim import Adam
from rlox.policies.actors import CategoricalActor, FactoredActor, GaussianActor
from rlox.runs.algorithm import Algorithm
from rlox.training.finite import require_finite, require_finite_parameters
from rlox.training.learner import PolicyLearner
from rlox.training.parts import Parts, Tools
from rlox.types import Clock, Transitions, Update

__all__ = ["BC", "BCLearner"]


ActorOfBC = CategoricalActor | GaussianActor | FactoredActor


class BCLearner(PolicyLearner[ActorOfBC]):
    """A policy, and one step for each batch towards the actions of the dataset."""

    def __init__(self, policy: ActorOfBC, config: BCConfig) -> None:
        super().__init__(policy, Adam(policy, config.initial("learning_rate"), eps=1e-8))
        self.config = config
        chooses = not isinstance(policy, GaussianActor)
        vector = not chooses or (isinstance(policy, FactoredActor) and policy.head.vector)
        fits = ["policy/accuracy"] * chooses + ["policy/error"] * bool(vector)
        self.names = ("loss/policy", *fits, "train/grad_norm")

    def update(self, batch: Transitions, clock: Clock) -> Update:
        """One step for each batch."""
        config = self.config
        self.optimizer.lr = config.at("learning_rate", clock.remaining)
        batch = batch.to(self.optimizer.vector.device)
        actions = self._actions(batch)
        rows = [self._step(obs, taken) for obs, taken in zip(batch.obs, actions, strict=True)]
        table, where = torch.stack(rows), f"update {clock.updates}"
        require_finite(table, self.names, where)
        require_finite_parameters(self.policy, self.optimizer.vector, where)
        metrics = dict(zip(self.names, table.mean(0).tolist(), strict=True))
        metrics["train/learning_rate"] = self.optimizer.lr
        return Update(metrics, len(batch), batch.rewards.numel())

    def _actions(self, batch: Transitions) -> Tensor:
        """Choices `[n, B]`, vectors or rows of both `[n, B, act_dim]`, as the policy takes them."""
        if isinstance(self.policy, CategoricalActor):
            return batch.actions.reshape(batch.rewards.shape).long()
        return batch.actions.float()

    def _step(self, obs: Tensor, actions: Tensor) -> Tensor:
        """One gradient step; its row of metrics."""
        log_prob, best = self.policy.score(obs, actions)
        squared = self.config.loss == "mse"
        loss = (best - actions).square().mean() if squared else -log_prob.mean()
        fits = self._fits(best.detach(), actions)
        norm = self.optimizer.backward(loss, self.config.max_grad_norm)
        self.optimizer.step()
        return torch.stack([loss.detach(), *fits, norm])

    def _fits(self, best: Tensor, actions: Tensor) -> list[Tensor]:
        """The part of choices that are the dataset's, the mean error of numbers, or both."""
        if isinstance(self.policy, GaussianActor):
            return [(best - actions).abs().mean()]
        if isinstance(self.policy, CategoricalActor):
            return [(best == actions).float().mean()]
        chosen = len(self.policy.head.choices)
        right = (best == actions)[:, :chosen].float().mean()
        numbers = (best - actions)[:, chosen:].abs()
        return [right, numbers.mean()] if self.policy.head.vector else [right]


def _policy(algo: BCConfig, obs_dim: int, actions: ActionCodec) -> ActorOfBC:
    """The policy for actions of this kind."""
    layers = algo.net_arch, algo.activation
    if actions.kind == "factored":
        return FactoredActor(obs_dim, actions.choices, actions.vector, *layers)
    kind = CategoricalActor if actions.discrete else GaussianActor
    return kind(obs_dim, actions.size, *layers)


def make(config: RunConfig, tools: Tools) -> Parts:
    """BC's learner on a dataset."""
    algo = cast(BCConfig, config.algo)

    def compose(encoding: Encoding, actions: ActionCodec) -> tuple[ActorOfBC, BCLearner]:
        if actions.choices and algo.loss != "nll":
            raise ConfigError(
                f"algo.loss={algo.loss} is the error of vectors; these actions are choices: algo.loss=nll"
            )
        policy = begun(_policy(algo, encoding.features, actions), config.seed)
        policy.net = encoding.before(policy.net)
        policy = policy.to(tools.device)
        return policy, BCLearner(policy, algo)

    return offline_parts(config, tools, compose)


class BC(Algorithm):
    """Behavioural cloning.

    Parameters
    ----------
    dataset : an `OfflineDatasetBuffer`, or the folder of a dataset; choices are whole numbers from 0,
        vectors floating-point numbers; of actions of several parts rows have the choices first. With
        `normalize=True` the policy plays by its moments
    obs_dim, act_dim : numbers in an observation, and in an action or choices; those of the
        environment if there is one
    continuous : whether actions are vectors, not choices
    hidden : width of two hidden layers, unless `net_arch` gives all widths
    learning_rate, batch_size : of each update
    callbacks : called during training; one that returns False from `on_step` stops it
    logger : receives metrics rows
    env_id : where to evaluate: a Gymnasium id, a `gymnasium.Env`, or a callable that makes one
    seed : keys every random stream of the run
    **config_kwargs : any field of `BCConfig` or `EnvConfig`, or `device`; unknown names are errors
    """

    name = "bc"
    make = staticmethod(make)

    def __init__(
        self,
        dataset: DatasetGiven = None,
        obs_dim: int | None = None,
        act_dim: int | None = None,
        continuous: bool | None = None,
        hidden: int = 256,
        learning_rate: float = 3e-4,
        batch_size: int = 256,
        callbacks: Callback | Sequence[Callback] | None = None,
        logger: LoggerCallback | None = None,
        *,
        env_id: EnvSource = NO_ENV,
        n_envs: int = 1,
        seed: int = 42,
        **config_kwargs: Any,
    ) -> None:
        options = {
            "obs_dim": obs_dim,
            "act_dim": act_dim,
            "continuous": continuous,
            "net_arch": (hidden, hidden),
            "learning_rate": learning_rate,
            "batch_size": batch_size,
            **config_kwargs,
        }
        config, env, held = from_dataset("bc", dataset, env_id, n_envs, seed, options)
        super().__init__(config, env, None, logger, callbacks, dataset=held)
