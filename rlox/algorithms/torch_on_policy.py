"""Policies of on-policy algorithms as modules of torch."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn

from rlox.algorithms.encoding import Encoding
from rlox.configs import RunConfig
from rlox.configs.code import name_of
from rlox.configs.on_policy import OnPolicyConfig
from rlox.configs.params import is_object_name
from rlox.devices import require_float32
from rlox.envs.actions import ActionCodec
from rlox.envs.base import VectorEnv
from rlox.errors import ConfigError
from rlox.importing import load, made
from rlox.networks import begun
from rlox.policies import (
    ActorCritic,
    ContinuousPolicy,
    DiscretePolicy,
    FactoredPolicy,
    MaskedDiscretePolicy,
    MaskedFactoredPolicy,
    SDEPolicy,
    as_actor_critic,
    require_takes,
)
from rlox.training.parts import Tools
from rlox.training.setup import torch_threads

__all__ = ["described_policy", "explained_variance", "make_policy", "own_module"]


def make_policy(
    config: OnPolicyConfig, obs_dim: int, actions: ActionCodec, masked: bool = False
) -> ActorCritic:
    """The policy that `config` describes for this observation and action space.

    `masked` where a mask of the actions is behind the `obs_dim` numbers of an observation.
    """
    shared: dict[str, Any] = {
        "net_arch": config.net_arch,
        "critic_net_arch": config.critic_net_arch,
        "activation": config.activation,
        "ortho_init": False,  # a run's weights are not torch's: `begun`
    }
    if actions.discrete:
        kind = MaskedDiscretePolicy if masked else DiscretePolicy
        return kind(obs_dim, actions.size, **shared)
    if actions.choices:
        of = MaskedFactoredPolicy if masked else FactoredPolicy
        parts = actions.choices, actions.vector
        return of(obs_dim, *parts, log_std_init=config.log_std_init, **shared)
    if config.use_sde:
        frequency = config.sde_sample_freq
        return SDEPolicy(
            obs_dim, actions.size, log_std_init=config.log_std_init, sample_freq=frequency, **shared
        )
    return ContinuousPolicy(obs_dim, actions.size, log_std_init=config.log_std_init, **shared)


def described_policy(
    config: RunConfig, tools: Tools, env: VectorEnv, encoding: Encoding
) -> ActorCritic:
    """The policy that the configuration describes, with the weights that a run begins with."""
    algo, seen = cast(OnPolicyConfig, config.algo), env.observations
    require_float32()
    with tools.streams.default("init", device=tools.device), torch_threads(config.torch_threads):
        policy = make_policy(algo, encoding.features, env.actions, seen.masked > 0)
        policy = begun(policy, config.seed, algo.ortho_init)
        policy = encoding.around(policy, seen.masked, algo.share_encoder, algo.ortho_init)
    return policy.to(tools.device)


def own_module(config: RunConfig, tools: Tools, env: VectorEnv) -> ActorCritic:
    """The user's policy, held to what these environments ask of it."""
    given = tools.policy or _named_policy(config, cast(OnPolicyConfig, config.algo), tools, env)
    policy = as_actor_critic(given)
    require_takes(policy, torch.from_numpy(env.observations.rows(2)), env.actions, config.env.id)
    return policy.to(tools.device)


def _named_policy(
    config: RunConfig, algo: OnPolicyConfig, tools: Tools, env: VectorEnv
) -> nn.Module:
    """The policy that `algo.policy` names, made of the spaces and its own arguments."""
    assert algo.policy is not None
    if not callable(algo.policy) and is_object_name(name_of(algo.policy)):
        raise ConfigError(
            f"algo.policy={name_of(algo.policy)}: an object, which is not saved; give it again: "
            "from_checkpoint(path, policy=...)"
        )
    with tools.streams.default("init", device=tools.device), torch_threads(config.torch_threads):
        _require_of_spaces(load(algo.policy, "algo.policy"))
        policy = made(algo.policy, "algo.policy", env.observation_space, env.action_space)
    if not isinstance(policy, nn.Module):
        raise ConfigError(
            f"algo.policy={name_of(algo.policy)} gave a {type(policy).__name__}, expected a "
            "torch.nn.Module"
        )
    return policy


def _require_of_spaces(maker: Any) -> None:
    """`ConfigError` for a class of rlox, or one derived from it, whose constructor takes sizes."""
    made_by = getattr(getattr(maker, "__init__", None), "__module__", "")
    if isinstance(maker, type) and made_by.startswith("rlox.policies."):
        raise ConfigError(
            f"policy={maker.__name__}: a class that is made of sizes, not of spaces, expected an instance; "
            f"give policy={maker.__name__}(obs_dim, ...)"
        )


def explained_variance(values: Tensor, returns: Tensor) -> float:
    """1 - Var(R - V) / Var(R); 0 when the returns do not vary."""
    variance = returns.var(correction=0)
    if not float(variance):
        return 0.0
    return float(1.0 - (returns - values).var(correction=0) / variance)
