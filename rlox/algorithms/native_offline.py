"""Updates of offline algorithms in Rust: TD3+BC, implicit Q-learning, behavioural cloning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rlox.algorithms import iql_schedule
from rlox.algorithms.encoding import EncoderSpec
from rlox.algorithms.native_replay import NativeReplayLearner, batch_columns
from rlox.algorithms.native_td3 import NativeTD3Learner
from rlox.configs import BCConfig, IQLConfig, RunConfig, TD3BCConfig
from rlox.envs.actions import ActionCodec
from rlox.optim.native import ADAM_MOMENTS, NativeOptimizer, NativeTargetNetwork
from rlox.policies.engine import adam_vectors, label_errors
from rlox.policies.native_offline import NativeBCPolicy, NativeIQLPolicy
from rlox.policies.native_vectors import ContinuousSizes, NativeDeterministicPolicy
from rlox.training.components import BuildContext
from rlox.training.native_fields import require_native
from rlox.training.replay_update import build_update, update_label
from rlox.types import Clock, Transitions, Update

if TYPE_CHECKING:
    from rlox.policies.deterministic import DeterministicPolicy
    from rlox.policies.implicit import IQLPolicy

__all__ = [
    "NativeBCLearner",
    "NativeIQLLearner",
    "NativeTD3BCLearner",
    "build_native_bc",
    "build_native_iql",
    "build_native_td3_bc",
    "network_sizes",
]


class NativeTD3BCLearner(NativeTD3Learner):
    """Native counterpart of `TD3BCLearner`: results differ by rounding only; states are interchangeable."""

    def __init__(self, native: NativeDeterministicPolicy, config: TD3BCConfig, seed: int) -> None:
        super().__init__(native, config, seed)
        self._extra_settings = {"alpha": config.alpha}


class NativeIQLLearner(iql_schedule.IQLLearnerMixin, NativeReplayLearner):
    """Native counterpart of `IQLLearner`: results differ by rounding only; states are interchangeable."""

    def __init__(self, native: NativeIQLPolicy, config: IQLConfig) -> None:
        self.native, self.config = native, config
        lr, parts = config.initial("learning_rate"), native.parameter_vectors
        self.actor_optimizer, self.critic_optimizer, self.value_optimizer = (
            NativeOptimizer(parts[name], ADAM_MOMENTS, lr, 1e-8) for name in ("actor", "critic", "value")
        )
        self.target = NativeTargetNetwork(parts["critic"])
        named = {
            "actor": self.actor_optimizer,
            "critic": self.critic_optimizer,
            "value": self.value_optimizer,
        }
        super().__init__(native, {**named, "target": self.target}, [self.target])

    def update(self, batch: Transitions, clock: Clock) -> Update:
        """Update value network, actor, critics and target once per batch."""
        self._apply_schedules(clock)
        self.native.check()
        config, errors = self.config, np.empty(batch.rewards.shape, np.float32)
        adam_contexts = (
            adam_vectors(self.actor_optimizer),
            adam_vectors(self.critic_optimizer),
            adam_vectors(self.value_optimizer),
        )
        with (
            label_errors(update_label(batch, clock)),
            adam_contexts[0] as actor,
            adam_contexts[1] as critic,
            adam_contexts[2] as value,
        ):
            result = self.native.engine.learn(
                actor,
                critic,
                value,
                self.target.vector,
                *batch_columns(batch),
                errors,
                learning_rate=self.critic_optimizer.lr,
                actor_learning_rate=self.actor_optimizer.lr,
                tau=config.tau,
                expectile=config.expectile,
                temperature=config.temperature,
                max_weight=config.max_weight,
                max_grad_norm=config.max_grad_norm,
                adam_eps=self.critic_optimizer.eps,
            )
        names = ("critic", "value", "actor", "q_mean", "v_mean", "weight", "grad_norm")
        values = (result[name] for name in names)
        return self._add_metrics(
            build_update(batch, dict(zip(iql_schedule.METRIC_NAMES, values, strict=True)), errors)
        )


class NativeBCLearner:
    """Native counterpart of `BCLearner`: results differ by rounding only; states are interchangeable."""

    def __init__(self, native: NativeBCPolicy, config: BCConfig) -> None:
        self.native, self.config = native, config
        lr = config.initial("learning_rate")
        self.optimizer = NativeOptimizer(native.parameter_vectors[""], ADAM_MOMENTS, lr, 1e-8)
        fit_name = "policy/accuracy" if native.is_discrete else "policy/error"
        self.metric_names = ("loss/policy", fit_name, "train/grad_norm")

    @property
    def policy(self) -> Any:
        """The policy as a torch module that shares the parameters' memory."""
        return self.native.module

    def update(self, batch: Transitions, clock: Clock) -> Update:
        """Take one gradient step for each batch."""
        config, label = self.config, f"update {clock.updates}"
        self.optimizer.lr = config.at("learning_rate", clock.remaining)
        self.native.check()
        actions = np.asarray(batch.actions)
        if self.native.is_discrete:
            actions = actions.reshape(batch.rewards.shape).astype(np.int64)
        with label_errors(label), adam_vectors(self.optimizer) as policy:
            result = self.native.engine.learn(
                policy,
                np.asarray(batch.obs),
                actions,
                learning_rate=self.optimizer.lr,
                squared=config.loss == "mse",
                max_grad_norm=config.max_grad_norm,
                adam_eps=self.optimizer.eps,
            )
        values = (result[name] for name in ("loss", "fit", "grad_norm"))
        metrics = dict(zip(self.metric_names, values, strict=True))
        metrics["train/learning_rate"] = self.optimizer.lr
        return Update(metrics, len(batch), batch.rewards.numel())

    def state(self) -> dict[str, Any]:
        """Return copies of the weights, and the state of the optimizer."""
        return {"weights": self.native.weights(), "optimizer": self.optimizer.state()}

    def load_initial_weights(self, weights: Mapping[str, Any]) -> None:
        """Replace the initial weights by these."""
        self.native.load_state_dict(weights)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self.native.load_state_dict(state["weights"])
        self.optimizer.restore(state["optimizer"])


