"""What on-policy algorithms have in common: rollouts of their own policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn

from rlox import _core
from rlox.algorithms.encoding import NO_COST, Encoding, encoding_of
from rlox.collectors import NativeCollector, RolloutCollector
from rlox.collectors.fused import FusedSource, Iterates
from rlox.configs import RunConfig
from rlox.configs.code import Code, name_of
from rlox.configs.on_policy import OnPolicyConfig
from rlox.configs.params import is_object_name, object_name
from rlox.envs.actions import ActionCodec
from rlox.envs.base import VectorEnv
from rlox.envs.make import Stages
from rlox.envs.spaces import short
from rlox.errors import ConfigError
from rlox.importing import made
from rlox.networks.encoders import Cost
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
from rlox.policies.native import Acts, NativePolicy
from rlox.runs.algorithm import Algorithm
from rlox.runs.preflight import require_memory, require_networks
from rlox.sources.arena import Arena
from rlox.sources.collector import SCORE_IMAGES, SCORE_ROWS
from rlox.sources.rollout import RolloutSource
from rlox.training.actor import Actor
from rlox.training.evaluate import Evaluator
from rlox.training.loop import Learner
from rlox.training.parts import Parts, Tools
from rlox.training.setup import torch_threads
from rlox.types import Clock, Rollout

__all__ = [
    "collector_of",
    "explained_in_rust",
    "explained_variance",
    "make_policy",
    "on_policy_parts",
    "own_policy",
    "rollout_bytes",
    "where",
]


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
        "ortho_init": config.ortho_init,
    }
    if actions.choices and config.use_sde:
        said = "Discrete" if actions.discrete else short(actions.space)
        raise ConfigError(
            f"algo.use_sde=true needs Box actions, this environment's are {said}; leave algo.use_sde out"
        )
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


@runtime_checkable
class Native(Protocol):
    """What learns in Rust, whose policy acts there too."""

    native: NativePolicy


def on_policy_parts(
    config: RunConfig,
    tools: Tools,
    make_learner: Callable[[ActorCritic], Learner[Rollout]],
    minibatch: int | None = None,
    orders: int = 0,
) -> Parts:
    """Rollouts of `algo.n_steps`, of the user's policy or of the one that `config` describes.

    `minibatch` rows at a time are what the learner reads of a rollout that it shuffles; `None`: all
    rows at once, where they lie. `orders` of all rows are held at the same time.
    """
    algo, env_config = cast(OnPolicyConfig, config.algo), config.env
    kind = RolloutCollector if algo.backend == "torch" else NativeCollector
    collector = kind(
        env_config.id if tools.env is None else tools.env,
        env_config.n_envs,
        config.seed,
        tools.device,
        algo.gamma,
        algo.gae_lambda,
        config=env_config,
    )
    env = collector.env
    own = tools.policy is not None or algo.policy is not None
    widths = ((), ()) if own else algo.widths
    seen = env.observations
    wished = (algo, seen, config.env.id, algo.share_encoder)
    encoding = Encoding(seen.seen) if own else encoding_of(*wished)
    require_memory(
        rollout_bytes(algo, env, tools.device, minibatch, widths, encoding.cost)
        + 8 * orders * algo.n_steps * env.n_envs,
        f"learning from rollouts of {algo.n_steps} steps of {env.n_envs} environments",
        "algo.n_steps or env.n_envs",
    )
    if own:
        policy = as_actor_critic(tools.policy or _named_policy(config, algo, tools, env))
        require_takes(policy, torch.from_numpy(seen.rows(2)), env.actions, config.env.id)
    else:
        heads, features = (env.actions.size, 1), encoding.features
        require_networks(
            *((features, *hidden, out) for hidden, out in zip(widths, heads, strict=True)),
            more=encoding.cost.parameters * (1 if algo.share_encoder else 2),
        )
        with (
            tools.streams.default("init", device=tools.device),
            torch_threads(config.torch_threads),
        ):
            policy = make_policy(algo, features, env.actions, seen.masked > 0)
            policy = encoding.around(policy, seen.masked, algo.share_encoder, algo.ortho_init)
    policy = policy.to(tools.device)
    learner = make_learner(policy)
    actor = Actor(policy, env.observations, env.actions, collector.obs_normalizer, tools.device)
    source = _source(collector, policy, learner, algo.n_steps)
    evaluator = Evaluator(actor, Stages(env_config, tools.env))
    return Parts(source, learner, actor, evaluator, encoding.said)


def _source(
    collector: RolloutCollector, policy: ActorCritic, learner: Learner[Rollout], n_steps: int
) -> RolloutSource:
    """Rollouts of the policy, or of what acts for it in Rust, where they may be learned from as well."""
    if isinstance(learner, Iterates):
        return FusedSource(collector, learner.native, n_steps, learner)
    acts: Acts = learner.native if isinstance(learner, Native) else policy
    return RolloutSource(collector, acts, n_steps)


def own_policy(policy: nn.Module | Code | None, options: dict[str, Any]) -> nn.Module | None:
    """A policy that a façade was given as an object; its name, or what makes one, goes to the `options`."""
    if policy is None:
        return None
    held = policy if isinstance(policy, nn.Module) else None
    options["policy"] = policy if held is None else object_name(held)
    return held


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
        policy = made(algo.policy, "algo.policy", env.observation_space, env.action_space)
    if not isinstance(policy, nn.Module):
        raise ConfigError(
            f"algo.policy={name_of(algo.policy)} gave a {type(policy).__name__}, expected a "
            "torch.nn.Module"
        )
    return policy


def rollout_bytes(
    config: OnPolicyConfig,
    env: VectorEnv,
    device: torch.device,
    minibatch: int | None,
    widths: tuple[Sequence[int], Sequence[int]],
    encoders: Cost = NO_COST,
) -> int:
    """Memory that one round of collecting and learning takes, besides parameters and environments.

    The arena, the hidden layers while its rows are scored, and an update: the rollout's copy in a new
    order (with `minibatch`) and what the gradient needs of the rows learned from at once, which is
    what each hidden layer of actor and critic keeps (`widths`; none for a policy of the user's own,
    which nobody knows), the gradients of the widest, and what `encoders` keep. All but the arena is
    memory of `device`, which is not counted unless it is the CPU's.
    """
    actions, seen = env.actions, env.observations
    rows = config.n_steps * env.n_envs
    arena = Arena.bytes_of(config.n_steps, env.n_envs, seen.dim, actions, seen.dtype)
    if device.type != "cpu":
        return arena
    hidden = [*widths[0], *widths[1]]
    widest, heads = max(hidden, default=0), 8 * (actions.scored + 1)  # numbers a row; heads roughly
    # elu and silu keep what went in beside what came out
    kept = sum(hidden) * (2 if config.activation in ("elu", "silu") else 1)
    if config.use_sde:
        kept += sum(widths[0][-1:])
    at_once = min(rows, SCORE_IMAGES if seen.images else SCORE_ROWS)
    scored = 4 * at_once * (3 * widest + heads + encoders.widest)
    images = (encoders.kept + encoders.widest) * (1 if config.share_encoder else 2)
    learned = 4 * min(minibatch or rows, rows) * (kept + 2 * widest + heads + images)
    if config.share_encoder:
        scored += 4 * rows * encoders.features  # kept from acting
    if minibatch:
        learned += rows * (seen.row_bytes + actions.row_bytes + 4 * 4 + 8)
    return arena + scored + learned


def collector_of(algorithm: Algorithm) -> RolloutCollector:
    """Where the rollouts come from."""
    collector: RolloutCollector = algorithm.source.collector
    return collector


def where(index: int, rows: int, clock: Clock) -> str:
    """Which update a message is about: that of rollout number `index`, of so many rows."""
    return f"update of rollout {index} (env_steps {clock.env_steps + rows})"


def explained_variance(values: Tensor, returns: Tensor) -> float:
    """1 - Var(R - V) / Var(R); 0 when the returns do not vary."""
    variance = returns.var(correction=0)
    if not float(variance):
        return 0.0
    return float(1.0 - (returns - values).var(correction=0) / variance)


def explained_in_rust(values: Tensor, returns: Tensor) -> float:
    """The same of columns on the CPU as iterations in Rust say it, whose sums are of float64."""
    return _core.explained_variance(values.numpy(), returns.numpy())
