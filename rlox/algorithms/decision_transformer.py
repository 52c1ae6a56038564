"""Decision Transformer (Chen et al. 2021, arXiv:2106.01345): a policy conditioned on a target return."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.offline import (
    OfflineAlgorithm,
    OfflineFactories,
    PolicyAndLearner,
    build_offline_run,
)
from rlox.configs import DecisionTransformerConfig, RunConfig
from rlox.envs.actions import ActionCodec
from rlox.optim import AdamW
from rlox.policies.decision_transformer import DecisionTransformerPolicy
from rlox.rng import Streams
from rlox.sources.sub_trajectories import SubTrajectories, SubTrajectorySource
from rlox.training.backend import BackendSelector
from rlox.training.components import BuildContext, RunComponents
from rlox.training.learner import PolicyLearner, require_finite, require_finite_parameters
from rlox.training.target_return import ReturnConditionedActor, TargetReturn, parse_target_return
from rlox.types import Clock, Update

__all__ = ["DecisionTransformer", "DecisionTransformerLearner"]


class DecisionTransformerLearner(PolicyLearner[DecisionTransformerPolicy]):
    """A transformer that takes one gradient step per batch towards the dataset's actions."""

    def __init__(
        self,
        policy: DecisionTransformerPolicy,
        config: DecisionTransformerConfig,
        streams: Streams,
        target_return: TargetReturn | None = None,
    ) -> None:
        rate, decay = config.initial("learning_rate"), config.weight_decay
        super().__init__(policy, AdamW(policy, rate, weight_decay=decay, eps=1e-8))
        self.config, self._streams, self._target_return = config, streams, target_return
        fit_metric = "policy/accuracy" if policy.is_discrete else "policy/error"
        self.metric_names = ("loss/policy", fit_metric, "train/grad_norm")

    def update(self, batch: SubTrajectories, clock: Clock) -> Update:
        """Take one gradient step for each batch."""
        count = int(batch.mask.sum())
        batch = batch.to(self.optimizer.vector.device)
        rows = [self._step(batch, i, clock.updates + i, clock) for i in range(len(batch))]
        table, label = torch.stack(rows), f"update {clock.updates}"
        require_finite(table, self.metric_names, label)
        require_finite_parameters(self.policy, self.optimizer.vector, label)
        metrics = dict(zip(self.metric_names, table.mean(0).tolist(), strict=True))
        metrics["train/learning_rate"] = self.optimizer.lr
        if self._target_return is not None:
            metrics["policy/target_return"] = self._target_return.value
        return Update(metrics, len(batch), count)

    def _step(self, batch: SubTrajectories, i: int, update_number: int, clock: Clock) -> Tensor:
        """Take one gradient step and return its row of metrics; the update's number seeds the dropout."""
        config = self.config
        warmup = min(1.0, (update_number + 1) / config.warmup_updates) if config.warmup_updates else 1.0
        self.optimizer.lr = warmup * config.at("learning_rate", clock.remaining)
        mask, actions = batch.mask[i], batch.actions[i]
        inputs = (batch.returns[i] * config.return_scale, batch.obs[i], actions, batch.timesteps[i])
        self.policy.train()
        with self._streams.seeded_generators("dropout", update_number, self.optimizer.vector.device):
            outputs = self.policy(*inputs)
        loss, fit_metric = _loss(outputs, actions, mask, self.policy.is_discrete)
        norm = self.optimizer.backward(loss, config.max_grad_norm)
        self.optimizer.step()
        return torch.stack([loss.detach(), fit_metric, norm])


def _loss(outputs: Tensor, actions: Tensor, mask: Tensor, is_discrete: bool) -> tuple[Tensor, Tensor]:
    """Return cross-entropy and accuracy for choices, squared and absolute error for vectors.

    Both are means over the steps without padding. The padding gets weight 0, because indexing by the mask
    would wait for the GPU.
    """
    weight = mask / mask.sum()
    if is_discrete:
        is_correct = (outputs.detach().argmax(-1) == actions).to(outputs.dtype)
        step_losses = functional.cross_entropy(outputs.flatten(0, 1), actions.flatten(), reduction="none")
        return (step_losses * weight.flatten()).sum(), (is_correct * weight).sum()
    errors = outputs - actions
    return (errors.square().mean(-1) * weight).sum(), (errors.detach().abs().mean(-1) * weight).sum()


def make(config: RunConfig, context: BuildContext) -> RunComponents:
    """Build the components of a Decision Transformer run on sub-trajectories of a dataset."""
    algo = cast(DecisionTransformerConfig, config.algo)
    target_return = TargetReturn(algo.target_return)

    def build_learner(
        encoder_spec: EncoderSpec, actions: ActionCodec, _: BackendSelector
    ) -> PolicyAndLearner:
        sizes = (encoder_spec.features, actions.size, actions.is_discrete, algo.hidden, algo.n_layers)
        policy = DecisionTransformerPolicy(*sizes, algo.n_heads, algo.dropout, algo.max_timesteps)
        policy = policy.to(context.device)
        return policy, DecisionTransformerLearner(policy, algo, context.streams, target_return)

    def make_source(*args: Any) -> SubTrajectorySource:
        return SubTrajectorySource(
            *args, length=algo.context_length, max_timesteps=algo.max_timesteps, target_return=target_return
        )

    def make_actor(policy: DecisionTransformerPolicy, *args: Any) -> ReturnConditionedActor:
        observations, codec, normalizer, device = args
        fields = policy, observations, codec, normalizer, device
        return ReturnConditionedActor(*fields, target_return, algo.context_length, algo.return_scale)

    return build_offline_run(config, context, build_learner, OfflineFactories(make_source, make_actor))


class DecisionTransformer(OfflineAlgorithm):
    """Decision Transformer, for Box actions with finite bounds and Discrete ones."""

    name = "decision_transformer"
    make = staticmethod(make)
    positional = (
        "dataset",
        "obs_dim",
        "act_dim",
        "context_length",
        "hidden",
        "n_layers",
        "n_heads",
        "learning_rate",
        "batch_size",
        "target_return",
        "callbacks",
        "logger",
    )

    def predict(
        self,
        obs: Any,
        deterministic: bool = True,
        action_masks: Any = None,
        target_return: float | None = None,
    ) -> Any:
        """Return the action for one raw observation or a batch; each observation is the first of an episode.

        `target_return` replaces the run's. To play whole episodes, use
        `components.actor.make_player(n_slots)`, which keeps the history of each episode: `act(rows)`,
        `observe_rewards(rewards)`, `reset_slot(slot)`.
        """
        self._n_sampled_predictions += not deterministic
        generator = self._sampling_generator(deterministic, "predict", self._n_sampled_predictions)
        actor = cast(ReturnConditionedActor, self.components.actor)
        return actor.predict(obs, generator, parse_target_return(target_return), action_masks)

    def ask(self, target_return: float | None) -> None:
        """Set the target return of evaluations; None: the highest return of the dataset.

        The value applies to this object only. It is not saved: after a checkpoint is loaded, the configured
        `target_return` applies.
        """
        cast(
            ReturnConditionedActor, self.components.actor
        ).target_return.requested_return = parse_target_return(target_return)