def network_sizes(
    algo: TD3BCConfig | IQLConfig, encoder_spec: EncoderSpec, actions: ActionCodec
) -> ContinuousSizes:
    """Return the layer sizes of the actor and its critics."""
    shapes = (algo.n_critics, *algo.hidden_widths, algo.activation)
    return ContinuousSizes(encoder_spec.features, actions.size, actions.size, *shapes)


def build_native_td3_bc(
    config: RunConfig,
    context: BuildContext,
    encoder_spec: EncoderSpec,
    actions: ActionCodec,
    sizes: ContinuousSizes,
) -> tuple[NativeDeterministicPolicy, NativeTD3BCLearner]:
    """Build TD3+BC's policy and learner; `NativeUnsupportedError` for networks that need torch."""
    algo = cast(TD3BCConfig, config.algo)
    require_native(algo, actions, context.device_name, encoder_spec.make_encoder is not None)

    def make_module() -> DeterministicPolicy:
        from rlox.algorithms.torch_td3 import build_policy

        return build_policy(algo, encoder_spec.features, sizes.size)

    native = NativeDeterministicPolicy(sizes, config.seed, make_module, 0.0)
    return native, NativeTD3BCLearner(native, algo, config.seed)


def build_native_iql(
    config: RunConfig,
    context: BuildContext,
    encoder_spec: EncoderSpec,
    actions: ActionCodec,
    sizes: ContinuousSizes,
) -> tuple[NativeIQLPolicy, NativeIQLLearner]:
    """Build IQL's policy and learner; `NativeUnsupportedError` for networks that need torch."""
    algo = cast(IQLConfig, config.algo)
    require_native(algo, actions, context.device_name, encoder_spec.make_encoder is not None)

    def make_module() -> IQLPolicy:
        from rlox.algorithms.torch_iql import build_policy

        return build_policy(algo, encoder_spec.features, sizes.size)

    native = NativeIQLPolicy(sizes, config.seed, make_module)
    return native, NativeIQLLearner(native, algo)


def build_native_bc(
    config: RunConfig, context: BuildContext, encoder_spec: EncoderSpec, actions: ActionCodec
) -> tuple[NativeBCPolicy, NativeBCLearner]:
    """Build BC's policy and learner; `NativeUnsupportedError` for networks that need torch."""
    algo = cast(BCConfig, config.algo)
    require_native(algo, actions, context.device_name, encoder_spec.make_encoder is not None)

    def make_module() -> Any:
        from rlox.algorithms.torch_bc import build_actor

        return build_actor(algo, encoder_spec.features, actions)

    policy_args = (actions.is_discrete, actions.size, encoder_spec.features, algo.net_arch, algo.activation)
    native = NativeBCPolicy(*policy_args, config.seed, make_module)
    return native, NativeBCLearner(native, algo)
