"""Soft actor-critic's update in torch, for continuous and discrete actions."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.off_policy import OffPolicyComponents, ReplayLearnerMixin
from rlox.algorithms.assembly.torch_policies import load_user_module
from rlox.algorithms.sac.common import METRIC_NAMES, SACLikeConfig, resolve_target_entropy
from rlox.configs import RunConfig, SACConfig
from rlox.envs.actions import UnitCodec
from rlox.envs.base import VectorEnv
from rlox.errors import ConfigError
from rlox.losses import critics_loss, soft_policy_loss, td_target
from rlox.networks import (
    EnsembleMLP,
    SquashedGaussianPolicy,
    SquashedSDEPolicy,
    inference_function,
    init_weights,
)
from rlox.networks.gradients import require_gradient, require_path
from rlox.optim import Adam, TargetNetwork
from rlox.policies.exploration import CategoricalExploration, NoisyExploration
from rlox.policies.own_networks import (
    OwnCritics,
    OwnNetwork,
    probe_rows,
    require_actor_and_critic,
    require_copy,
    require_output,
)
from rlox.policies.soft import CategoricalSACPolicy, SACPolicy, SquashedSACPolicy
from rlox.training.components import BuildContext
from rlox.training.learner import (
    ActorCriticLearner,
    NoiseFunction,
    UpdateNoise,
    cast_obs,
    learn_each,
    make_temperature,
    require_finite_parameters,
)
from rlox.training.loop import Stateful
from rlox.types import Clock, Transitions, Update, update_label

__all__ = ["SACLearner", "build_actor", "build_continuous", "build_discrete", "build_squashed_policy"]

HALF = 0.5  # factor of the critics' loss, as in the paper's eq. 5


class SACLearner(ReplayLearnerMixin, ActorCriticLearner[SACPolicy]):
    """Updates an actor, critics with a target, and a temperature from batches of transitions.

    `target_entropy` applies to a learned temperature. `noise` returns the standard normal numbers of an
    update.
    """

    config: SACLikeConfig
    metric_names: ClassVar[tuple[str, ...]] = METRIC_NAMES  # of what `_step` returns first
    _is_checked = False  # whether gradients were seen to lead from the critics to the actor

    def __init__(
        self, policy: SACPolicy, config: SACLikeConfig, target_entropy: float, noise: NoiseFunction
    ) -> None:
        self.config, self.noise = config, noise
        lr = config.initial("learning_rate")
        self.actor_optimizer = Adam(policy.actor, lr, eps=1e-8)
        self.critic_optimizer = Adam(policy.critic, lr, eps=1e-8)
        self.target = TargetNetwork(copy.deepcopy(policy.critic), self.critic_optimizer.flat)
        self.temperature = make_temperature(
            config.temperature, target_entropy, lr, self.critic_optimizer.vector
        )
        parts: dict[str, Stateful] = {"actor": self.actor_optimizer, "critic": self.critic_optimizer}
        parts |= {"target": self.target, "temperature": self.temperature}
        super().__init__(policy, parts, [self.target])

    @torch.enable_grad()
    def update(self, batch: Transitions, clock: Clock) -> Update:
        """Update actor, critics, temperature and target once per batch."""
        self._apply_schedules(clock)
        batch = batch.to(self.critic_optimizer.vector.device)
        update = self._learn(batch, clock.updates, update_label(batch, clock))
        return replace(update, metrics={**update.metrics, **self._own_metrics()})

    def _learn(self, batch: Transitions, first_update: int, label: str) -> Update:
        """Take one step for each batch; the first one is update number `first_update` of the run."""
        update = learn_each(batch, lambda i: self._step(batch, i, first_update + i), self.metric_names, label)
        for optimizer in (self.actor_optimizer, self.critic_optimizer):
            require_finite_parameters(self.policy, optimizer.vector, label)
        return update

    def _step(self, batch: Transitions, i: int, update: int) -> tuple[Tensor, Tensor]:
        """Update temperature, critics, actor and target; return `metric_names` and absolute errors `[B]`."""
        policy, config = self.policy, self.config
        obs = cast_obs(batch.obs[i], self.critic_optimizer.vector)
        noise, critic_noise = self._noise(update, len(obs), self.critic_optimizer.vector)

        new_actions, log_prob = policy.draw(obs, noise)
        require_gradient("the drawn action has", new_actions)
        require_gradient("the log-density of the drawn action has", log_prob)
        alpha = self.temperature.alpha
        temperature_loss = self.temperature.learn(log_prob, self.actor_optimizer.lr)

        critic_loss, q, error, grad_norm = self._improve_critics(batch, i, obs, alpha, critic_noise)

        actor_loss = self._actor_loss(obs, new_actions, log_prob, alpha)
        self.actor_optimizer.minimize(actor_loss, config.max_grad_norm)
        if (update + 1) % config.target_update_interval == 0:
            self.target.polyak_update(config.tau)
        losses = (critic_loss, actor_loss, temperature_loss)
        return torch.stack([*losses, q.mean(), -log_prob.mean(), alpha, grad_norm]), error

    def _actor_loss(self, obs: Tensor, actions: Tensor, log_prob: Tensor, alpha: Tensor) -> Tensor:
        """Return E[alpha log pi(a|s) - min_i Q_i(s, a)], eq. 9, for `actions` that were drawn for `obs`."""
        value = self.policy.value(self.policy.critic, obs, actions)
        if not self._is_checked:  # once: else the actor would silently learn its entropy alone
            require_path(value, actions, "the actor's actions")
            self._is_checked = True
        return soft_policy_loss(log_prob, value, alpha)

    def _noise(self, update: int, rows: int, like: Tensor) -> tuple[Tensor, Any]:
        """Return the random numbers of the actor's step and those of the critics' step."""
        noise = self.noise(update, (2, *self.policy.noise_shape(rows)), like)
        return noise[0], noise[1]

    def _improve_critics(
        self, batch: Transitions, i: int, obs: Tensor, alpha: Tensor, noise: Any
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Step the critics; return loss, values `[members, B]`, absolute error `[B]` and gradient norm.

        The loss is eq. 5, with the target R + gamma^m (min_i Qbar_i(s', a') - alpha log pi(a'|s')) of eq. 3.
        """
        policy, like = self.policy, self.critic_optimizer.vector
        with torch.no_grad():
            next_obs = cast_obs(batch.next_obs[i], like)
            next_actions, next_log_prob = policy.draw(next_obs, noise)
            next_value = policy.value(self.target.module, next_obs, next_actions) - alpha * next_log_prob
            target_q = td_target(batch.rewards[i].to(like), batch.discounts[i].to(like), next_value)
        actions = batch.actions[i]
        actions = actions.to(like) if actions.is_floating_point() else actions
        weights = None if batch.weights is None else batch.weights[i].to(like)
        q = policy.action_values(policy.critic, obs, actions)
        loss = HALF * critics_loss(q, target_q, weights)
        grad_norm = self.critic_optimizer.minimize(loss, self.config.max_grad_norm)
        return loss, q, (q - target_q).abs().mean(0), grad_norm


