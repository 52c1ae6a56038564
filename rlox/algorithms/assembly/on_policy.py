"""Construction of on-policy runs, which learn from rollouts of their own policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from rlox.algorithms.assembly.encoding import EncoderSpec, make_encoder_spec, require_actions
from rlox.configs import RunConfig
from rlox.configs.on_policy import OnPolicyConfig
from rlox.envs.actions import ActionCodec
from rlox.envs.base import VectorEnv
from rlox.envs.critic_obs import with_critic_parts
from rlox.envs.engines.factories import close_on_error
from rlox.envs.make import EvalEnvFactory
from rlox.envs.spaces import ObservationCodec, format_space
from rlox.errors import ConfigError
from rlox.native.collector import NativeCollector
from rlox.native.policy import ActorCriticSizes, NativePolicy
from rlox.native.sources import FusedLearner, FusedSource
from rlox.parameters.encoder_cost import NO_COST, EncoderCost
from rlox.parameters.lazy_torch import ActingPolicy
from rlox.runs.algorithm import Algorithm
from rlox.runs.preflight import require_memory, require_networks
from rlox.sources.arena import Arena
from rlox.sources.collector import SCORE_IMAGES, SCORE_ROWS
from rlox.sources.rollout import RolloutSource
from rlox.sources.rollout_collector import RolloutCollector
from rlox.training.actor import Actor, BaseActor, NativeActor
from rlox.training.backend import (
    NATIVE,
    TORCH_BACKEND,
    BackendSelector,
    native_refusal_message,
    require_native,
)
from rlox.training.components import BuildContext, RunComponents
from rlox.training.evaluate import Evaluator
from rlox.training.loop import Learner
from rlox.types import Clock, Rollout

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from rlox.policies.base import ActorCritic

__all__ = [
    "NativeLearnerFactory",
    "OnPolicyBuilder",
    "PolicyFactory",
    "build_on_policy_run",
    "get_collector",
    "rollout_bytes",
    "update_label",
]


# Builds the torch learner of a policy for environments and their encoder.
OnPolicyBuilder = Callable[[Any, VectorEnv, EncoderSpec], Learner[Rollout]]


@dataclass(frozen=True)
class NativeLearnerFactory:
    """Makes a native learner instead of the torch learner, if `selector` chooses the native engine."""

    selector: BackendSelector
    make_learner: Callable[[NativePolicy], Learner[Any]]


@dataclass(frozen=True)
class PolicyFactory:
    """Builds a kind of policies in torch, and tells their size."""

    build: Callable[[RunConfig, BuildContext, VectorEnv, EncoderSpec], Any]
    layer_sizes: Callable[[int, int], Iterable[tuple[int, ...]]]  # from the numbers of features and outputs
    n_bytes: Callable[[VectorEnv, EncoderCost], int]  # that a rollout and its update need, as `rollout_bytes`
    size_keys: str  # the settings of these sizes, for messages


@runtime_checkable
class HasNativePolicy(Protocol):
    """A learner with a policy that acts in Rust."""

    native: NativePolicy


def build_on_policy_run(
    config: RunConfig,
    context: BuildContext,
    build_learner: OnPolicyBuilder,
    minibatch_size: int | None = None,
    n_orders: int = 0,
    native_factory: NativeLearnerFactory | None = None,
    *,
    collector: type[RolloutCollector] | None = None,
    actor: type[BaseActor[Any]] | None = None,
    policy_factory: PolicyFactory | None = None,
) -> RunComponents:
    """Build the components of a run that learns from rollouts of `algo.n_steps` steps.

    `build_learner` gets the policy, which is the user's or the one that `config` describes, the environments
    and what is known of the policy's encoder. `minibatch_size` is the number of rows per
    gradient step on the shuffled rollout; with `None` a step uses all rows, and they are not copied.
    `n_orders` is the number of permutations of all rows that are in memory at the same time.
    `native_factory` makes a native learner instead of the one in torch, if the backend is native.
    A policy of another kind, such as a recurrent one, comes from `policy_factory`, which excludes the user's
    policy and the native engine. `collector` and `actor` are the classes that act with it in training and in
    evaluation.
    """
    algo, env_config = cast(OnPolicyConfig, config.algo), config.env
    if policy_factory is not None and _has_user_policy(config, context):
        raise ConfigError(f"{algo.name} takes no policy of your own; leave policy out")
    if native_factory is None and algo.backend == NATIVE:
        raise ConfigError(native_refusal_message(f"{algo.name} has no native engine"))
    collector_class = collector or (RolloutCollector if algo.backend == "torch" else NativeCollector)
    rollouts = collector_class(
        env_config.id if context.env is None else context.env,
        env_config.n_envs,
        config.seed,
        context.device_name,
        algo.gamma,
        algo.gae_lambda,
        config=env_config,
    )
    env = rollouts.env
    with close_on_error(rollouts, context.env):
        require_actions(config, env.actions)
        factory = policy_factory or _feedforward(config, context, minibatch_size, n_orders)
        observations = with_critic_parts(env.observations, env_config)
        encoder_spec = _make_encoder_spec(config, context, observations)
        _require_sizes(config, context, env, encoder_spec, factory)
        build = partial(factory.build, config, context, env, encoder_spec)
        learner, policy = _build_learner(
            config, env, encoder_spec, build_learner, build, context, native_factory
        )
        encoder_spec.require_used(policy, algo.name)
        default_actor: type[BaseActor[Any]] = NativeActor if isinstance(policy, NativePolicy) else Actor
        normalizer = rollouts.obs_normalizer
        spaces = observations, env.actions
        run_actor = (actor or default_actor)(policy, *spaces, normalizer, context.device_name)
        source = _make_source(rollouts, policy, learner, algo.n_steps)
        evaluator = Evaluator(run_actor, EvalEnvFactory(env_config, context.env), config.eval, env)
        backend = native_factory.selector.backend if native_factory else TORCH_BACKEND
        return RunComponents(source, learner, run_actor, evaluator, encoder_spec.descriptions, backend)


def _has_user_policy(config: RunConfig, context: BuildContext) -> bool:
    return context.policy is not None or cast(OnPolicyConfig, config.algo).policy is not None


def _feedforward(
    config: RunConfig, context: BuildContext, minibatch_size: int | None, n_orders: int
) -> PolicyFactory:
    """Return the factory of the configured policy, or of the user's."""
    algo, has_user_policy = cast(OnPolicyConfig, config.algo), _has_user_policy(config, context)
    widths = ((), ()) if has_user_policy else algo.hidden_widths

    def build(*arguments: Any) -> ActorCritic:
        from rlox.algorithms.assembly.torch_policies import build_policy, build_user_policy

        return (build_user_policy if has_user_policy else build_policy)(*arguments)

    def layer_sizes(features: int, n_outputs: int) -> Iterable[tuple[int, ...]]:
        for hidden, outputs in zip(widths, (n_outputs, 1), strict=True):
            yield features, *hidden, outputs

    def n_bytes(env: VectorEnv, encoder_cost: EncoderCost) -> int:
        on_cpu = context.device_name == "cpu"
        rows = algo.n_steps * env.n_envs
        return rollout_bytes(algo, env, on_cpu, minibatch_size, widths, encoder_cost) + 8 * n_orders * rows

    return PolicyFactory(build, layer_sizes, n_bytes, "algo.n_steps or env.n_envs")


