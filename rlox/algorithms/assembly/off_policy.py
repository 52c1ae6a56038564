"""Construction of off-policy runs, which learn from transitions replayed from a buffer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from rlox.algorithms.assembly.encoding import EncoderSpec, make_encoder_spec, require_actions
from rlox.configs import ReplayConfig, RunConfig, UniformConfig
from rlox.configs.base import AlgorithmConfig
from rlox.configs.off_policy import OffPolicyConfig
from rlox.envs.actions import UnitCodec
from rlox.envs.base import VectorEnv
from rlox.envs.critic_obs import with_critic_parts
from rlox.envs.engines.factories import close_on_error
from rlox.envs.gym_vec import EnvFactory
from rlox.envs.make import EvalEnvFactory, make_vec, wrapped_factory
from rlox.envs.normalize import RewardNormalizer, observation_normalizer
from rlox.errors import ConfigError, EnvError
from rlox.native.exploration import NativeExplorationPolicy
from rlox.native.sources import FusedReplayLearner, NativeReplaySource
from rlox.parameters.encoder_cost import EncoderCost
from rlox.parameters.lazy_torch import LazyTorchModule
from rlox.runs.preflight import COPIES_PER_PARAMETER, require_memory, require_networks
from rlox.sources.hindsight import HindsightRelabeler
from rlox.sources.replay import MAX_TICK_BATCHES, ExplorationPolicy, ReplaySource, UpdateSchedule
from rlox.sources.replay_sampler import (
    MAX_SAMPLED_ROWS,
    OneHotPacking,
    ReplaySampler,
    frames_to_share,
    make_buffer,
    sampled_bytes,
)
from rlox.training.actor import Actor, BaseActor, NativeActor
from rlox.training.backend import BackendSelector
from rlox.training.components import BuildContext, RunComponents
from rlox.training.evaluate import Evaluator
from rlox.training.loop import Learner
from rlox.types import Clock

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from rlox.policies.base import Policy

__all__ = [
    "OffPolicyBuilder",
    "OffPolicyComponents",
    "ReplayLearnerMixin",
    "build_off_policy_run",
]


class ReplayLearnerMixin:
    """Applies the learning rate schedule of actor and critics, and adds the rate to the metrics."""

    config: AlgorithmConfig
    actor_optimizer: Any  # optimizers
    critic_optimizer: Any

    def _apply_schedules(self, clock: Clock) -> None:
        """Set the learning rates."""
        self.actor_optimizer.lr = self.critic_optimizer.lr = self.config.at("learning_rate", clock.remaining)

    def _own_metrics(self) -> dict[str, float]:
        """Return the metrics besides those of the losses: the learning rate."""
        return {"train/learning_rate": self.actor_optimizer.lr}


@dataclass(frozen=True)
class OffPolicyComponents:
    """The components that an off-policy algorithm adds: policy, exploration and learner.

    `actions` converts rows of the policy's actions to the environment's actions, if they differ.
    """

    policy: Policy | LazyTorchModule
    exploration: ExplorationPolicy
    learner: Learner[Any]
    actions: UnitCodec | None = None


# Builds the components for environments and their encoder, with the backend that the selector chooses.
OffPolicyBuilder = Callable[[VectorEnv, EncoderSpec, BackendSelector], OffPolicyComponents]


def build_off_policy_run(
    config: RunConfig,
    context: BuildContext,
    build_learner: OffPolicyBuilder,
    *,
    sampler: type[ReplaySampler] | None = None,
    actor: type[BaseActor[Any]] | None = None,
) -> RunComponents:
    """Build a run whose learner, from `build_learner`, gets transitions replayed from `config.buffer`.

    `sampler` is a subclass of `ReplaySampler` with the same constructor, which stores and draws transitions
    in its own way; Rust then does not draw. `actor` is the class that acts in evaluation; with the native
    engine it is a subclass of `NativeActor`.
    """
    if context.policy is not None and not config.algo.has_custom_policy:
        raise ConfigError(f"{config.algo.name} takes no policy of your own")
    env_config = config.env
    make_env = wrapped_factory(env_config, context.env, training=True)  # with training rewards
    env = make_vec(env_config, config.seed, context.env)
    with ExitStack() as cleanup:
        cleanup.enter_context(close_on_error(env, context.env))
        require_actions(config, env.actions)
        hindsight = _make_hindsight(config, env, make_env, cleanup)
        return _build(config, context, build_learner, env, hindsight, sampler or ReplaySampler, actor)


def _build(
    config: RunConfig,
    context: BuildContext,
    build_learner: OffPolicyBuilder,
    env: VectorEnv,
    hindsight: HindsightRelabeler | None,
    sampler: type[ReplaySampler],
    actor_class: type[BaseActor[Any]] | None,
) -> RunComponents:
    """Build exploration, source, learner, actor and evaluator for the environments."""
    algo, env_config = cast(OffPolicyConfig, config.algo), config.env
    observations = with_critic_parts(env.observations, env_config)
    encoder_spec = (
        EncoderSpec(observations.input_dim)  # networks of the user encode images themselves
        if algo.has_custom_policy
        else make_encoder_spec(algo, observations, env_config.id)
    )
    replay_sampler = _make_replay_sampler(config, sampler, env, hindsight, context, encoder_spec.cost)
    _require_network_memory(algo, env, encoder_spec)
    selector = BackendSelector(algo.backend, config, context.saved_backend)
    components = build_learner(env, encoder_spec, selector)
    encoder_spec.require_used(components.policy, algo.name)
    _require_own_networks(components.policy, algo)
    is_native = isinstance(components.policy, LazyTorchModule)
    replay_sampler.returns_arrays = is_native
    normalize_rule = env_config.normalize_rule
    obs_normalizer = (
        observation_normalizer(env.observations, normalize_rule) if env_config.normalize_obs else None
    )
    normalizer_args = (env.n_envs, algo.gamma, algo.n_step, normalize_rule)
    reward_normalizer = RewardNormalizer(*normalizer_args) if env_config.normalize_reward else None
    update_schedule = UpdateSchedule(algo.learning_starts, algo.train_freq, algo.gradient_steps_between)
    normalizers = (obs_normalizer, reward_normalizer, components.actions)
    source_args = (
        env,
        replay_sampler,
        components.exploration,
        update_schedule,
        *normalizers,
        _exploring_context(components.policy),
    )
    source = (  # a call into Rust that also draws does not know another sampler
        NativeReplaySource(components.learner, *source_args)
        if sampler is ReplaySampler
        and isinstance(components.learner, FusedReplayLearner)
        and isinstance(components.exploration, NativeExplorationPolicy)
        else ReplaySource(*source_args)
    )
    actions = components.actions or env.actions
    default_actor: type[BaseActor[Any]] = NativeActor if is_native else Actor
    actor = (actor_class or default_actor)(
        components.policy, observations, actions, obs_normalizer, context.device_name
    )
    evaluator = Evaluator(actor, EvalEnvFactory(env_config, context.env), config.eval, env)
    return RunComponents(
        source, components.learner, actor, evaluator, encoder_spec.descriptions, selector.backend
    )


def _require_network_memory(algo: OffPolicyConfig, env: VectorEnv, encoder_spec: EncoderSpec) -> None:
    """Raise `ConfigError` if the configured networks, which are not the user's, exceed the memory."""
    if algo.has_custom_policy:
        return
    # the target network has no gradient and no moments
    networks = algo.layer_widths(encoder_spec.features, env.actions.size, env.actions.is_discrete)
    encoder_parameters = encoder_spec.cost.parameters * algo.n_encoders
    require_networks(*networks, copies=COPIES_PER_PARAMETER + 2, extra_parameters=encoder_parameters)