def build_continuous(
    config: RunConfig,
    context: BuildContext,
    env: VectorEnv,
    encoder_spec: EncoderSpec,
    actions: UnitCodec,
    build_policy: Callable[[Any, EncoderSpec, int], SquashedSACPolicy] | None = None,
    learner: type[SACLearner] = SACLearner,
) -> OffPolicyComponents:
    """Build the components for Box actions: a squashed Gaussian policy, with gSDE if configured.

    `build_policy` takes the algorithm's configuration, `encoder_spec`, which has the numbers of features, and
    the length of an action; the default is `build_squashed_policy`. `learner` is a class with the constructor
    of `SACLearner`.
    """
    algo, size = cast(SACConfig, config.algo), actions.size
    if algo.has_custom_policy:
        if build_policy is not None:
            raise ConfigError(f"algo.policy: {algo.name} builds networks of its own; leave algo.policy out")
        with context.network_init(config):
            policy = build_squashed_policy(algo, EncoderSpec(1), size)  # its networks are replaced
        use_own_networks(policy, config, context, env, 2 * size)
    else:
        with context.network_init(config):
            policy = (build_policy or build_squashed_policy)(algo, encoder_spec, size)
            policy = init_weights(policy, config.seed)
            policy.actor.net = encoder_spec.wrap_actor(policy.actor.net)
            policy.critic = encoder_spec.wrap_ensemble(policy.critic)
    policy = policy.to(context.device)
    shape = (size,) if not algo.use_sde else (algo.net_arch[-1], size)
    auto_interval = -(-algo.train_freq // env.n_envs) if algo.sde_sample_freq == -1 else algo.sde_sample_freq
    noise_interval = auto_interval if algo.use_sde else 1
    exploration_args = (size, env.n_envs, config.seed, context.device)
    exploration = NoisyExploration(policy.actor.explore, shape, *exploration_args, noise_interval)
    noise, entropy = UpdateNoise(context.streams), resolve_target_entropy(algo, actions)
    return OffPolicyComponents(policy, exploration, learner(policy, algo, entropy, noise), actions)


def use_own_networks(
    policy: SquashedSACPolicy | CategoricalSACPolicy,
    config: RunConfig,
    context: BuildContext,
    env: VectorEnv,
    n_outputs: int,
) -> None:
    """Put the user's actor, with `n_outputs` outputs, and critics in place of those of `policy`.

    Raises `ConfigError` if they do not fit the environment.
    """
    module = load_user_module(config, context, env).to(context.device)
    actor, critic = require_actor_and_critic(module)
    net, critics = OwnNetwork(actor), OwnCritics(critic)
    policy.actor.net, policy.critic = cast(Any, net), critics
    members, n_actions = cast(SACConfig, config.algo).n_critics, env.actions.size
    rows = probe_rows(env.observations, (members, n_actions, n_outputs), context.device)
    name, is_discrete = f"policy {type(module).__name__}", env.actions.is_discrete
    actor_meaning = "logits" if is_discrete else "the means, then the log standard deviations"
    require_output(
        f"actor of {name}",
        net,
        (rows,),
        (len(rows), n_outputs),
        f"[B, {n_outputs}], {actor_meaning}",
        config.env.id,
    )
    q_shape = (members, len(rows), n_actions) if is_discrete else (members, len(rows))
    taken = () if is_discrete else (torch.zeros(len(rows), n_actions, device=context.device),)
    require_copy(f"critic of {name}", critics.network)
    require_output(
        f"critic of {name}",
        critics.network,
        (rows, *taken),
        q_shape,
        f"[n_critics, B{', n_actions' * is_discrete}], with algo.n_critics={members}",
        config.env.id,
    )


def build_squashed_policy(algo: SACLikeConfig, encoder_spec: EncoderSpec, act_dim: int) -> SquashedSACPolicy:
    """Build the configured actor and critics, which take features."""
    actor = build_actor(algo, encoder_spec.actor_features, act_dim)
    sizes = (encoder_spec.features + act_dim, *algo.hidden_widths[1], 1)
    return SquashedSACPolicy(actor, EnsembleMLP(algo.n_critics, sizes, algo.activation))


def build_actor(
    algo: SACLikeConfig, features: int, act_dim: int
) -> SquashedGaussianPolicy | SquashedSDEPolicy:
    """Build the configured actor, which takes features."""
    net_arch, _ = algo.hidden_widths
    if algo.use_sde:
        return SquashedSDEPolicy(features, act_dim, net_arch, algo.activation, algo.log_std_init)
    return SquashedGaussianPolicy(features, act_dim, net_arch=net_arch, activation=algo.activation)


def build_discrete(
    config: RunConfig, context: BuildContext, env: VectorEnv, encoder_spec: EncoderSpec
) -> OffPolicyComponents:
    """Build the components for Discrete actions: a categorical policy (Christodoulou 2019)."""
    algo = cast(SACConfig, config.algo)
    spec = EncoderSpec(1) if algo.has_custom_policy else encoder_spec  # the user's replace its networks
    sizes = (spec.features, env.actions.size, algo.n_critics, *algo.hidden_widths)
    with context.network_init(config):
        policy = CategoricalSACPolicy(*sizes, algo.activation, spec.actor_features)
        policy = init_weights(policy, config.seed)
        policy.actor.net = spec.wrap_actor(policy.actor.net)
        policy.critic = spec.wrap_ensemble(policy.critic)
    if algo.has_custom_policy:
        use_own_networks(policy, config, context, env, env.actions.size)
    policy = policy.to(context.device)
    logits = inference_function(policy.actor.net)
    exploration = CategoricalExploration(logits, env.actions.size, env.n_envs, config.seed, context.device)
    noise, entropy = UpdateNoise(context.streams), resolve_target_entropy(algo, env.actions)
    return OffPolicyComponents(policy, exploration, SACLearner(policy, algo, entropy, noise))
