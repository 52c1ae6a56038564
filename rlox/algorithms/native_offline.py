"""Updates in Rust of what learns from datasets: TD3+BC, implicit Q-learning, behavioural cloning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rlox.algorithms import iql_schedule
from rlox.algorithms.encoding import Encoding
from rlox.algorithms.native_replay import NativeReplayLearner, columns
from rlox.algorithms.native_td3 import NativeTD3Learner
from rlox.configs import BCConfig, IQLConfig, RunConfig, TD3BCConfig
from rlox.envs.actions import ActionCodec
from rlox.optim.native import ADAM, NativeOptimizer, NativeTarget
from rlox.policies.engine import stepped, told_where
from rlox.policies.native_offline import NativeCloned, NativeImplicit
from rlox.policies.native_vectors import NativeDeterministic, VectorSizes
from rlox.training.learned import learned, where
from rlox.training.native_fields import require_native
from rlox.training.parts import Tools
from rlox.types import Clock, Transitions, Update

if TYPE_CHECKING:
    from rlox.policies.deterministic import DeterministicPolicy
    from rlox.policies.implicit import ImplicitPolicy

__all__ = [
    "NativeBCLearner",
    "NativeIQLLearner",
    "NativeTD3BCLearner",
    "bc_composed",
    "iql_composed",
    "sizes_of",
    "td3_bc_composed",
]


class NativeTD3BCLearner(NativeTD3Learner):
    """Differs from `TD3BCLearner` by rounding only, and has a state that each can go on from."""

    def __init__(self, native: NativeDeterministic, config: TD3BCConfig, seed: int) -> None:
        super().__init__(native, config, seed)
        self._more = {"alpha": config.alpha}


class NativeIQLLearner(iql_schedule.Scheduled, NativeReplayLearner):
    """Differs from `IQLLearner` by rounding only, and has a state that each can go on from."""

    def __init__(self, native: NativeImplicit, config: IQLConfig) -> None:
        self.native, self.config = native, config
        lr, parts = config.initial("learning_rate"), native.parts
        self.actor, self.critic, self.value = (
            NativeOptimizer(parts[name], ADAM, lr, 1e-8) for name in ("actor", "critic", "value")
        )
        self.target = NativeTarget(parts["critic"])
        named = {"actor": self.actor, "critic": self.critic, "value": self.value}
        super().__init__(native, {**named, "target": self.target}, [self.target])

    def update(self, batch: Transitions, clock: Clock) -> Update:
        """One step of value, actor, critics and target for each batch."""
        self._schedule(clock)
        self.native.check()
        config, errors = self.config, np.empty(batch.rewards.shape, np.float32)
        steps = stepped(self.actor), stepped(self.critic), stepped(self.value)
        with (
            told_where(where(batch, clock)),
            steps[0] as actor,
            steps[1] as critic,
            steps[2] as value,
        ):
            told = self.native.engine.learn(
                actor,
                critic,
                value,
                self.target.vector,
                *columns(batch),
                errors,
                learning_rate=self.critic.lr,
                actor_learning_rate=self.actor.lr,
                tau=config.tau,
                expectile=config.expectile,
                temperature=config.temperature,
                max_weight=config.max_weight,
                max_grad_norm=config.max_grad_norm,
                adam_eps=self.critic.eps,
            )
        names = ("critic", "value", "actor", "q_mean", "v_mean", "weight", "grad_norm")
        found = (told[name] for name in names)
        return self._told(learned(batch, dict(zip(iql_schedule.NAMES, found, strict=True)), errors))


class NativeBCLearner:
    """Differs from `BCLearner` by rounding only, and has a state that each can go on from."""

    def __init__(self, native: NativeCloned, config: BCConfig) -> None:
        self.native, self.config = native, config
        lr = config.initial("learning_rate")
        self.optimizer = NativeOptimizer(native.parts[""], ADAM, lr, 1e-8)
        fits = "policy/accuracy" if native.choices else "policy/error"
        self.names = ("loss/policy", fits, "train/grad_norm")

    @property
    def policy(self) -> Any:
        """The policy as torch has it, on the same memory."""
        return self.native.module

    def update(self, batch: Transitions, clock: Clock) -> Update:
        """One step for each batch."""
        config, at = self.config, f"update {clock.updates}"
        self.optimizer.lr = config.at("learning_rate", clock.remaining)
        self.native.check()
        actions = np.asarray(batch.actions)
        if self.native.choices:
            actions = actions.reshape(batch.rewards.shape).astype(np.int64)
        with told_where(at), stepped(self.optimizer) as policy:
            told = self.native.engine.learn(
                policy,
                np.asarray(batch.obs),
                actions,
                learning_rate=self.optimizer.lr,
                squared=config.loss == "mse",
                max_grad_norm=config.max_grad_norm,
                adam_eps=self.optimizer.eps,
            )
        found = (told[name] for name in ("loss", "fit", "grad_norm"))
        metrics = dict(zip(self.names, found, strict=True))
        metrics["train/learning_rate"] = self.optimizer.lr
        return Update(metrics, len(batch), batch.rewards.numel())

    def state(self) -> dict[str, Any]:
        """Copies of the weights, and the state of the optimizer."""
        return {"weights": self.native.weights(), "optimizer": self.optimizer.state()}

    def begin_from(self, weights: Mapping[str, Any]) -> None:
        """Begin with these weights in place of the initial ones."""
        self.native.load_state_dict(weights)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self.native.load_state_dict(state["weights"])
        self.optimizer.restore(state["optimizer"])


def sizes_of(
    algo: TD3BCConfig | IQLConfig, encoding: Encoding, actions: ActionCodec
) -> VectorSizes:
    """Of an actor and its critics."""
    shapes = (algo.n_critics, *algo.widths, algo.activation)
    return VectorSizes(encoding.features, actions.size, actions.size, *shapes)


def td3_bc_composed(
    config: RunConfig, tools: Tools, encoding: Encoding, actions: ActionCodec, sizes: VectorSizes
) -> tuple[NativeDeterministic, NativeTD3BCLearner]:
    """The policy and what it learns by; `NativeRefused` for networks that only torch learns."""
    algo = cast(TD3BCConfig, config.algo)
    require_native(algo, actions, tools.device_name, encoding.make is not None)

    def module() -> DeterministicPolicy:
        from rlox.algorithms.torch_td3 import described

        return described(algo, encoding.features, sizes.size)

    native = NativeDeterministic(sizes, config.seed, module, 0.0)
    return native, NativeTD3BCLearner(native, algo, config.seed)


def iql_composed(
    config: RunConfig, tools: Tools, encoding: Encoding, actions: ActionCodec, sizes: VectorSizes
) -> tuple[NativeImplicit, NativeIQLLearner]:
    """The same of implicit Q-learning."""
    algo = cast(IQLConfig, config.algo)
    require_native(algo, actions, tools.device_name, encoding.make is not None)

    def module() -> ImplicitPolicy:
        from rlox.algorithms.torch_iql import described

        return described(algo, encoding.features, sizes.size)

    native = NativeImplicit(sizes, config.seed, module)
    return native, NativeIQLLearner(native, algo)


def bc_composed(
    config: RunConfig, tools: Tools, encoding: Encoding, actions: ActionCodec
) -> tuple[NativeCloned, NativeBCLearner]:
    """The same of behavioural cloning."""
    algo = cast(BCConfig, config.algo)
    require_native(algo, actions, tools.device_name, encoding.make is not None)

    def module() -> Any:
        from rlox.algorithms.torch_bc import described

        return described(algo, encoding.features, actions)

    shape = (actions.discrete, actions.size, encoding.features, algo.net_arch, algo.activation)
    native = NativeCloned(*shape, config.seed, module)
    return native, NativeBCLearner(native, algo)
