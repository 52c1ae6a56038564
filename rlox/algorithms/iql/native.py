"""Implicit Q-learning's update in Rust."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from rlox._core import OffPolicyEngine, ReplayIteration
from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.native_learners import NativeReplayLearner, learn_transitions
from rlox.algorithms.iql.common import METRIC_NAMES, IQLLearnerMixin
from rlox.configs import IQLConfig, RunConfig
from rlox.envs.actions import ActionCodec
from rlox.native.offline_policies import NativeIQLPolicy
from rlox.native.vector_policies import ContinuousSizes
from rlox.parameters.optimizer import ADAM_MOMENTS, NativeOptimizer, NativeTargetNetwork
from rlox.training.backend import require_native
from rlox.training.components import BuildContext
from rlox.types import Clock, Transitions, Update, build_update

if TYPE_CHECKING:
    from rlox.policies.implicit import IQLPolicy

__all__ = ["NativeIQLLearner", "build_native_iql"]


class NativeIQLLearner(IQLLearnerMixin, NativeReplayLearner):
    """Native counterpart of `IQLLearner`: results differ by rounding only; states are interchangeable."""

    def __init__(self, native: NativeIQLPolicy, config: IQLConfig) -> None:
        self.native, self.config = native, config
        lr, parts = config.initial("learning_rate"), native.parameter_vectors
        self.actor_optimizer, self.critic_optimizer, self.value_optimizer = (
            NativeOptimizer(parts[name], ADAM_MOMENTS, lr, 1e-8) for name in ("actor", "critic", "value")
        )
        self.target = NativeTargetNetwork(parts["critic"])
        optimizers = {
            "actor": self.actor_optimizer,
            "critic": self.critic_optimizer,
            "value": self.value_optimizer,
        }
        super().__init__(optimizers, {"critic": self.target}, {**optimizers, "target": self.target})

    def _learn(
        self, engine: OffPolicyEngine | ReplayIteration, batch: Transitions[Any], clock: Clock
    ) -> Update:
        """Update value network, actor, critics and target once per batch."""
        self._apply_schedules(clock)
        self.native.check()
        config = self.config
        (result,), errors = learn_transitions(
            engine,
            batch,
            clock,
            self._optimizers,
            self._targets,
            learning_rate=self.critic_optimizer.lr,
            actor_learning_rate=self.actor_optimizer.lr,
            max_grad_norm=config.max_grad_norm,
            tau=config.tau,
            expectile=config.expectile,
            temperature=config.temperature,
            max_weight=config.max_weight,
        )
        names = ("critic", "value", "actor", "q_mean", "v_mean", "weight", "grad_norm")
        values = (result[name] for name in names)
        metrics = dict(zip(METRIC_NAMES, values, strict=True)) | self._own_metrics()
        return build_update(batch, metrics, errors)


def build_native_iql(
    config: RunConfig,
    context: BuildContext,
    encoder_spec: EncoderSpec,
    actions: ActionCodec,
    sizes: ContinuousSizes,
) -> tuple[NativeIQLPolicy, NativeIQLLearner]:
    """Build IQL's policy and learner; raise `NativeUnsupportedError` for networks that need torch."""
    algo = cast(IQLConfig, config.algo)
    require_native(algo, actions, context.device_name, encoder_spec.native_obstacle)

    def make_module() -> IQLPolicy:
        from rlox.algorithms.iql.learner import build_policy

        return build_policy(algo, encoder_spec.features, sizes.size)

    native = NativeIQLPolicy(sizes, config.seed, make_module)
    return native, NativeIQLLearner(native, algo)
