"""Behavioural cloning's update in torch."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from rlox.algorithms.encoding import Encoding
from rlox.configs import BCConfig, RunConfig
from rlox.envs.actions import ActionCodec
from rlox.networks import begun
from rlox.optim import Adam
from rlox.policies.actors import CategoricalActor, FactoredActor, GaussianActor
from rlox.training.finite import require_finite, require_finite_parameters
from rlox.training.learner import PolicyLearner
from rlox.training.parts import Tools
from rlox.types import Clock, Transitions, Update

__all__ = ["BCLearner", "composed", "described"]

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


def described(algo: BCConfig, obs_dim: int, actions: ActionCodec) -> ActorOfBC:
    """The policy for actions of this kind."""
    layers = algo.net_arch, algo.activation
    if actions.kind == "factored":
        return FactoredActor(obs_dim, actions.choices, actions.vector, *layers)
    kind = CategoricalActor if actions.discrete else GaussianActor
    return kind(obs_dim, actions.size, *layers)


def composed(
    config: RunConfig, tools: Tools, encoding: Encoding, actions: ActionCodec
) -> tuple[ActorOfBC, BCLearner]:
    """The policy and what it learns by."""
    algo = cast(BCConfig, config.algo)
    policy = begun(described(algo, encoding.features, actions), config.seed)
    policy.net = encoding.before(policy.net)
    policy = policy.to(tools.device)
    return policy, BCLearner(policy, algo)
