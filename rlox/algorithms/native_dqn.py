"""DQN's update in Rust: all batches of a training in one call."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

import numpy as np

from rlox.algorithms.dqn_schedule import NAMES, Scheduled, epsilon
from rlox.algorithms.encoding import Encoding
from rlox.algorithms.native_replay import NativeReplayLearner, columns
from rlox.algorithms.off_policy import OffPolicy
from rlox.configs import DQNConfig, RunConfig
from rlox.envs.base import VectorEnv
from rlox.optim.native import ADAM, NativeOptimizer, NativeTarget
from rlox.policies.engine import counted, told_where
from rlox.policies.native_exploring import NativeGreedy
from rlox.policies.native_q import NativeQ, QSizes
from rlox.training.learned import learned, where
from rlox.training.native_fields import require_native
from rlox.training.parts import Tools
from rlox.types import Clock, Transitions, Update

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from rlox.policies.q import QPolicy

__all__ = ["NativeDQNLearner", "composed"]


class NativeDQNLearner(Scheduled, NativeReplayLearner):
    """Differs from `DQNLearner` by rounding only, and has a state that each can go on from."""

    def __init__(self, native: NativeQ, config: DQNConfig) -> None:
        self.native, self.config = native, config
        part, lr = native.parts[""], config.initial("learning_rate")
        self.optimizer = NativeOptimizer(part, ADAM, lr, config.adam_eps)
        self.follower: NativeTarget = NativeTarget(part)
        super().__init__(native, {"adam": self.optimizer, "target": self.follower}, [self.follower])

    def update(self, batch: Transitions, clock: Clock) -> Update:
        """One step for each batch; the target network follows by the environment steps taken."""
        self.native.check()
        self._schedule(batch.env_steps, clock)
        update = self._learn(batch, where(batch, clock))
        return self._told(update, batch.env_steps, clock)

    def _learn(self, batch: Transitions, update: str) -> Update:
        adam, config = self.optimizer, self.config
        errors = np.empty(batch.rewards.shape, np.float32)
        with told_where(update), counted(adam) as steps:
            told = self.native.learns.learn(
                adam.vector,
                self.follower.vector,
                adam.moment("exp_avg"),
                adam.moment("exp_avg_sq"),
                steps,
                *columns(batch),
                errors,
                None if batch.weights is None else np.asarray(batch.weights),
                learning_rate=adam.lr,
                double=config.double_dqn,
                loss=config.loss,
                max_grad_norm=config.max_grad_norm,
                adam_eps=adam.eps,
            )
        numbers = told["loss"], told["q_mean"], told["grad_norm"]
        return learned(batch, dict(zip(NAMES, numbers, strict=True)), errors)


def composed(
    config: RunConfig, tools: Tools, env: VectorEnv, encoding: Encoding, sizes: QSizes
) -> OffPolicy:
    """What learns, explores and acts; `NativeRefused` for a network that only torch learns."""
    algo = cast(DQNConfig, config.algo)
    masked = env.observations.masked > 0
    require_native(algo, env.actions, tools.device_name, encoding.make is not None, masked)

    def module() -> QPolicy:
        from rlox.algorithms.torch_dqn import described

        return described(algo, env, encoding)

    native = NativeQ(sizes, config.seed, module)
    explorer = NativeGreedy(native, env.n_envs, partial(epsilon, algo), config.seed)
    return OffPolicy(native, explorer, NativeDQNLearner(native, algo))