def _require_own_networks(policy: Any, algo: OffPolicyConfig) -> None:
    """Raise `ConfigError` if an algorithm of a plugin ignores `algo.policy`, which its fields include."""
    if not algo.has_custom_policy:
        return
    from rlox.policies.own_networks import OwnNetwork

    if not any(isinstance(module, OwnNetwork) for module in policy.modules()):
        raise ConfigError(f"algo.policy: {algo.name} builds networks of its own; leave algo.policy out")


def _exploring_context(policy: Policy | LazyTorchModule) -> Callable[[], AbstractContextManager[None]]:
    """Return a factory of the contexts in which the policy explores: evaluation mode for torch modules."""
    if isinstance(policy, LazyTorchModule):
        return nullcontext
    from rlox.policies.base import evaluation_mode

    return partial(evaluation_mode, policy)


def _make_hindsight(
    config: RunConfig, env: VectorEnv, make_env: EnvFactory, cleanup: ExitStack
) -> HindsightRelabeler | None:
    """Make the goal relabeler if `buffer.hindsight` is set; `cleanup` closes its environment on errors."""
    buffer = config.buffer
    if not isinstance(buffer, UniformConfig) or buffer.hindsight is None:
        return None
    try:
        reward_env = make_env()
    except Exception as error:
        raise EnvError(
            f"buffer.hindsight={buffer.hindsight} needs one more {config.env.id} for rewards, besides the "
            f"{env.n_envs} of training, and making it failed: {error}\n"
            "  If no more instances are possible, leave hindsight out: buffer.hindsight=null."
        ) from error
    cleanup.enter_context(close_on_error(reward_env, None))
    return HindsightRelabeler.of(
        reward_env, env.observations, buffer.hindsight, buffer.hindsight_k, config.env.id
    )