def _make_encoder_spec(
    config: RunConfig, context: BuildContext, observations: ObservationCodec
) -> EncoderSpec:
    """Return what the policy's encoders are; a user's policy has its own."""
    algo = cast(OnPolicyConfig, config.algo)
    if _has_user_policy(config, context):
        return EncoderSpec(observations.input_dim)
    return make_encoder_spec(algo, observations, config.env.id, algo.share_encoder)


def _require_sizes(
    config: RunConfig,
    context: BuildContext,
    env: VectorEnv,
    encoder_spec: EncoderSpec,
    factory: PolicyFactory,
) -> None:
    """Raise `ConfigError` if rollouts or networks exceed the memory, or settings do not fit the actions."""
    algo, cost = cast(OnPolicyConfig, config.algo), encoder_spec.cost
    purpose = f"learning from rollouts of {algo.n_steps} steps of {env.n_envs} environments"
    require_memory(factory.n_bytes(env, cost), purpose, factory.size_keys)
    if _has_user_policy(config, context):
        return
    _require_box_for_sde(algo, env.actions)
    _require_vector_for_log_std(config, context, env.actions)
    encoder_parameters = cost.parameters * (1 if algo.share_encoder else 2)
    layer_sizes = factory.layer_sizes(encoder_spec.features, env.actions.size)
    require_networks(*layer_sizes, extra_parameters=encoder_parameters)


