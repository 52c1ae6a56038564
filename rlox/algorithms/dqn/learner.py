"""DQN's update in torch, with its optional extensions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import cast

import torch
from torch import Tensor

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.off_policy import OffPolicyComponents
from rlox.algorithms.assembly.torch_policies import load_user_module
from rlox.algorithms.dqn.common import METRIC_NAMES, DQNLearnerMixin, scheduled_epsilon
from rlox.configs import DQNConfig, RunConfig
from rlox.configs.schedules import is_known
from rlox.devices import to_device
from rlox.envs.base import VectorEnv
from rlox.errors import ConfigError
from rlox.networks import init_weights
from rlox.networks.noisy import keyed_factorized_noise
from rlox.optim import Adam, TargetNetwork
from rlox.policies.masking import MaskedEpsilonGreedy, MaskedQPolicy
from rlox.policies.own_networks import OwnNetwork, probe_rows, require_copy, require_output
from rlox.policies.q_policy import EpsilonGreedy, NoisyGreedy, QPolicy
from rlox.policies.value_distribution import CategoricalValue, QuantileValue, ScalarValue, ValueDistribution
from rlox.sources.replay import ExplorationPolicy
from rlox.training.components import BuildContext
from rlox.training.learner import ActorCriticLearner, learn_each, require_finite_parameters
from rlox.training.loop import Stateful
from rlox.types import Clock, Transitions, Update, update_label

__all__ = ["DQNLearner", "build_policy", "build_torch"]


class DQNLearner(DQNLearnerMixin, ActorCriticLearner[QPolicy]):
    """Updates a value network and its target network from batches of transitions.

    With noisy networks each batch has its own noise, from three streams of `seed`: for the learned values,
    for the choice of the next action, and for the value of that action.
    """

    def __init__(self, policy: QPolicy, target: QPolicy, config: DQNConfig, seed: int = 0) -> None:
        self.target, self.config = target, config
        self.value_distribution = _make_value_distribution(config)
        self._seed = seed
        self.optimizer = Adam(policy, config.initial("learning_rate"), eps=config.adam_eps)
        self.target_network: TargetNetwork[QPolicy] = TargetNetwork(target, self.optimizer.flat)
        parts: dict[str, Stateful] = {"adam": self.optimizer, "target": self.target_network}
        super().__init__(policy, parts, [self.target_network])

    @torch.enable_grad()
    def update(self, batch: Transitions, clock: Clock) -> Update:
        """Take one step per batch; environment steps decide when the target network is updated."""
        self._apply_schedules(batch.env_steps, clock)
        device_batch = batch.to(self.optimizer.vector.device)
        update = self._learn(device_batch, clock.updates, update_label(batch, clock))
        return replace(update, metrics={**update.metrics, **self._own_metrics(batch.env_steps, clock)})

    def _learn(self, batch: Transitions, number: int, label: str) -> Update:
        """Take one step for each batch; the first one is batch `number` of the run."""
        update = learn_each(batch, lambda i: self._step(batch, i, number + i), METRIC_NAMES, label)
        require_finite_parameters(self.policy, self.optimizer.vector, label)
        return update

    def noise(self, stream: str, number: int) -> Tensor | None:
        """Return the noise of `stream` for batch `number` of the run; None without noisy networks."""
        size = self.policy.noise_size
        if not size:
            return None
        factors_of_noise = keyed_factorized_noise(self._seed, stream, number, (size,))
        return to_device(factors_of_noise, self.optimizer.vector.device)

    def _step(self, batch: Transitions, i: int, number: int) -> tuple[Tensor, Tensor]:
        """Take one gradient step; return its row of metrics and the error of each row, `[B]`."""
        value_distribution, policy = self.value_distribution, self.policy
        with torch.no_grad():
            next_outputs = self._next_outputs(batch.next_obs[i], number)
            td_target = value_distribution.td_target(batch.rewards[i], batch.discounts[i], next_outputs)
        outputs = policy.outputs(batch.obs[i], self.noise("noise-learning", number))
        chosen_outputs = outputs.gather(1, _action_index(outputs, batch.actions[i])).squeeze(1)
        weights = None if batch.weights is None else batch.weights[i]
        loss, errors = value_distribution.loss(chosen_outputs, td_target, weights)
        grad_norm = self.optimizer.minimize(loss, self.config.max_grad_norm)
        return torch.stack([loss, value_distribution.values(chosen_outputs).mean(), grad_norm]), errors

    def _next_outputs(self, next_obs: Tensor, number: int) -> Tensor:
        """Return the target network's outputs for its best action; in double DQN the online one chooses."""
        outputs = self.target.outputs(next_obs, self.noise("noise-target", number))
        if self.config.double_dqn:
            values = self.policy(next_obs, self.noise("noise-choice", number))
        else:
            values = self.target.q_values(outputs, next_obs)
        return outputs.gather(1, _action_index(outputs, values.argmax(-1))).squeeze(1)


