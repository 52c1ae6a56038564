"""Behavioural cloning in Rust."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from rlox.algorithms.assembly.encoding import EncoderSpec
from rlox.algorithms.assembly.native_learners import NativeLearner, learn_transitions
from rlox.configs import BCConfig, RunConfig
from rlox.envs.actions import ActionCodec
from rlox.native.offline_policies import NativeBCPolicy
from rlox.parameters.optimizer import ADAM_MOMENTS, NativeOptimizer
from rlox.training.backend import require_native
from rlox.training.components import BuildContext
from rlox.types import Clock, Transitions, Update

__all__ = ["NativeBCLearner", "build_native_bc"]


class NativeBCLearner(NativeLearner):
    """Native counterpart of `BCLearner`: results differ by rounding only; states are interchangeable."""

    native: NativeBCPolicy

    def __init__(self, native: NativeBCPolicy, config: BCConfig) -> None:
        lr = config.initial("learning_rate")
        super().__init__(native, NativeOptimizer(native.parameter_vectors[""], ADAM_MOMENTS, lr, 1e-8))
        self.config = config
        fit_name = "policy/accuracy" if native.is_discrete else "policy/error"
        self.metric_names = ("loss/policy", fit_name, "train/grad_norm")

    def update(self, batch: Transitions[Any], clock: Clock) -> Update:
        """Take one gradient step for each batch."""
        config, optimizer = self.config, self.optimizer
        optimizer.lr = config.at("learning_rate", clock.remaining)
        self.native.check()
        if self.native.is_discrete:
            batch = replace(batch, actions=batch.actions.reshape(batch.rewards.shape).long())
        (result,), _ = learn_transitions(
            self.native.engine,
            batch,
            clock,
            {"policy": optimizer},
            {},
            learning_rate=optimizer.lr,
            max_grad_norm=config.max_grad_norm,
            squared=config.loss == "mse",
        )
        values = (result[name] for name in ("loss", "fit", "grad_norm"))
        metrics = dict(zip(self.metric_names, values, strict=True))
        metrics["train/learning_rate"] = optimizer.lr
        return Update(metrics, len(batch), batch.rewards.numel())


def build_native_bc(
    config: RunConfig, context: BuildContext, encoder_spec: EncoderSpec, actions: ActionCodec
) -> tuple[NativeBCPolicy, NativeBCLearner]:
    """Build BC's policy and learner; raise `NativeUnsupportedError` for networks that need torch."""
    algo = cast(BCConfig, config.algo)
    require_native(algo, actions, context.device_name, encoder_spec.native_obstacle)

    def make_module() -> Any:
        from rlox.algorithms.bc.learner import build_actor

        return build_actor(algo, encoder_spec.features, actions)

    policy_args = (actions.is_discrete, actions.size, encoder_spec.features, algo.net_arch, algo.activation)
    native = NativeBCPolicy(*policy_args, config.seed, make_module)
    return native, NativeBCLearner(native, algo)