def _build_learner(
    config: RunConfig,
    env: VectorEnv,
    encoder_spec: EncoderSpec,
    build_learner: OnPolicyBuilder,
    build_policy: Callable[[], Any],
    context: BuildContext,
    native_factory: NativeLearnerFactory | None,
) -> tuple[Learner[Any], ActingPolicy]:
    """Build the learner and the policy that acts."""
    algo = cast(OnPolicyConfig, config.algo)
    has_user_policy = _has_user_policy(config, context)
    if native_factory is not None and not has_user_policy:
        sizes = _network_sizes(algo, encoder_spec.features, env.actions)
        native = native_factory.selector.make_native(
            sizes.max_width, lambda: _build_native_policy(config, context, env, encoder_spec, sizes)
        )
        if native is not None:
            return native_factory.make_learner(native), native
    policy = build_policy()
    make_torch_learner = partial(build_learner, policy, env, encoder_spec)
    if native_factory is None or not has_user_policy:
        return make_torch_learner(), policy
    make_native_learner = native_factory.make_learner
    learner = native_factory.selector.make_learner(
        policy, lambda: make_native_learner(NativePolicy.from_module(policy)), make_torch_learner
    )
    return learner, learner.native if isinstance(learner, HasNativePolicy) else policy


def _network_sizes(algo: OnPolicyConfig, features: int, actions: ActionCodec) -> ActorCriticSizes:
    """Return the sizes of the configured networks."""
    kind = "choices" if actions.choices else "sde" if algo.use_sde else "numbers"
    noise_interval = algo.sde_sample_freq if algo.use_sde else 1
    actor, critic = algo.hidden_widths
    return ActorCriticSizes(
        kind,
        actions.size,
        features,
        actor,
        critic,
        algo.activation,
        noise_interval if noise_interval > 0 else None,
    )


def _build_native_policy(
    config: RunConfig,
    context: BuildContext,
    env: VectorEnv,
    encoder_spec: EncoderSpec,
    sizes: ActorCriticSizes,
) -> NativePolicy:
    """Build the configured policy in Rust; raise `ConfigError` if the native engine does not support it."""
    algo, actions, mask_dim = cast(OnPolicyConfig, config.algo), env.actions, env.observations.mask_dim
    require_native(algo, actions, context.device_name, encoder_spec.native_obstacle)

    def make_module() -> ActorCritic:
        from rlox.algorithms.assembly.torch_policies import make_policy

        return make_policy(algo, encoder_spec.features, actions, mask_dim > 0)

    return NativePolicy.create(sizes, config.seed, algo.ortho_init, algo.log_std_init, make_module)


def _make_source(
    collector: RolloutCollector, policy: ActingPolicy, learner: Learner[Any], n_steps: int
) -> RolloutSource:
    """Make a fused source if collector and learner support it, else a source of rollouts."""
    if isinstance(learner, FusedLearner) and isinstance(collector, NativeCollector):
        return FusedSource(collector, learner.native, n_steps, learner)
    acting_policy: ActingPolicy = learner.native if isinstance(learner, HasNativePolicy) else policy
    return RolloutSource(collector, acting_policy, n_steps)


