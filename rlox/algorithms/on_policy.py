"""What on-policy algorithms have in common: rollouts of their own policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from rlox.algorithms.encoding import Encoding, encoding_of, require_actions
from rlox.collectors.fused import FusedSource, Iterates
from rlox.collectors.native import NativeCollector
from rlox.collectors.rollout import RolloutCollector
from rlox.configs import RunConfig
from rlox.configs.code import Code
from rlox.configs.on_policy import OnPolicyConfig
from rlox.configs.params import object_name
from rlox.devices import is_module
from rlox.envs.actions import ActionCodec
from rlox.envs.base import VectorEnv
from rlox.envs.engines.makers import building
from rlox.envs.make import Stages
from rlox.envs.spaces import short
from rlox.errors import ConfigError
from rlox.parameters.cost import NO_COST, Cost
from rlox.policies.native import Acts, NativePolicy, Sizes
from rlox.runs.algorithm import Algorithm
from rlox.runs.preflight import require_memory, require_networks
from rlox.sources.arena import Arena
from rlox.sources.collector import SCORE_IMAGES, SCORE_ROWS
from rlox.sources.rollout import RolloutSource
from rlox.training.actor import Actor, ActorOf, NativeActor
from rlox.training.backend import BY_TORCH, NATIVE, Choice, no_native
from rlox.training.evaluate import Evaluator
from rlox.training.loop import Learner
from rlox.training.native_fields import require_native
from rlox.training.parts import Parts, Tools
from rlox.types import Clock, Rollout

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from torch import nn

    from rlox.policies.base import ActorCritic

__all__ = ["Engine", "collector_of", "on_policy_parts", "own_policy", "rollout_bytes", "where"]


@dataclass(frozen=True)
class Engine:
    """What may learn in torch's place: whether it does, and the learner of its policy."""

    choice: Choice
    make_learner: Callable[[NativePolicy], Learner[Rollout]]


@runtime_checkable
class Native(Protocol):
    """What acts in Rust."""

    native: NativePolicy


def on_policy_parts(
    config: RunConfig,
    tools: Tools,
    make_learner: Callable[[ActorCritic], Learner[Rollout]],
    minibatch: int | None = None,
    orders: int = 0,
    engine: Engine | None = None,
) -> Parts:
    """Rollouts of `algo.n_steps`, of the user's policy or of the one that `config` describes.

    `minibatch` rows at a time are what the learner reads of a rollout that it shuffles; `None`: all
    rows at once, where they lie. `orders` of all rows are held at the same time. `engine` is what may learn
    in torch's place.
    """
    algo, env_config = cast(OnPolicyConfig, config.algo), config.env
    if engine is None and algo.backend == NATIVE:
        raise ConfigError(no_native(f"{algo.name} has no native engine"))
    kind = RolloutCollector if algo.backend == "torch" else NativeCollector
    collector = kind(
        env_config.id if tools.env is None else tools.env,
        env_config.n_envs,
        config.seed,
        tools.device_name,
        algo.gamma,
        algo.gae_lambda,
        config=env_config,
    )
    with building(collector, tools.env):
        require_actions(config, collector.env.actions)
        return _parts(config, tools, collector, make_learner, minibatch, orders, engine)


def _parts(
    config: RunConfig,
    tools: Tools,
    collector: RolloutCollector,
    make_learner: Callable[[ActorCritic], Learner[Rollout]],
    minibatch: int | None,
    orders: int,
    engine: Engine | None,
) -> Parts:
    """What acts and learns in the environments of a collector."""
    algo, env_config, env = cast(OnPolicyConfig, config.algo), config.env, collector.env
    own = tools.policy is not None or algo.policy is not None
    widths = ((), ()) if own else algo.widths
    seen = env.observations
    wished = (algo, seen, config.env.id, algo.share_encoder)
    encoding = Encoding(seen.seen) if own else encoding_of(*wished)
    require_memory(
        rollout_bytes(algo, env, tools.device_name == "cpu", minibatch, widths, encoding.cost)
        + 8 * orders * algo.n_steps * env.n_envs,
        f"learning from rollouts of {algo.n_steps} steps of {env.n_envs} environments",
        "algo.n_steps or env.n_envs",
    )
    if not own:
        _require_box_for_sde(algo, env.actions)
        require_deviation(config, tools, env.actions)
        heads, features = (env.actions.size, 1), encoding.features
        require_networks(
            *((features, *hidden, out) for hidden, out in zip(widths, heads, strict=True)),
            more=encoding.cost.parameters * (1 if algo.share_encoder else 2),
        )
    learner, policy = _learner(config, tools, env, encoding, make_learner, engine)
    acts: type[ActorOf[Any]] = NativeActor if isinstance(policy, NativePolicy) else Actor
    normalizer = collector.obs_normalizer
    actor = acts(policy, env.observations, env.actions, normalizer, tools.device_name)
    source = _source(collector, policy, learner, algo.n_steps)
    evaluator = Evaluator(actor, Stages(env_config, tools.env), config.eval, env)
    backend = engine.choice.made if engine else BY_TORCH
    return Parts(source, learner, actor, evaluator, encoding.said, backend)