def _make_replay_sampler(
    config: RunConfig,
    sampler: type[ReplaySampler],
    env: VectorEnv,
    hindsight: HindsightRelabeler | None,
    context: BuildContext,
    encoder_cost: EncoderCost,
) -> ReplaySampler:
    """Make the sampler and its buffer; raise `ConfigError` now if the full buffer will not fit in memory."""
    algo, buffer_config = cast(OffPolicyConfig, config.algo), cast(ReplayConfig, config.buffer)
    option_name = "buffer.memory" if buffer_config.memory else "buffer.capacity"

    def require(capacity: int, full: int) -> None:
        if context.fills_buffer:
            require_memory(full, f"a replay buffer of {capacity:,} transitions", option_name)

    packing = None if hindsight else OneHotPacking.of(env.observations)
    make = partial(make_buffer, buffer_config, env, config.seed, hindsight, require)
    buffer, full_bytes = make(packing)
    sizes = (algo.batch_size, algo.n_step, algo.gamma, full_bytes)
    frames = 1 if hindsight else frames_to_share(env.observations)
    make_one_hot_buffer = None if packing is None else make
    replay_sampler = sampler(buffer, buffer_config, *sizes, hindsight, frames, packing, make_one_hot_buffer)
    if context.fills_buffer:
        _require_enough_memory(
            algo, env, replay_sampler, option_name, context.device_name == "cpu", encoder_cost
        )
    return replay_sampler


def _require_enough_memory(
    algo: OffPolicyConfig,
    env: VectorEnv,
    replay_sampler: ReplaySampler,
    option_name: str,
    on_cpu: bool,
    encoder_cost: EncoderCost,
) -> None:
    """Raise `ConfigError` if the full buffer and the batches drawn at once will not fit.

    A batch needs memory for its rows and, while the CPU learns from it, for the activations of the networks.
    """
    batches = _max_batches_alive(algo, env.n_envs, replay_sampler.batches_at_once or MAX_TICK_BATCHES)
    draw_text = f"{batches} x {algo.batch_size:,} transitions drawn at once"
    if batches * algo.batch_size > MAX_SAMPLED_ROWS:
        raise ConfigError(
            f"algo.batch_size={algo.batch_size}: {draw_text}, expected at most {MAX_SAMPLED_ROWS:,}; "
            f"lower it to {MAX_SAMPLED_ROWS // batches} or less"
        )
    row_bytes = batches * sampled_bytes(env, replay_sampler.hindsight is not None)
    image_numbers = (algo.n_encoders + 1) * (
        encoder_cost.saved_activations + encoder_cost.peak_activations
    )  # including the target network's
    activation_bytes = 4 * (algo.activation_count(env.actions.size) + image_numbers)
    if not on_cpu:
        activation_bytes = 0
    require_memory(
        replay_sampler.full_bytes + algo.batch_size * (row_bytes + activation_bytes),
        f"a replay buffer with {draw_text}",
        f"algo.batch_size or {option_name}",
    )


def _max_batches_alive(algo: OffPolicyConfig, n_envs: int, batches_per_draw: int) -> int:
    """Return how many batches are in memory at the same time: a full draw, and a training's last draw."""
    n_trainings = -(-n_envs // algo.train_freq)  # in one step of all environments
    n_due = algo.gradient_steps_between(0, n_trainings * algo.train_freq)
    n_due += algo.replay_ratio is not None  # a fractional batch carried over from before
    return n_due if n_due <= batches_per_draw else batches_per_draw + n_due % batches_per_draw
