"""Soft actor-critic's update in Rust: one call learns from all batches of a training."""

from __future__ import annotations

import math
from collections.abc import Mapping
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
from rlox.algorithms.assembly.off_policy import OffPolicyComponents, ReplayLearnerMixin
from rlox.algorithms.sac.common import METRIC_NAMES, resolve_target_entropy
from rlox.configs import RunConfig, SACConfig
from rlox.envs.actions import UnitCodec
from rlox.envs.base import VectorEnv
from rlox.native.exploration import NativeNoisyExploration
from rlox.native.vector_policies import ContinuousSizes, NativeSquashedPolicy
from rlox.parameters.layout import ParameterVector, copy_into
from rlox.parameters.optimizer import ADAM_MOMENTS, NativeOptimizer, NativeTargetNetwork
from rlox.training.backend import require_native
from rlox.training.components import BuildContext
from rlox.types import Clock, Transitions, Update, build_update

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from rlox.policies.soft import SquashedSACPolicy

__all__ = ["NativeSACLearner", "build_native"]


class NativeSACLearner(ReplayLearnerMixin, NativeReplayLearner):
    """Native counterpart of `SACLearner`: results differ by rounding only; states are interchangeable."""

    config: SACConfig
    learns_repeatedly = True

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
        named = {"actor": self.actor_optimizer, "critic": self.critic_optimizer}
        saved = {**named, "target": self.target, "temperature": self.temperature}
        super().__init__({**named, **self.temperature.optimizers}, {"critic": self.target}, saved)

    def _learn(
        self, engine: OffPolicyEngine | ReplayIteration, batch: Transitions[Any], clock: Clock
    ) -> Update:
        """Update actor, critics, temperature and target once per batch."""
        self._apply_schedules(clock)
        self.native.check()
        config = self.config

        def draw_noise(trainings: int) -> NDArray[np.float32]:
            return stacked_update_noise(self._seed, batch, clock, draws=2, trainings=trainings)

        results, errors = learn_transitions(
            engine,
            batch,
            clock,
            self._optimizers,
            self._targets,
            draw_noise,
            learning_rate=self.actor_optimizer.lr,
            max_grad_norm=config.max_grad_norm,
            tau=config.tau,
            target_update_interval=config.target_update_interval,
            **self.temperature.settings,
        )
        names = ("critic", "actor", "temperature", "q_mean", "entropy", "alpha", "grad_norm")
        own_metrics = self._own_metrics()
        metrics = [
            dict(zip(METRIC_NAMES, (result[name] for name in names), strict=True)) | own_metrics
            for result in results
        ]
        return build_update(batch, metrics[-1], errors, tuple(metrics[:-1]))


class NativeTemperature:
    """The entropy temperature alpha of the native engine.

    It is the counterpart of the classes in `rlox.training.learner`. `alpha` is its value or, if
    `is_learned`, its initial value.
    """

    def __init__(self, is_learned: bool, alpha: float, target_entropy: float, lr: float) -> None:
        self.target_entropy = target_entropy
        self.optimizers: dict[str, NativeOptimizer] = {}  # of log alpha; empty if it is fixed
        if is_learned:
            self.settings = {"target_entropy": target_entropy}  # of the engine
            self._parameters = ParameterVector.zeros([("log", ())])
            self._parameters.vector[0] = math.log(alpha)
            self.optimizers["temperature"] = NativeOptimizer(self._parameters, ADAM_MOMENTS, lr, 1e-8)
        else:
            self.settings = {"alpha": float(np.float32(alpha))}

    def state(self) -> dict[str, Any]:
        """Return copies of log alpha and its optimizer's moments; empty for a fixed temperature."""
        if not self.optimizers:
            return {}
        log = self._parameters.views()["log"].copy()
        return {"log": log, "adam": self.optimizers["temperature"].state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`, also of the torch temperature."""
        if self.optimizers:
            copy_into(self._parameters.views(), {"log": state["log"]})
            self.optimizers["temperature"].restore(state["adam"])


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
    require_native(algo, env.actions, context.device_name, encoder_spec.native_obstacle)

    def make_module() -> SquashedSACPolicy:
        from rlox.algorithms.sac.learner import build_squashed_policy

        return build_squashed_policy(algo, encoder_spec, actions.size)

    native = NativeSquashedPolicy(sizes, config.seed, make_module)
    learner = NativeSACLearner(native, algo, resolve_target_entropy(algo, actions), config.seed)
    return OffPolicyComponents(
        native, NativeNoisyExploration(native, env.n_envs, config.seed), learner, actions
    )
