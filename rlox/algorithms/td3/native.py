"""The updates of TD3 and DDPG in Rust: one call learns from all batches of a training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from rlox._core import OffPolicyEngine, ReplayIteration
from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.native_learners import (
    NativeReplayLearner,
    learn_transitions,
    stacked_update_noise,
)
from rlox.algorithms.assembly.off_policy import OffPolicyComponents
from rlox.algorithms.td3.common import METRIC_NAMES, TD3LearnerMixin, TD3LikeConfig
from rlox.configs import RunConfig
from rlox.configs.td3 import DeterministicConfig
from rlox.envs.actions import UnitCodec
from rlox.envs.base import VectorEnv
from rlox.native.exploration import NativeNoisyExploration
from rlox.native.vector_policies import ContinuousSizes, NativeDeterministicPolicy
from rlox.parameters.optimizer import ADAM_MOMENTS, NativeOptimizer, NativeTargetNetwork
from rlox.training.backend import require_native
from rlox.training.components import BuildContext
from rlox.types import Clock, Transitions, Update, build_update

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from rlox.policies.deterministic import DeterministicPolicy

__all__ = ["NativeTD3Learner", "build_native"]


class NativeTD3Learner(TD3LearnerMixin, NativeReplayLearner):
    """Native counterpart of `TD3Learner`: results differ by rounding only; states are interchangeable."""

    learns_repeatedly = True
    _bc_alpha: float | None = None  # weight of the value loss of TD3+BC

    def __init__(self, native: NativeDeterministicPolicy, config: TD3LikeConfig, seed: int) -> None:
        self.native, self.config, self._seed = native, config, seed
        lr, parts = config.initial("learning_rate"), native.parameter_vectors
        self.actor_optimizer, self.critic_optimizer = (
            NativeOptimizer(parts[name], ADAM_MOMENTS, lr, 1e-8) for name in ("actor", "critic")
        )
        self.target_actor = NativeTargetNetwork(parts["actor"])
        self.target_critic = NativeTargetNetwork(parts["critic"])
        optimizers = {"actor": self.actor_optimizer, "critic": self.critic_optimizer}
        targets = {"actor": self.target_actor, "critic": self.target_critic}
        saved_targets = {"target_actor": self.target_actor, "target_critic": self.target_critic}
        super().__init__(optimizers, targets, {**optimizers, **saved_targets})

    def _learn(
        self, engine: OffPolicyEngine | ReplayIteration, batch: Transitions[Any], clock: Clock
    ) -> Update:
        """Update the critics once per batch, the actor and the targets every `policy_delay` updates."""
        self._apply_schedules(clock)
        self.native.check()
        config, (delay, noise_std, noise_clip) = self.config, self.config.td3_settings

        def draw_noise(trainings: int) -> NDArray[np.float32]:
            return stacked_update_noise(self._seed, batch, clock, trainings=trainings)

        results, errors = learn_transitions(
            engine,
            batch,
            clock,
            self._optimizers,
            self._targets,
            draw_noise if noise_std else None,
            learning_rate=self.actor_optimizer.lr,
            max_grad_norm=config.max_grad_norm,
            tau=config.tau,
            policy_delay=delay,
            target_noise=noise_std,
            noise_clip=noise_clip,
            alpha=self._bc_alpha,
        )
        metrics = []
        for result in results:
            self.actor_loss = result.get("actor", self.actor_loss)
            values = result["critic"], result["q_mean"], result["grad_norm"]
            metrics.append(dict(zip(METRIC_NAMES, values, strict=True)) | self._own_metrics())
        return build_update(batch, metrics[-1], errors, tuple(metrics[:-1]))


def build_native(
    config: RunConfig,
    context: BuildContext,
    env: VectorEnv,
    encoder_spec: EncoderSpec,
    actions: UnitCodec,
    sizes: ContinuousSizes,
) -> OffPolicyComponents:
    """Build policy, exploration and learner; raise `NativeUnsupportedError` for networks that need torch."""
    algo = cast(DeterministicConfig, config.algo)
    require_native(algo, env.actions, context.device_name, encoder_spec.native_obstacle)

    def make_module() -> DeterministicPolicy:
        from rlox.algorithms.td3.learner import build_policy

        return build_policy(algo, encoder_spec, actions.size)

    native = NativeDeterministicPolicy(sizes, config.seed, make_module, algo.exploration_noise)
    learner = NativeTD3Learner(native, algo, config.seed)
    return OffPolicyComponents(
        native, NativeNoisyExploration(native, env.n_envs, config.seed), learner, actions
    )