def _action_index(outputs: Tensor, actions: Tensor) -> Tensor:
    """Index dimension 1 of `[B, n_actions]` or `[B, n_actions, n_outputs]` by `actions` `[B]`."""
    return actions.view(-1, *(1,) * (outputs.ndim - 1)).expand(-1, 1, *outputs.shape[2:])


# Builds the network for a configuration, environments and their encoder.
PolicyBuilder = Callable[[DQNConfig, VectorEnv, EncoderSpec], QPolicy]


def build_torch(
    config: RunConfig,
    context: BuildContext,
    env: VectorEnv,
    encoder_spec: EncoderSpec,
    policy_builder: PolicyBuilder | None = None,
    learner: type[DQNLearner] = DQNLearner,
) -> OffPolicyComponents:
    """Build the policy, its exploration and its learner.

    `policy_builder` builds the online and the target network; the default is `build_policy`. `learner` is a
    class with the constructor of `DQNLearner`.
    """
    algo, device = cast(DQNConfig, config.algo), context.device

    def build_network() -> QPolicy:
        policy = init_weights((policy_builder or build_policy)(algo, env, encoder_spec), config.seed)
        policy.q = encoder_spec.wrap_network(policy.q)
        return policy.to(device)

    if algo.has_custom_policy:
        if policy_builder is not None:
            raise ConfigError(f"algo.policy: {algo.name} builds a network of its own; leave algo.policy out")
        online = build_user_policy(config, context, env)
        target = copy.deepcopy(online)
    else:
        with context.network_init(config):
            online, target = build_network(), build_network()
    exploration = _make_exploration(config, online, env, device)
    return OffPolicyComponents(online, exploration, learner(online, target, algo, config.seed))


def build_policy(config: DQNConfig, env: VectorEnv, encoder_spec: EncoderSpec) -> QPolicy:
    """Build the configured network, which takes features, for these environments."""
    policy_class = MaskedQPolicy if env.observations.mask_dim else QPolicy
    return policy_class(
        encoder_spec.features,
        env.actions.size,
        config.net_arch,
        config.activation,
        config.dueling,
        scheduled_epsilon(config, 1.0) if is_known(config.exploration_eps) else 0.0,
        _make_value_distribution(config),
        config.noisy_sigma if config.noisy else None,
    )


def build_user_policy(config: RunConfig, context: BuildContext, env: VectorEnv) -> QPolicy:
    """Build the policy with the user's network; raise `ConfigError` if it does not fit the environment."""
    module = load_user_module(config, context, env)
    with context.network_init(config):
        policy = build_policy(cast(DQNConfig, config.algo), env, EncoderSpec(1))  # its network is replaced
    network = OwnNetwork(module)
    policy.q = network
    policy.to(context.device)
    n_actions = env.actions.size
    n_values = n_actions * (policy.value_distribution.n_outputs or 1)
    rows = probe_rows(env.observations, (n_values,), context.device)
    meaning = "a value for each action"
    if n_values != n_actions:
        meaning = f"{policy.value_distribution.n_outputs} outputs for each of {n_actions} actions"
    name = f"policy {type(module).__name__}"
    require_copy(name, network)
    require_output(
        name, network, (rows,), (len(rows), n_values), f"[B, {n_values}], {meaning}", config.env.id
    )
    return policy


def _make_value_distribution(config: DQNConfig) -> ValueDistribution:
    if config.distribution == "categorical":
        return CategoricalValue(config.n_atoms, config.v_min, config.v_max)
    if config.distribution == "quantile":
        return QuantileValue(config.n_quantiles)
    return ScalarValue(config.loss)


def _make_exploration(
    run: RunConfig, policy: QPolicy, env: VectorEnv, device: torch.device
) -> ExplorationPolicy:
    config = cast(DQNConfig, run.algo)
    exploration_class = MaskedEpsilonGreedy if env.observations.mask_dim else EpsilonGreedy
    explore = exploration_class(policy, env.n_envs, partial(scheduled_epsilon, config), run.seed, device)
    return NoisyGreedy(policy, explore, run.seed, device) if config.noisy else explore
