"""What off-policy algorithms have in common: transitions replayed from a buffer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch

from rlox.configs import ReplayConfig, RunConfig, UniformConfig
from rlox.configs.off_policy import OffPolicyConfig
from rlox.envs.base import VectorEnv
from rlox.envs.gym_vec import EnvFactory
from rlox.envs.make import make_vec, single_factory
from rlox.envs.normalize import ObservationNormalizer, RewardNormalizer
from rlox.errors import ConfigError
from rlox.policies.base import Policy
from rlox.runs.preflight import require_memory
from rlox.sources.goals import Goals
from rlox.sources.memory import Memory, make_buffer
from rlox.sources.replay import Behaviour, Cadence, ReplaySource
from rlox.training.actor import Actor
from rlox.training.evaluate import Evaluator
from rlox.training.loop import Learner
from rlox.training.parts import Parts, Tools
from rlox.training.setup import torch_threads
from rlox.types import Transitions

__all__ = ["OffPolicy", "off_policy_parts"]


@dataclass(frozen=True)
class OffPolicy:
    """What an off-policy algorithm adds: who acts, who explores, who learns."""

    policy: Policy
    behaviour: Behaviour
    learner: Learner[Transitions]


def off_policy_parts(
    config: RunConfig, tools: Tools, compose: Callable[[VectorEnv, torch.device], OffPolicy]
) -> Parts:
    """Replayed transitions, from `config.buffer`, for what `compose` makes of the environment."""
    if tools.policy is not None:
        raise ConfigError(f"{config.algo.name} takes no policy of your own")
    algo, env_config = cast(OffPolicyConfig, config.algo), config.env
    filmed = single_factory(env_config, tools.env, "rgb_array")
    make_env = single_factory(env_config, tools.env)
    env = make_vec(env_config, config.seed, tools.env)
    goals = _goals(config, env, make_env)
    memory = _memory(config, algo, env, goals, tools.replay)
    with tools.streams.default("init"), torch_threads(config.torch_threads):
        made = compose(env, tools.device)
    dim = env.observations.dim
    obs_normalizer = ObservationNormalizer(dim) if env_config.normalize_obs else None
    rewards = RewardNormalizer(env.n_envs, algo.gamma) if env_config.normalize_reward else None
    cadence = Cadence(algo.learning_starts, algo.train_freq, algo.gradient_steps_between)
    source = ReplaySource(env, memory, made.behaviour, cadence, obs_normalizer, rewards)
    actor = Actor(made.policy, env.observations, env.actions, obs_normalizer, tools.device)
    return Parts(source, made.learner, actor, Evaluator(actor, make_env, filmed))


def _goals(config: RunConfig, env: VectorEnv, make_env: EnvFactory) -> Goals | None:
    """What relabels goals, where that is asked for."""
    buffer = config.buffer
    if not isinstance(buffer, UniformConfig) or buffer.hindsight is None:
        return None
    judge = make_env()
    return Goals.of(judge, env.observations, buffer.hindsight, buffer.hindsight_k, config.env.id)


def _memory(
    config: RunConfig, algo: OffPolicyConfig, env: VectorEnv, goals: Goals | None, filled: bool
) -> Memory:
    """The buffer, refused before hours of training end in a kill if it will not fit."""
    buffer_config = cast(ReplayConfig, config.buffer)
    buffer, full_bytes = make_buffer(buffer_config, env, config.seed, goals)
    if filled:
        require_memory(
            full_bytes,
            f"a replay buffer of {buffer.capacity:,} transitions",
            "buffer.capacity or buffer.memory",
        )
    sizes = (algo.batch_size, algo.n_step, algo.gamma, full_bytes)
    return Memory(buffer, buffer_config, *sizes, goals)
