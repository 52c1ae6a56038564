"""What off-policy algorithms have in common: transitions replayed from a buffer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from rlox.algorithms.encoding import Encoding, encoding_of, require_actions
from rlox.collectors.replay import NativeReplaySource, Replays
from rlox.configs import ReplayConfig, RunConfig, UniformConfig
from rlox.configs.off_policy import OffPolicyConfig
from rlox.envs.actions import UnitCodec
from rlox.envs.base import VectorEnv
from rlox.envs.engines.makers import building
from rlox.envs.gym_vec import EnvFactory
from rlox.envs.make import Stages, make_vec, single_factory
from rlox.envs.normalize import RewardNormalizer, observation_normalizer
from rlox.errors import ConfigError, EnvError
from rlox.parameters.cost import Cost
from rlox.policies.native_exploring import Explores
from rlox.policies.on_demand import OnDemand
from rlox.runs.preflight import LEARNED, require_memory, require_networks
from rlox.sources.goals import Goals
from rlox.sources.memory import MAX_DRAWN, Memory, drawn_bytes, frames_of, make_buffer
from rlox.sources.packed import Packing
from rlox.sources.replay import TICK_BATCHES, Behaviour, Cadence, ReplaySource
from rlox.training.actor import Actor, ActorOf, NativeActor
from rlox.training.backend import Choice
from rlox.training.evaluate import Evaluator
from rlox.training.loop import Learner
from rlox.training.parts import Parts, Tools
from rlox.types import Transitions

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from rlox.policies.base import Policy

__all__ = ["Compose", "OffPolicy", "off_policy_parts"]


@dataclass(frozen=True)
class OffPolicy:
    """What an off-policy algorithm adds: who acts, who explores, who learns.

    `actions` makes the environment's rows of the policy's, where they are not the same.
    """

    policy: Policy | OnDemand
    behaviour: Behaviour
    learner: Learner[Transitions]
    actions: UnitCodec | None = None


# Makes them for environments, of what is made of their observations, with the engine that it chooses.
Compose = Callable[[VectorEnv, Encoding, Choice], OffPolicy]


def off_policy_parts(config: RunConfig, tools: Tools, compose: Compose) -> Parts:
    """Replayed transitions, from `config.buffer`, for what `compose` makes of the environment."""
    if tools.policy is not None:
        raise ConfigError(f"{config.algo.name} takes no policy of your own")
    env_config = config.env
    make_env = single_factory(env_config, tools.env, training=True)  # it judges as training pays
    env = make_vec(env_config, config.seed, tools.env)
    with ExitStack() as unfinished:
        unfinished.enter_context(building(env, tools.env))
        require_actions(config, env.actions)
        goals = _goals(config, env, make_env, unfinished)
        return _parts(config, tools, compose, env, goals)


def _parts(
    config: RunConfig, tools: Tools, compose: Compose, env: VectorEnv, goals: Goals | None
) -> Parts:
    """What explores and learns in environments."""
    algo, env_config = cast(OffPolicyConfig, config.algo), config.env
    encoding = encoding_of(algo, env.observations, env_config.id)
    memory = _memory(config, algo, env, goals, tools, encoding.cost)
    # the target network is neither learned nor has it moments
    networks = algo.networks(encoding.features, env.actions.size, env.actions.discrete)
    more = encoding.cost.parameters * algo.seers
    require_networks(*networks, copies=LEARNED + 2, more=more)
    choice = Choice(algo.backend, config, tools.backend)
    made = compose(env, encoding, choice)
    native = isinstance(made.policy, OnDemand)
    memory.arrays = native
    rule = env_config.normalize_rule
    obs_normalizer = (
        observation_normalizer(env.observations, rule) if env_config.normalize_obs else None
    )
    scales = (env.n_envs, algo.gamma, algo.n_step, rule)
    rewards = RewardNormalizer(*scales) if env_config.normalize_reward else None
    cadence = Cadence(algo.learning_starts, algo.train_freq, algo.gradient_steps_between)
    given = (obs_normalizer, rewards, made.actions)
    parts = (env, memory, made.behaviour, cadence, *given, _acting(made.policy))
    source = (
        NativeReplaySource(made.learner, *parts)
        if isinstance(made.learner, Replays) and isinstance(made.behaviour, Explores)
        else ReplaySource(*parts)
    )
    actions = made.actions or env.actions
    acts: type[ActorOf[Any]] = NativeActor if native else Actor
    actor = acts(made.policy, env.observations, actions, obs_normalizer, tools.device_name)
    evaluator = Evaluator(actor, Stages(env_config, tools.env), config.eval, env)
    return Parts(source, made.learner, actor, evaluator, encoding.said, choice.made)


def _acting(policy: Policy | OnDemand) -> Callable[[], AbstractContextManager[None]]:
    """The blocks in which a policy explores: a module of torch in evaluation mode."""
    if isinstance(policy, OnDemand):
        return nullcontext
    from rlox.policies.base import acting

    return partial(acting, policy)


def _goals(
    config: RunConfig, env: VectorEnv, make_env: EnvFactory, unfinished: ExitStack
) -> Goals | None:
    """What relabels goals, where that is asked for; its environment is closed if the block raises."""
    buffer = config.buffer
    if not isinstance(buffer, UniformConfig) or buffer.hindsight is None:
        return None
    try:
        judge = make_env()
    except Exception as error:
        raise EnvError(
            f"buffer.hindsight={buffer.hindsight} asks one more {config.env.id} for rewards, beside the "
            f"{env.n_envs} of training, and it cannot be made: {error}\n"
            "  Where no more can live, leave hindsight out: buffer.hindsight=null."
        ) from error
    unfinished.enter_context(building(judge, None))
    return Goals.of(judge, env.observations, buffer.hindsight, buffer.hindsight_k, config.env.id)


def _memory(
    config: RunConfig,
    algo: OffPolicyConfig,
    env: VectorEnv,
    goals: Goals | None,
    tools: Tools,
    encoders: Cost,
) -> Memory:
    """The buffer, refused before hours of training end in a kill if it will not fit."""
    buffer_config = cast(ReplayConfig, config.buffer)
    said_by = "buffer.memory" if buffer_config.memory else "buffer.capacity"

    def require(capacity: int, full: int) -> None:
        if tools.replay:
            require_memory(full, f"a replay buffer of {capacity:,} transitions", said_by)

    packing = None if goals else Packing.of(env.observations)
    make = partial(make_buffer, buffer_config, env, config.seed, goals, require)
    buffer, full_bytes = make(packing)
    sizes = (algo.batch_size, algo.n_step, algo.gamma, full_bytes)
    frames = 1 if goals else frames_of(env.observations)
    one_hot = None if packing is None else make
    memory = Memory(buffer, buffer_config, *sizes, goals, frames, packing, one_hot)
    if tools.replay:
        _require_memory(algo, env, memory, said_by, tools.device_name == "cpu", encoders)
    return memory


def _require_memory(
    algo: OffPolicyConfig,
    env: VectorEnv,
    memory: Memory,
    said_by: str,
    on_cpu: bool,
    encoders: Cost,
) -> None:
    """`ConfigError` if the full buffer, or what is drawn from it at once besides, will not fit.

    A batch takes its rows and, while it is learned from on the CPU, the hidden layers of the networks.
    """
    batches = _batches_kept(algo, env.n_envs, memory.batches_at_once or TICK_BATCHES)
    drawn = f"{batches} x {algo.batch_size:,} transitions drawn at once"
    if batches * algo.batch_size > MAX_DRAWN:
        raise ConfigError(
            f"algo.batch_size={algo.batch_size}: {drawn}, expected at most {MAX_DRAWN:,}; "
            f"lower it to {MAX_DRAWN // batches} or less"
        )
    rows = batches * drawn_bytes(env, memory.goals is not None)
    images = (algo.seers + 1) * (encoders.kept + encoders.widest)  # the target's too
    learned = 4 * (algo.learning_numbers(env.actions.size) + images)
    if not on_cpu:
        learned = 0
    require_memory(
        memory.full_bytes + algo.batch_size * (rows + learned),
        f"a replay buffer with {drawn}",
        f"algo.batch_size or {said_by}",
    )


def _batches_kept(algo: OffPolicyConfig, n_envs: int, at_once: int) -> int:
    """Batches that have memory of their own: those of a whole draw and of the last one of a training."""
    trainings = -(-n_envs // algo.train_freq)  # in a step of every environment
    due = algo.gradient_steps_between(0, trainings * algo.train_freq)
    due += algo.replay_ratio is not None  # a part of a batch that was left before
    return due if due <= at_once else at_once + due % at_once
