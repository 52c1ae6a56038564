"""DQN's update in Rust: one call learns from all batches of a training."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from rlox._core import OffPolicyEngine, ReplayIteration
from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.native_learners import NativeReplayLearner, learn_transitions
from rlox.algorithms.assembly.off_policy import OffPolicyComponents
from rlox.algorithms.dqn.common import METRIC_NAMES, DQNLearnerMixin, scheduled_epsilon
from rlox.configs import DQNConfig, RunConfig
from rlox.envs.base import VectorEnv
from rlox.native.exploration import NativeEpsilonGreedy
from rlox.native.q_policy import NativeQPolicy, QSizes
from rlox.parameters.optimizer import ADAM_MOMENTS, NativeOptimizer, NativeTargetNetwork
from rlox.training.backend import require_native
from rlox.training.components import BuildContext
from rlox.types import Clock, Transitions, Update, build_update

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from rlox.policies.q_policy import QPolicy

__all__ = ["NativeDQNLearner", "build_native"]


class NativeDQNLearner(DQNLearnerMixin, NativeReplayLearner):
    """Native counterpart of `DQNLearner`: results differ by rounding only; states are interchangeable."""

    learns_repeatedly = True

    def __init__(self, native: NativeQPolicy, config: DQNConfig) -> None:
        self.native, self.config = native, config
        parameters, lr = native.parameter_vectors[""], config.initial("learning_rate")
        self.optimizer = NativeOptimizer(parameters, ADAM_MOMENTS, lr, config.adam_eps)
        self.target_network: NativeTargetNetwork = NativeTargetNetwork(parameters)
        targets, saved = {"q": self.target_network}, {"adam": self.optimizer, "target": self.target_network}
        super().__init__({"q": self.optimizer}, targets, saved)

    def steps_to_change(self, env_steps: int) -> int:
        """Return also after how many steps the target network is updated."""
        every = self.config.target_update_interval
        return min(super().steps_to_change(env_steps), every - env_steps % every)

    def _learn(
        self, engine: OffPolicyEngine | ReplayIteration, batch: Transitions[Any], clock: Clock
    ) -> Update:
        """Take one step per batch; environment steps decide when the target network is updated."""
        self.native.check()
        self._apply_schedules(batch.env_steps, clock)
        config = self.config
        results, errors = learn_transitions(
            engine,
            batch,
            clock,
            self._optimizers,
            self._targets,
            learning_rate=self.optimizer.lr,
            max_grad_norm=config.max_grad_norm,
            double=config.double_dqn,
            loss=config.loss,
        )
        metrics, steps_between = [], batch.env_steps - clock.env_steps
        for training, result in enumerate(results):
            values = result["loss"], result["q_mean"], result["grad_norm"]
            own_metrics = self._own_metrics(batch.env_steps + training * steps_between, clock)
            metrics.append(dict(zip(METRIC_NAMES, values, strict=True)) | own_metrics)
        return build_update(batch, metrics[-1], errors, tuple(metrics[:-1]))


def build_native(
    config: RunConfig, context: BuildContext, env: VectorEnv, encoder_spec: EncoderSpec, sizes: QSizes
) -> OffPolicyComponents:
    """Build policy, exploration and learner; raise `NativeUnsupportedError` for networks that need torch."""
    algo = cast(DQNConfig, config.algo)
    is_masked = env.observations.mask_dim > 0
    require_native(algo, env.actions, context.device_name, encoder_spec.native_obstacle, is_masked)

    def make_module() -> QPolicy:
        from rlox.algorithms.dqn.learner import build_policy

        return build_policy(algo, env, encoder_spec)

    native = NativeQPolicy(sizes, config.seed, make_module)
    explorer = NativeEpsilonGreedy(native, env.n_envs, partial(scheduled_epsilon, algo), config.seed)
    return OffPolicyComponents(native, explorer, NativeDQNLearner(native, algo))
