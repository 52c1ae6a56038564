"""What on-policy algorithms have in common: rollouts of their own policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from torch import Tensor

from rlox.collectors import OnPolicySource, RolloutCollector
from rlox.collectors.arena import Arena
from rlox.configs import RunConfig
from rlox.configs.on_policy import OnPolicyConfig
from rlox.envs.base import VectorEnv
from rlox.envs.make import single_factory
from rlox.envs.spaces import ActionCodec
from rlox.errors import ConfigError
from rlox.optim import Optimizer
from rlox.policies import (
    ActorCritic,
    ContinuousPolicy,
    DiscretePolicy,
    SDEPolicy,
    as_actor_critic,
)
from rlox.runs.preflight import require_memory
from rlox.training.actor import Actor
from rlox.training.evaluate import Evaluator
from rlox.training.loop import Learner
from rlox.training.parts import Parts, Tools
from rlox.training.setup import torch_threads
from rlox.types import Clock, Rollout

__all__ = ["PolicyLearner", "explained_variance", "make_policy", "on_policy_parts", "where"]


class PolicyLearner:
    """A policy and the optimizer of all its parameters, which are the state of a learner."""

    def __init__(self, policy: ActorCritic, optimizer: Optimizer) -> None:
        self.policy = policy
        self.optimizer = optimizer

    def state(self) -> dict[str, Any]:
        """Copies of the weights and optimizer moments, by parameter name."""
        return {
            "weights": {n: w.detach().clone() for n, w in self.policy.state_dict().items()},
            "optimizer": self.optimizer.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self.policy.load_state_dict(dict(state["weights"]))
        self.optimizer.restore(state["optimizer"])


def make_policy(config: OnPolicyConfig, obs_dim: int, actions: ActionCodec) -> ActorCritic:
    """The policy that `config` describes for this observation and action space."""
    shared: dict[str, Any] = {
        "net_arch": config.net_arch,
        "activation": config.activation,
        "ortho_init": config.ortho_init,
    }
    if not config.net_arch:
        raise ConfigError(
            "algo.net_arch is empty, expected at least one hidden width, e.g. [64,64]"
        )
    if actions.discrete:
        if config.use_sde:
            raise ConfigError(
                "algo.use_sde=true needs Box actions; this environment's are Discrete"
            )
        return DiscretePolicy(obs_dim, actions.size, **shared)
    if config.use_sde:
        frequency = config.sde_sample_freq
        return SDEPolicy(
            obs_dim, actions.size, log_std_init=config.log_std_init, sample_freq=frequency, **shared
        )
    return ContinuousPolicy(obs_dim, actions.size, log_std_init=config.log_std_init, **shared)


def on_policy_parts(
    config: RunConfig,
    tools: Tools,
    make_learner: Callable[[ActorCritic], Learner[Rollout]],
) -> Parts:
    """Rollouts of `algo.n_steps`, of the user's policy or of the one that `config` describes."""
    algo, env_config = cast(OnPolicyConfig, config.algo), config.env
    filmed = single_factory(env_config, tools.env, "rgb_array")
    make_env = single_factory(env_config, tools.env)
    collector = RolloutCollector(
        env_config.id if tools.env is None else tools.env,
        env_config.n_envs,
        config.seed,
        tools.device,
        algo.gamma,
        algo.gae_lambda,
        config=env_config,
    )
    env = collector.env
    _require_memory(algo.n_steps, env)
    if tools.policy is not None:
        policy = as_actor_critic(tools.policy)
    else:
        with (
            tools.streams.default("init", device=tools.device),
            torch_threads(config.torch_threads),
        ):
            policy = make_policy(algo, env.observations.dim, env.actions)
    policy = policy.to(tools.device)
    learner = make_learner(policy)
    actor = Actor(policy, env.observations, env.actions, collector.obs_normalizer, tools.device)
    return Parts(
        OnPolicySource(collector, policy, algo.n_steps),
        learner,
        actor,
        Evaluator(actor, make_env, filmed),
    )


def _require_memory(n_steps: int, env: VectorEnv) -> None:
    """Refuse a rollout that does not fit, before hours of training end in a kill."""
    arena = Arena.bytes_of(n_steps, env.n_envs, env.observations.dim, env.actions)
    # the arena, and the shuffled copy of an epoch
    require_memory(
        2 * arena,
        f"a rollout of {n_steps} steps of {env.n_envs} environments",
        "algo.n_steps or env.n_envs",
    )


def where(batch: Rollout, clock: Clock) -> str:
    """Which update a message is about."""
    return f"update of rollout {batch.index} (env_steps {clock.env_steps + len(batch)})"


def explained_variance(values: Tensor, returns: Tensor) -> float:
    """1 - Var(R - V) / Var(R); 0 when the returns do not vary."""
    variance = returns.var(correction=0)
    if not float(variance):
        return 0.0
    return float(1.0 - (returns - values).var(correction=0) / variance)
