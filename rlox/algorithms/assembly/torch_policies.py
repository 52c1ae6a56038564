"""Policies of on-policy algorithms as torch modules."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.configs import RunConfig
from rlox.configs.on_policy import OnPolicyConfig
from rlox.configs.params import display_name, is_object_name
from rlox.devices import require_float32
from rlox.envs.actions import ActionCodec
from rlox.envs.base import VectorEnv
from rlox.envs.masks import OBSERVATION, MaskedSpace
from rlox.errors import ConfigError
from rlox.importing import build_object, load
from rlox.networks import init_weights, mlp
from rlox.policies import (
    ActorCritic,
    ContinuousPolicy,
    DiscretePolicy,
    FactoredPolicy,
    MaskedDiscretePolicy,
    MaskedFactoredPolicy,
    SDEPolicy,
    as_actor_critic,
    require_policy_fits,
)
from rlox.training.components import BuildContext
from rlox.training.setup import torch_threads

__all__ = ["build_policy", "build_user_policy", "explained_variance", "load_user_module", "make_policy"]


def make_policy(
    config: OnPolicyConfig, obs_dim: int, actions: ActionCodec, is_masked: bool = False
) -> ActorCritic:
    """Make the policy that `config` describes for this observation and action space.

    `is_masked`: observations have an action mask after their `obs_dim` numbers.
    """
    network_options: dict[str, Any] = {
        "net_arch": config.net_arch,
        "critic_net_arch": config.critic_net_arch,
        "activation": config.activation,
        "ortho_init": False,  # `init_weights` sets a run's weights
    }
    if actions.is_discrete:
        discrete_class = MaskedDiscretePolicy if is_masked else DiscretePolicy
        return discrete_class(obs_dim, actions.size, **network_options)
    if actions.choices:
        policy_class = MaskedFactoredPolicy if is_masked else FactoredPolicy
        action_sizes = actions.choices, actions.box_dim
        return policy_class(obs_dim, *action_sizes, log_std_init=config.log_std_init, **network_options)
    if config.use_sde:
        frequency = config.sde_sample_freq
        return SDEPolicy(
            obs_dim, actions.size, log_std_init=config.log_std_init, sample_freq=frequency, **network_options
        )
    return ContinuousPolicy(obs_dim, actions.size, log_std_init=config.log_std_init, **network_options)


def build_policy(
    config: RunConfig, context: BuildContext, env: VectorEnv, encoder_spec: EncoderSpec
) -> ActorCritic:
    """Build the configured policy with the initial weights of a run."""
    algo, observations = cast(OnPolicyConfig, config.algo), env.observations
    require_float32()
    with (
        context.streams.seeded_generators("init", device=context.device),
        torch_threads(config.torch_threads),
    ):
        policy = make_policy(algo, encoder_spec.actor_features, env.actions, observations.mask_dim > 0)
        if encoder_spec.actor_columns is not None:
            policy.critic = mlp((encoder_spec.features, *algo.hidden_widths[1], 1), algo.activation)
        policy = init_weights(policy, config.seed, algo.ortho_init)
        policy = encoder_spec.wrap_policy(policy, observations.mask_dim, algo.share_encoder, algo.ortho_init)
    return policy.to(context.device)


def build_user_policy(
    config: RunConfig, context: BuildContext, env: VectorEnv, encoder_spec: EncoderSpec
) -> ActorCritic:
    """Load the user's policy and check that it fits the environments; it has its own encoders."""
    policy = as_actor_critic(load_user_module(config, context, env))
    require_policy_fits(policy, torch.from_numpy(env.observations.rows(2)), env.actions, config.env.id)
    return policy.to(context.device)


def load_user_module(config: RunConfig, context: BuildContext, env: VectorEnv) -> nn.Module:
    """Return the user's module, or make the one that `algo.policy` names.

    A factory gets the spaces, without an action mask, and its configured arguments.
    """
    if context.policy is not None:
        return context.policy  # type: ignore[no-any-return]
    algo: Any = config.algo
    observation_space = env.observation_space
    if isinstance(observation_space, MaskedSpace):
        observation_space = observation_space[OBSERVATION]
    if not callable(algo.policy) and is_object_name(display_name(algo.policy)):
        raise ConfigError(
            f"algo.policy={display_name(algo.policy)}: an object, which is not saved; give it again: "
            "from_checkpoint(path, policy=...)"
        )
    with (
        context.streams.seeded_generators("init", device=context.device),
        torch_threads(config.torch_threads),
    ):
        _reject_policy_class_of_sizes(load(algo.policy, "algo.policy"))
        policy = build_object(algo.policy, "algo.policy", observation_space, env.action_space)
    if not isinstance(policy, nn.Module):
        raise ConfigError(
            f"algo.policy={display_name(algo.policy)} gave a {type(policy).__name__}, expected a "
            "torch.nn.Module"
        )
    return policy


def _reject_policy_class_of_sizes(factory: Any) -> None:
    """Raise `ConfigError` for a policy class with a constructor of rlox, which takes sizes, not spaces."""
    init_module = getattr(getattr(factory, "__init__", None), "__module__", "") or ""
    if isinstance(factory, type) and init_module.startswith("rlox.policies."):
        raise ConfigError(
            f"policy={factory.__name__}: a class that takes sizes, not spaces, expected an instance; "
            f"give policy={factory.__name__}(obs_dim, ...)"
        )


def explained_variance(values: Tensor, returns: Tensor) -> float:
    """Return 1 - Var(R - V) / Var(R), with returns R and values V; 0 if the returns do not vary."""
    variance = returns.var(correction=0)
    if not float(variance):
        return 0.0
    return float(1.0 - (returns - values).var(correction=0) / variance)
