"""TD3's update in Rust, and DDPG's: all batches of a training in one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import numpy as np

from rlox.algorithms.encoding import Encoding
from rlox.algorithms.native_replay import NativeReplayLearner, columns
from rlox.algorithms.off_policy import OffPolicy
from rlox.algorithms.td3_schedule import NAMES, Deterministic, Scheduled
from rlox.configs import RunConfig
from rlox.configs.td3 import DeterministicConfig
from rlox.envs.actions import UnitCodec
from rlox.envs.base import VectorEnv
from rlox.optim.native import ADAM, NativeOptimizer, NativeTarget
from rlox.policies.engine import stepped, told_where
from rlox.policies.native_exploring import NativeExploration
from rlox.policies.native_vectors import NativeDeterministic, VectorSizes
from rlox.training.learned import learned, update_noise, where
from rlox.training.native_fields import require_native
from rlox.training.parts import Tools
from rlox.types import Clock, Transitions, Update

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from rlox.policies.deterministic import DeterministicPolicy

__all__ = ["NativeTD3Learner", "composed"]


class NativeTD3Learner(Scheduled, NativeReplayLearner):
    """Differs from `TD3Learner` by rounding only, and has a state that each can go on from."""

    _more: Mapping[str, float] = {}  # settings of algorithms that it is a part of

    def __init__(self, native: NativeDeterministic, config: Deterministic, seed: int) -> None:
        self.native, self.config, self._seed = native, config, seed
        lr, parts = config.initial("learning_rate"), native.parts
        self.actor, self.critic = (
            NativeOptimizer(parts[name], ADAM, lr, 1e-8) for name in ("actor", "critic")
        )
        self.target_actor = NativeTarget(parts["actor"])
        self.target_critic = NativeTarget(parts["critic"])
        targets = {"target_actor": self.target_actor, "target_critic": self.target_critic}
        named = {"actor": self.actor, "critic": self.critic, **targets}
        super().__init__(native, named, list(targets.values()))

    def update(self, batch: Transitions, clock: Clock) -> Update:
        """One step of the critics for each batch; of the actor and the targets every `policy_delay`."""
        self._schedule(clock)
        return self._told(self._learn(batch, clock.updates, where(batch, clock)))

    def _learn(self, batch: Transitions, number: int, at: str) -> Update:
        config, (delay, deviation, limit) = self.config, self.config.delays
        self.native.check()
        errors = np.empty(batch.rewards.shape, np.float32)
        numbers = range(number, number + len(batch)) if deviation else ()
        noise = [update_noise(self._seed, i, batch.actions.shape[1:]) for i in numbers]
        with told_where(at), stepped(self.actor) as actor, stepped(self.critic) as critic:
            told = self.native.learns.learn(
                actor,
                critic,
                self.target_actor.vector,
                self.target_critic.vector,
                *columns(batch),
                errors,
                np.stack(noise) if noise else None,
                None if batch.weights is None else np.asarray(batch.weights),
                first=number,
                learning_rate=self.actor.lr,
                tau=config.tau,
                policy_delay=delay,
                target_noise=deviation,
                noise_clip=limit,
                max_grad_norm=config.max_grad_norm,
                adam_eps=self.critic.eps,
                **self._more,
            )
        self.actor_loss = told.get("actor", self.actor_loss)
        found = told["critic"], told["q_mean"], told["grad_norm"]
        return learned(batch, dict(zip(NAMES, found, strict=True)), errors)


def composed(
    config: RunConfig,
    tools: Tools,
    env: VectorEnv,
    encoding: Encoding,
    actions: UnitCodec,
    sizes: VectorSizes,
) -> OffPolicy:
    """What learns, explores and acts; `NativeRefused` for networks that only torch learns."""
    algo = cast(DeterministicConfig, config.algo)
    require_native(algo, env.actions, tools.device_name, encoding.make is not None)

    def module() -> DeterministicPolicy:
        from rlox.algorithms.torch_td3 import described

        return described(algo, encoding.features, actions.size)

    native = NativeDeterministic(sizes, config.seed, module, algo.exploration_noise)
    learner = NativeTD3Learner(native, algo, config.seed)
    return OffPolicy(native, NativeExploration(native, env.n_envs, config.seed), learner, actions)
