"""Soft actor-critic's update in Rust: all batches of a training in one call."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rlox.algorithms.encoding import Encoding
from rlox.algorithms.native_replay import NativeReplayLearner, columns
from rlox.algorithms.off_policy import OffPolicy
from rlox.algorithms.replay_schedule import Scheduled
from rlox.algorithms.sac_schedule import NAMES, target_entropy
from rlox.configs import RunConfig, SACConfig
from rlox.envs.actions import UnitCodec
from rlox.envs.base import VectorEnv
from rlox.optim.native import ADAM, NativeOptimizer, NativeTarget
from rlox.parameters.layout import Part, fill
from rlox.policies.engine import Adams, stepped, told_where
from rlox.policies.native_exploring import NativeExploration
from rlox.policies.native_vectors import NativeSquashed, VectorSizes
from rlox.training.learned import learned, update_noise, where
from rlox.training.native_fields import require_native
from rlox.training.parts import Tools
from rlox.types import Clock, Transitions, Update

if TYPE_CHECKING:  # a run of the native engine imports no torch
    from rlox.policies.soft import SquashedPolicy

__all__ = ["NativeSACLearner", "composed"]


class NativeSACLearner(Scheduled, NativeReplayLearner):
    """Differs from `SACLearner` by rounding only, and has a state that each can go on from."""

    config: SACConfig

    def __init__(
        self, native: NativeSquashed, config: SACConfig, target_entropy: float, seed: int
    ) -> None:
        self.native, self.config, self._seed = native, config, seed
        lr, parts = config.initial("learning_rate"), native.parts
        self.actor, self.critic = (
            NativeOptimizer(parts[name], ADAM, lr, 1e-8) for name in ("actor", "critic")
        )
        self.target = NativeTarget(parts["critic"])
        self.temperature = NativeTemperature(*config.temperature, target_entropy, lr)
        named = {"actor": self.actor, "critic": self.critic, "target": self.target}
        super().__init__(native, {**named, "temperature": self.temperature}, [self.target])

    def update(self, batch: Transitions, clock: Clock) -> Update:
        """One step of everything for each batch."""
        self._schedule(clock)
        return self._told(self._learn(batch, clock.updates, where(batch, clock)))

    def _learn(self, batch: Transitions, number: int, at: str) -> Update:
        config = self.config
        self.native.check()
        errors = np.empty(batch.rewards.shape, np.float32)
        shape = (2, *batch.actions.shape[1:])
        noise = [update_noise(self._seed, number + i, shape) for i in range(len(batch))]
        with ExitStack() as held:
            held.enter_context(told_where(at))
            actor, critic = (held.enter_context(stepped(o)) for o in (self.actor, self.critic))
            log, goal = held.enter_context(self.temperature.stepped(self.actor.lr))
            told = self.native.learns.learn(
                actor,
                critic,
                self.target.vector,
                *columns(batch),
                errors,
                np.stack(noise),
                None if batch.weights is None else np.asarray(batch.weights),
                log,
                entropy_or_alpha=goal,
                first=number,
                learning_rate=self.actor.lr,
                tau=config.tau,
                target_update_interval=config.target_update_interval,
                max_grad_norm=config.max_grad_norm,
                adam_eps=self.critic.eps,
            )
        names = ("critic", "actor", "temperature", "q_mean", "entropy", "alpha", "grad_norm")
        metrics = {name: told[own] for name, own in zip(NAMES, names, strict=True)}
        return learned(batch, metrics, errors)


class NativeTemperature:
    """What `rlox.training.temperature` is in torch: how much an entropy of 1 is worth in reward.

    It is `alpha`, or begins there where it is `learned`.
    """

    def __init__(self, learned: bool, alpha: float, target_entropy: float, lr: float) -> None:
        self._alpha, self.target_entropy = alpha, target_entropy
        self._adam: NativeOptimizer | None = None
        if learned:
            self._part = Part.of([("log", ())])
            self._part.vector[0] = math.log(alpha)
            self._adam = NativeOptimizer(self._part, ADAM, lr, 1e-8)

    @contextmanager
    def stepped(self, lr: float) -> Iterator[tuple[Adams | None, float]]:
        """As the engine takes it: its logarithm and the entropy that it learns towards, or what it is."""
        if self._adam is None:
            yield None, float(np.float32(self._alpha))
            return
        self._adam.lr = lr
        with stepped(self._adam) as log:
            yield log, self.target_entropy

    def state(self) -> dict[str, Any]:
        """A copy of log alpha, and of the moments of its optimizer; of one that stays nothing."""
        if self._adam is None:
            return {}
        return {"log": self._part.views()["log"].copy(), "adam": self._adam.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`, also of torch's."""
        if self._adam is not None:
            fill(self._part.views(), {"log": state["log"]})
            self._adam.restore(state["adam"])


def composed(
    config: RunConfig,
    tools: Tools,
    env: VectorEnv,
    encoding: Encoding,
    actions: UnitCodec,
    sizes: VectorSizes,
) -> OffPolicy:
    """What learns, explores and acts; `NativeRefused` for networks that only torch learns."""
    algo = cast(SACConfig, config.algo)
    require_native(algo, env.actions, tools.device_name, encoding.make is not None)

    def module() -> SquashedPolicy:
        from rlox.algorithms.torch_sac import squashed

        return squashed(algo, encoding.features, actions.size)

    native = NativeSquashed(sizes, config.seed, module)
    learner = NativeSACLearner(native, algo, target_entropy(algo, actions), config.seed)
    return OffPolicy(native, NativeExploration(native, env.n_envs, config.seed), learner, actions)
