"""PQN's update: epochs of shuffled minibatches of squared errors to lambda-returns."""

from __future__ import annotations

from functools import partial
from typing import cast

import torch
from torch import Tensor

from rlox._core import Stream
from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.on_policy import update_label
from rlox.algorithms.assembly.torch_policies import explained_variance
from rlox.configs import PQNConfig, RunConfig
from rlox.envs.base import VectorEnv
from rlox.losses import td_loss
from rlox.networks import init_weights
from rlox.optim import RAdam
from rlox.policies.masking import MaskedQPolicy
from rlox.policies.q_policy import QPolicy
from rlox.rng import Streams
from rlox.runs.preflight import require_memory, require_networks
from rlox.sources.arena import Arena
from rlox.sources.collector import SCORE_IMAGES, SCORE_ROWS
from rlox.training.components import BuildContext
from rlox.training.learner import PolicyLearner, require_finite, require_finite_parameters
from rlox.types import Clock, Minibatch, Rollout, Update

__all__ = ["PQNLearner", "build_policy", "require_sizes"]

METRIC_NAMES = ("loss/q", "value/q_mean", "train/grad_norm")  # means over the minibatches of an update


class PQNLearner(PolicyLearner[QPolicy]):
    """Learns Q from each rollout in `n_epochs` passes of shuffled minibatches.

    The targets are the rollout's lambda-returns, which the network that acted computed; they stay the same
    for all epochs.
    """

    def __init__(self, policy: QPolicy, config: PQNConfig, streams: Streams) -> None:
        super().__init__(policy, RAdam(policy, config.initial("learning_rate")))
        self.config, self.streams = config, streams

    @torch.enable_grad()
    def update(self, batch: Rollout, clock: Clock) -> Update:
        """Learn from one rollout; the learning rate is that of the update's start."""
        config = self.config
        self.optimizer.lr = config.at("learning_rate", clock.remaining)
        step_metrics: list[Tensor] = []
        for epoch in range(config.n_epochs):
            number = batch.index * config.n_epochs + epoch
            order = batch.ordered_indices(partial(self._permutation, number))
            step_metrics += [self._step(rows) for rows in batch.minibatches(order, config.batch_size)]
        label = update_label(batch.index, len(batch), clock)
        table = torch.stack(step_metrics)
        require_finite(table, METRIC_NAMES, label)
        require_finite_parameters(self.policy, self.optimizer.vector, label)
        metrics = dict(zip(METRIC_NAMES, table.mean(0).tolist(), strict=True))
        rows = batch.rows()
        metrics["value/explained_variance"] = explained_variance(rows.values, rows.returns)
        metrics["train/learning_rate"] = self.optimizer.lr
        elapsed = min((clock.env_steps + len(batch)) / (clock.horizon or 1), 1.0)
        metrics["policy/epsilon"] = config.epsilon(elapsed)
        return Update(metrics, count=1, samples=config.n_epochs * len(rows.returns))

    def _permutation(self, number: int, count: int) -> Tensor:
        """Return the order of `count` rows in epoch `number` of the run, `[count]`."""
        return torch.from_numpy(Stream(self.streams.seed, "shuffle", number).permutation(count))

    def _step(self, rows: Minibatch) -> Tensor:
        """Take one gradient step on (Q(s, a) - R)^2, averaged over the rows; return its metrics."""
        q = self.policy(rows.obs).gather(-1, rows.actions.unsqueeze(-1)).squeeze(-1)
        loss = td_loss(q, rows.returns, "mse")
        norm = self.optimizer.minimize(loss, self.config.max_grad_norm)
        return torch.stack([loss, q.mean(), norm]).detach()


def build_policy(
    config: RunConfig, context: BuildContext, env: VectorEnv, encoder_spec: EncoderSpec
) -> QPolicy:
    """Build the network with layer normalisation and the initial weights of a run."""
    algo = cast(PQNConfig, config.algo)
    policy_class = MaskedQPolicy if env.observations.mask_dim else QPolicy
    with context.network_init(config):
        policy = policy_class(
            encoder_spec.features,
            env.actions.size,
            algo.net_arch,
            algo.activation,
            epsilon=algo.exploration_final_eps,
            layer_norm=True,
        )
        policy = init_weights(policy, config.seed)
        policy.q = encoder_spec.wrap_network(policy.q)
        return policy.to(context.device)


def require_sizes(algo: PQNConfig, env: VectorEnv, encoder_spec: EncoderSpec, is_on_cpu: bool) -> None:
    """Raise `ConfigError` if rollouts or the network exceed the memory."""
    observations, actions, cost = env.observations, env.actions, encoder_spec.cost
    rows = algo.n_steps * env.n_envs
    n_bytes = Arena.byte_size(algo.n_steps, env.n_envs, observations.dim, actions, observations.dtype)
    if is_on_cpu:
        width = max((*algo.net_arch, actions.size))
        score_rows = min(rows, SCORE_IMAGES if observations.images else SCORE_ROWS)
        score_bytes = 4 * score_rows * (3 * width + cost.peak_activations)
        # of each row in a minibatch: input, normalised input and output of the hidden activations, and the
        # gradients of the widest layer
        activations = 3 * sum(algo.net_arch) + 2 * width + cost.saved_activations + cost.peak_activations
        learn_bytes = 4 * min(algo.batch_size, rows) * activations
        learn_bytes += rows * (observations.row_bytes + actions.row_bytes + 4 * 4 + 8)  # the shuffled copy
        n_bytes += score_bytes + learn_bytes
    purpose = f"learning from rollouts of {algo.n_steps} steps of {env.n_envs} environments"
    require_memory(n_bytes, purpose, "algo.n_steps or env.n_envs")
    layers = (encoder_spec.features, *algo.net_arch, actions.size)
    require_networks(layers, extra_parameters=cost.parameters)
