"""Soft actor-critic's update in Rust: one call learns from all batches of a training."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.native_learners import NativeReplayLearner, batch_columns
from rlox.algorithms.assembly.off_policy import OffPolicyComponents, ReplayLearnerMixin
from rlox.algorithms.sac.common import METRIC_NAMES, resolve_target_entropy
from rlox.configs import RunConfig, SACConfig
from rlox.envs.actions import UnitCodec
from rlox.envs.base import VectorEnv
from rlox.native.exploration import NativeNoisyExploration
from rlox.native.vector_policies import ContinuousSizes, NativeSquashedPolicy
from rlox.parameters.engine import AdamVectors, adam_vectors, label_errors
from rlox.parameters.layout import ParameterVector, copy_into
from rlox.parameters.optimizer import ADAM_MOMENTS, NativeOptimizer, NativeTargetNetwork
from rlox.rng import update_noise
from rlox.training.backend import require_native
from rlox.training.components import BuildContext
from rlox.types import Clock, Transitions, Update, build_update, update_label

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from rlox.policies.soft import SquashedSACPolicy

__all__ = ["NativeSACLearner", "build_native"]


class NativeSACLearner(ReplayLearnerMixin, NativeReplayLearner):
    """Native counterpart of `SACLearner`: results differ by rounding only; states are interchangeable."""

    config: SACConfig

    def __init__(
        self, native: NativeSquashedPolicy, config: SACConfig, target_entropy: float, seed: int
    ) -> None:
        self.native, self.config, self._seed = native, config, seed
        lr, parts = config.initial("learning_rate"), native.parameter_vectors
        self.actor_optimizer, self.critic_optimizer = (
            NativeOptimizer(parts[name], ADAM_MOMENTS, lr, 1e-8) for name in ("actor", "critic")
        )
        self.target = NativeTargetNetwork(parts["critic"])
        self.temperature = NativeTemperature(*config.temperature, target_entropy, lr)
        named = {"actor": self.actor_optimizer, "critic": self.critic_optimizer, "target": self.target}
        super().__init__(native, {**named, "temperature": self.temperature}, [self.target])

    def update(self, batch: Transitions, clock: Clock) -> Update:
        """Update actor, critics, temperature and target once per batch."""
        self._apply_schedules(clock)
        return self._add_metrics(self._learn(batch, clock.updates, update_label(batch, clock)))

    def _learn(self, batch: Transitions, first_update: int, label: str) -> Update:
        config = self.config
        self.native.check()
        errors = np.empty(batch.rewards.shape, np.float32)
        shape = (2, *batch.actions.shape[1:])
        noise = [update_noise(self._seed, first_update + i, shape) for i in range(len(batch))]
        with ExitStack() as stack:
            stack.enter_context(label_errors(label))
            actor, critic = (
                stack.enter_context(adam_vectors(o)) for o in (self.actor_optimizer, self.critic_optimizer)
            )
            log_alpha, entropy_or_alpha = stack.enter_context(
                self.temperature.engine_arguments(self.actor_optimizer.lr)
            )
            result = self.native.update_engine.learn(
                actor,
                critic,
                self.target.vector,
                *batch_columns(batch),
                errors,
                np.stack(noise),
                None if batch.weights is None else np.asarray(batch.weights),
                log_alpha,
                entropy_or_alpha=entropy_or_alpha,
                first=first_update,
                learning_rate=self.actor_optimizer.lr,
                tau=config.tau,
                target_update_interval=config.target_update_interval,
                max_grad_norm=config.max_grad_norm,
                adam_eps=self.critic_optimizer.eps,
            )
        names = ("critic", "actor", "temperature", "q_mean", "entropy", "alpha", "grad_norm")
        metrics = {name: result[key] for name, key in zip(METRIC_NAMES, names, strict=True)}
        return build_update(batch, metrics, errors)


class NativeTemperature:
    """The entropy temperature alpha of the native engine.

    It is the counterpart of the classes in `rlox.training.learner`. `alpha` is its value or, if
    `is_learned`, its initial value.
    """

    def __init__(self, is_learned: bool, alpha: float, target_entropy: float, lr: float) -> None:
        self._alpha, self.target_entropy = alpha, target_entropy
        self._adam: NativeOptimizer | None = None
        if is_learned:
            self._parameters = ParameterVector.zeros([("log", ())])
            self._parameters.vector[0] = math.log(alpha)
            self._adam = NativeOptimizer(self._parameters, ADAM_MOMENTS, lr, 1e-8)

    @contextmanager
    def engine_arguments(self, lr: float) -> Iterator[tuple[AdamVectors | None, float]]:
        """Yield the engine's arguments: log alpha with the target entropy if learned, else None and alpha."""
        if self._adam is None:
            yield None, float(np.float32(self._alpha))
            return
        self._adam.lr = lr
        with adam_vectors(self._adam) as log:
            yield log, self.target_entropy

    def state(self) -> dict[str, Any]:
        """Return copies of log alpha and its optimizer's moments; empty for a fixed temperature."""
        if self._adam is None:
            return {}
        return {"log": self._parameters.views()["log"].copy(), "adam": self._adam.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`, also of the torch temperature."""
        if self._adam is not None:
            copy_into(self._parameters.views(), {"log": state["log"]})
            self._adam.restore(state["adam"])


def build_native(
    config: RunConfig,
    context: BuildContext,
    env: VectorEnv,
    encoder_spec: EncoderSpec,
    actions: UnitCodec,
    sizes: ContinuousSizes,
) -> OffPolicyComponents:
    """Build policy, exploration and learner; raise `NativeUnsupportedError` for networks that need torch."""
    algo = cast(SACConfig, config.algo)
    require_native(algo, env.actions, context.device_name, encoder_spec.make_encoder is not None)

    def make_module() -> SquashedSACPolicy:
        from rlox.algorithms.sac.learner import build_squashed_policy

        return build_squashed_policy(algo, encoder_spec.features, actions.size)

    native = NativeSquashedPolicy(sizes, config.seed, make_module)
    learner = NativeSACLearner(native, algo, resolve_target_entropy(algo, actions), config.seed)
    return OffPolicyComponents(
        native, NativeNoisyExploration(native, env.n_envs, config.seed), learner, actions
    )