def _require_box_for_sde(algo: OnPolicyConfig, actions: ActionCodec) -> None:
    """Raise `ConfigError` for gSDE with discrete actions."""
    if actions.choices and algo.use_sde:
        space_text = "Discrete" if actions.is_discrete else format_space(actions.space)
        raise ConfigError(
            f"algo.use_sde=true needs Box actions, but this environment has {space_text} actions; leave "
            "algo.use_sde out"
        )


def _require_vector_for_log_std(config: RunConfig, context: BuildContext, actions: ActionCodec) -> None:
    """Raise `ConfigError` if a new run sets `log_std_init` and its actions are only choices."""
    algo = cast(OnPolicyConfig, config.algo)
    value, default = algo.log_std_init, type(algo).log_std_init
    if context.is_new_run and not actions.box_dim and value != default:
        raise ConfigError(
            f"algo.log_std_init={value:g}: {config.env.id} has {format_space(actions.space)} actions, which "
            f"have no standard deviation; leave it out, or set it to {default:g} if a preset sets it"
        )


def rollout_bytes(
    config: OnPolicyConfig,
    env: VectorEnv,
    on_cpu: bool,
    minibatch_size: int | None,
    widths: tuple[Sequence[int], Sequence[int]],
    encoder_cost: EncoderCost = NO_COST,
) -> int:
    """Estimate the bytes that one rollout and its update need, without parameters and environments.

    It counts the arena, the hidden layers while the rollout's rows are scored, and the update. The update
    needs a shuffled copy of the rollout (with `minibatch_size`) and, for the rows of one gradient step, the
    saved activations of the hidden layers of actor and critic (`widths`; empty for a user's policy, whose
    layers are unknown), the gradients of the widest layer, and the activations of the encoders
    (`encoder_cost`).
    All but the arena is in device memory, which counts only if the device is the CPU.
    """
    actions, observations = env.actions, env.observations
    rows = config.n_steps * env.n_envs
    arena_bytes = Arena.byte_size(config.n_steps, env.n_envs, observations.dim, actions, observations.dtype)
    if not on_cpu:
        return arena_bytes
    hidden = [*widths[0], *widths[1]]
    max_width, head_numbers = (
        max(hidden, default=0),
        8 * (actions.scoring_width + 1),
    )  # numbers per row; the heads are an estimate
    # elu and silu save their input and their output
    saved_activations = sum(hidden) * (2 if config.activation in ("elu", "silu") else 1)
    if config.use_sde:
        saved_activations += sum(widths[0][-1:])
    score_rows = min(rows, SCORE_IMAGES if observations.images else SCORE_ROWS)
    score_bytes = 4 * score_rows * (3 * max_width + head_numbers + encoder_cost.peak_activations)
    image_numbers = (encoder_cost.saved_activations + encoder_cost.peak_activations) * (
        1 if config.share_encoder else 2
    )
    learn_bytes = (
        4
        * min(minibatch_size or rows, rows)
        * (saved_activations + 2 * max_width + head_numbers + image_numbers)
    )
    if config.share_encoder:
        score_bytes += 4 * rows * encoder_cost.features  # features saved while acting
    if minibatch_size:
        learn_bytes += rows * (observations.row_bytes + actions.row_bytes + 4 * 4 + 8)
    return arena_bytes + score_bytes + learn_bytes


def get_collector(algorithm: Algorithm) -> RolloutCollector:
    """Return the algorithm's collector of rollouts."""
    collector: RolloutCollector = algorithm.source.collector
    return collector


def update_label(index: int, n_rows: int, clock: Clock) -> str:
    """Return how messages name the update on rollout number `index`, which has `n_rows` rows."""
    return f"update of rollout {index} (env_steps {clock.env_steps + n_rows})"
