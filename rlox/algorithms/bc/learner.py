"""Behavioural cloning's update in torch."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.configs import BCConfig, RunConfig
from rlox.envs.actions import ActionCodec
from rlox.networks import init_weights
from rlox.optim import Adam
from rlox.policies.actors import CategoricalActor, FactoredActor, GaussianActor
from rlox.training.components import BuildContext
from rlox.training.learner import PolicyLearner, require_finite, require_finite_parameters
from rlox.types import Clock, Transitions, Update

__all__ = ["BCLearner", "build_actor", "build_torch"]

BCActor = CategoricalActor | GaussianActor | FactoredActor


class BCLearner(PolicyLearner[BCActor]):
    """A policy that takes one gradient step per batch towards the dataset's actions."""

    def __init__(self, policy: BCActor, config: BCConfig) -> None:
        super().__init__(policy, Adam(policy, config.initial("learning_rate"), eps=1e-8))
        self.config = config
        is_discrete = not isinstance(policy, GaussianActor)
        has_vector = not is_discrete or (isinstance(policy, FactoredActor) and policy.head.vector_size)
        fit_names = ["policy/accuracy"] * is_discrete + ["policy/error"] * bool(has_vector)
        self.metric_names = ("loss/policy", *fit_names, "train/grad_norm")

    def update(self, batch: Transitions, clock: Clock) -> Update:
        """Take one gradient step for each batch."""
        config = self.config
        self.optimizer.lr = config.at("learning_rate", clock.remaining)
        batch = batch.to(self.optimizer.vector.device)
        actions = self._actions(batch)
        rows = [self._step(obs, batch_actions) for obs, batch_actions in zip(batch.obs, actions, strict=True)]
        table, label = torch.stack(rows), f"update {clock.updates}"
        require_finite(table, self.metric_names, label)
        require_finite_parameters(self.policy, self.optimizer.vector, label)
        metrics = dict(zip(self.metric_names, table.mean(0).tolist(), strict=True))
        metrics["train/learning_rate"] = self.optimizer.lr
        return Update(metrics, len(batch), batch.rewards.numel())

    def _actions(self, batch: Transitions) -> Tensor:
        """Return the actions for the policy: choices `[n, B]`, vectors or mixed rows `[n, B, act_dim]`."""
        if isinstance(self.policy, CategoricalActor):
            return batch.actions.reshape(batch.rewards.shape).long()
        return batch.actions.float()

    def _step(self, obs: Tensor, actions: Tensor) -> Tensor:
        """Take one gradient step and return its row of metrics."""
        log_prob, predicted_actions = self.policy.score(obs, actions)
        is_mse = self.config.loss == "mse"
        loss = (predicted_actions - actions).square().mean() if is_mse else -log_prob.mean()
        fit_metrics = self._fit_metrics(predicted_actions.detach(), actions)
        norm = self.optimizer.minimize(loss, self.config.max_grad_norm)
        return torch.stack([loss.detach(), *fit_metrics, norm])

    def _fit_metrics(self, predicted_actions: Tensor, actions: Tensor) -> list[Tensor]:
        """Return the accuracy of choices, the mean absolute error of vectors, or both."""
        if isinstance(self.policy, GaussianActor):
            return [(predicted_actions - actions).abs().mean()]
        if isinstance(self.policy, CategoricalActor):
            return [(predicted_actions == actions).float().mean()]
        n_choices = len(self.policy.head.choices)
        accuracy = (predicted_actions == actions)[:, :n_choices].float().mean()
        errors = (predicted_actions - actions)[:, n_choices:].abs()
        return [accuracy, errors.mean()] if self.policy.head.vector_size else [accuracy]


def build_actor(algo: BCConfig, obs_dim: int, actions: ActionCodec) -> BCActor:
    """Make the policy for actions of this kind."""
    layers = algo.net_arch, algo.activation
    if actions.kind == "factored":
        return FactoredActor(obs_dim, actions.choices, actions.box_dim, *layers)
    actor_class = CategoricalActor if actions.is_discrete else GaussianActor
    return actor_class(obs_dim, actions.size, *layers)


def build_torch(
    config: RunConfig, context: BuildContext, encoder_spec: EncoderSpec, actions: ActionCodec
) -> tuple[BCActor, BCLearner]:
    """Build the policy and its learner."""
    algo = cast(BCConfig, config.algo)
    policy = init_weights(build_actor(algo, encoder_spec.features, actions), config.seed)
    policy.net = encoder_spec.wrap_network(policy.net)
    policy = policy.to(context.device)
    return policy, BCLearner(policy, algo)
