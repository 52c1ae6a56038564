"""The updates of TD3 and DDPG in Rust: one call learns from all batches of a training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import numpy as np

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.native_learners import NativeReplayLearner, batch_columns
from rlox.algorithms.assembly.off_policy import OffPolicyComponents
from rlox.algorithms.td3.common import METRIC_NAMES, TD3LearnerMixin, TD3LikeConfig
from rlox.configs import RunConfig
from rlox.configs.td3 import DeterministicConfig
from rlox.envs.actions import UnitCodec
from rlox.envs.base import VectorEnv
from rlox.native.exploration import NativeNoisyExploration
from rlox.native.vector_policies import ContinuousSizes, NativeDeterministicPolicy
from rlox.parameters.engine import adam_vectors, label_errors
from rlox.parameters.optimizer import ADAM_MOMENTS, NativeOptimizer, NativeTargetNetwork
from rlox.rng import update_noise
from rlox.training.backend import require_native
from rlox.training.components import BuildContext
from rlox.types import Clock, Transitions, Update, build_update, update_label

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from rlox.policies.deterministic import DeterministicPolicy

__all__ = ["NativeTD3Learner", "build_native"]


class NativeTD3Learner(TD3LearnerMixin, NativeReplayLearner):
    """Native counterpart of `TD3Learner`: results differ by rounding only; states are interchangeable."""

    _extra_settings: Mapping[str, float] = {}  # additional settings of subclasses

    def __init__(self, native: NativeDeterministicPolicy, config: TD3LikeConfig, seed: int) -> None:
        self.native, self.config, self._seed = native, config, seed
        lr, parts = config.initial("learning_rate"), native.parameter_vectors
        self.actor_optimizer, self.critic_optimizer = (
            NativeOptimizer(parts[name], ADAM_MOMENTS, lr, 1e-8) for name in ("actor", "critic")
        )
        self.target_actor = NativeTargetNetwork(parts["actor"])
        self.target_critic = NativeTargetNetwork(parts["critic"])
        targets = {"target_actor": self.target_actor, "target_critic": self.target_critic}
        named = {"actor": self.actor_optimizer, "critic": self.critic_optimizer, **targets}
        super().__init__(native, named, list(targets.values()))

    def update(self, batch: Transitions, clock: Clock) -> Update:
        """Update the critics once per batch, the actor and the targets every `policy_delay` updates."""
        self._apply_schedules(clock)
        return self._add_metrics(self._learn(batch, clock.updates, update_label(batch, clock)))

    def _learn(self, batch: Transitions, first_update: int, label: str) -> Update:
        config, (delay, noise_std, noise_clip) = self.config, self.config.td3_settings
        self.native.check()
        errors = np.empty(batch.rewards.shape, np.float32)
        update_numbers = range(first_update, first_update + len(batch)) if noise_std else ()
        noise = [update_noise(self._seed, i, batch.actions.shape[1:]) for i in update_numbers]
        with (
            label_errors(label),
            adam_vectors(self.actor_optimizer) as actor,
            adam_vectors(self.critic_optimizer) as critic,
        ):
            result = self.native.update_engine.learn(
                actor,
                critic,
                self.target_actor.vector,
                self.target_critic.vector,
                *batch_columns(batch),
                errors,
                np.stack(noise) if noise else None,
                None if batch.weights is None else np.asarray(batch.weights),
                first=first_update,
                learning_rate=self.actor_optimizer.lr,
                tau=config.tau,
                policy_delay=delay,
                target_noise=noise_std,
                noise_clip=noise_clip,
                max_grad_norm=config.max_grad_norm,
                adam_eps=self.critic_optimizer.eps,
                **self._extra_settings,
            )
        self.actor_loss = result.get("actor", self.actor_loss)
        values = result["critic"], result["q_mean"], result["grad_norm"]
        return build_update(batch, dict(zip(METRIC_NAMES, values, strict=True)), errors)


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
    require_native(algo, env.actions, context.device_name, encoder_spec.make_encoder is not None)

    def make_module() -> DeterministicPolicy:
        from rlox.algorithms.td3.learner import build_policy

        return build_policy(algo, encoder_spec.features, actions.size)

    native = NativeDeterministicPolicy(sizes, config.seed, make_module, algo.exploration_noise)
    learner = NativeTD3Learner(native, algo, config.seed)
    return OffPolicyComponents(
        native, NativeNoisyExploration(native, env.n_envs, config.seed), learner, actions
    )