def _learner(
    config: RunConfig,
    tools: Tools,
    env: VectorEnv,
    encoding: Encoding,
    make_learner: Callable[[ActorCritic], Learner[Rollout]],
    engine: Engine | None,
) -> tuple[Learner[Rollout], Acts]:
    """What learns, and whose policy it is."""
    algo = cast(OnPolicyConfig, config.algo)
    own = tools.policy is not None or algo.policy is not None
    if engine is not None and not own:
        sizes = _sizes(algo, encoding.features, env.actions)
        native = engine.choice.native(
            sizes.widest, lambda: _in_rust(config, tools, env, encoding, sizes)
        )
        if native is not None:
            return engine.make_learner(native), native
    from rlox.algorithms.torch_on_policy import described_policy, own_module

    if not own:
        policy = described_policy(config, tools, env, encoding)
        return make_learner(policy), policy
    policy = own_module(config, tools, env)
    if engine is None:
        return make_learner(policy), policy
    make = engine.make_learner
    learner = engine.choice.learner(
        policy, lambda: make(NativePolicy.of(policy)), lambda: make_learner(policy)
    )
    return learner, learner.native if isinstance(learner, Native) else policy


def _sizes(algo: OnPolicyConfig, features: int, actions: ActionCodec) -> Sizes:
    """Of the networks that are configured."""
    kind = "choices" if actions.choices else "sde" if algo.use_sde else "numbers"
    kept = algo.sde_sample_freq if algo.use_sde else 1
    actor, critic = algo.widths
    return Sizes(
        kind, actions.size, features, actor, critic, algo.activation, kept if kept > 0 else None
    )


def _in_rust(
    config: RunConfig, tools: Tools, env: VectorEnv, encoding: Encoding, sizes: Sizes
) -> NativePolicy:
    """The policy that is configured, in Rust; ConfigError for one that it does not know."""
    algo, actions, masked = cast(OnPolicyConfig, config.algo), env.actions, env.observations.masked
    require_native(algo, actions, tools.device_name, encoding.make is not None)

    def module() -> ActorCritic:
        from rlox.algorithms.torch_on_policy import make_policy

        return make_policy(algo, encoding.features, actions, masked > 0)

    return NativePolicy.begun(sizes, config.seed, algo.ortho_init, algo.log_std_init, module)


def _source(
    collector: RolloutCollector, policy: Acts, learner: Learner[Rollout], n_steps: int
) -> RolloutSource:
    """Rollouts of the policy, or of what acts for it in Rust, where they may be learned from as well."""
    if isinstance(learner, Iterates) and isinstance(collector, NativeCollector):
        return FusedSource(collector, learner.native, n_steps, learner)
    acts: Acts = learner.native if isinstance(learner, Native) else policy
    return RolloutSource(collector, acts, n_steps)


def _require_box_for_sde(algo: OnPolicyConfig, actions: ActionCodec) -> None:
    """`ConfigError` for gSDE of choices."""
    if actions.choices and algo.use_sde:
        said = "Discrete" if actions.discrete else short(actions.space)
        raise ConfigError(
            f"algo.use_sde=true needs Box actions, this environment's are {said}; leave algo.use_sde out"
        )


def require_deviation(config: RunConfig, tools: Tools, actions: ActionCodec) -> None:
    """`ConfigError` for an initial deviation of a new run whose actions have no numbers, only choices."""
    algo = cast(OnPolicyConfig, config.algo)
    given, default = algo.log_std_init, type(algo).log_std_init
    if tools.begins and not actions.vector and given != default:
        raise ConfigError(
            f"algo.log_std_init={given:g}: {config.env.id} has {short(actions.space)} actions, choices "
            f"without a deviation; leave it out, or set it to {default:g} where a preset has it"
        )


def own_policy(policy: nn.Module | Code | None, options: dict[str, Any]) -> nn.Module | None:
    """A policy that a façade was given as an object; its name, or what makes one, goes to the `options`."""
    if policy is None:
        return None
    held = policy if is_module(policy) else None
    options["policy"] = policy if held is None else object_name(held)
    return held


def rollout_bytes(
    config: OnPolicyConfig,
    env: VectorEnv,
    on_cpu: bool,
    minibatch: int | None,
    widths: tuple[Sequence[int], Sequence[int]],
    encoders: Cost = NO_COST,
) -> int:
    """Memory that one round of collecting and learning takes, besides parameters and environments.

    The arena, the hidden layers while its rows are scored, and an update: the rollout's copy in a new
    order (with `minibatch`) and what the gradient needs of the rows learned from at once, which is
    what each hidden layer of actor and critic keeps (`widths`; none for a policy of the user's own,
    which nobody knows), the gradients of the widest, and what `encoders` keep. All but the arena is
    memory of a device, which is not counted unless it is the CPU's.
    """
    actions, seen = env.actions, env.observations
    rows = config.n_steps * env.n_envs
    arena = Arena.bytes_of(config.n_steps, env.n_envs, seen.dim, actions, seen.dtype)
    if not on_cpu:
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
