"""A2C's update in Rust: one step along the gradient of a whole rollout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rlox._core import Iteration
from rlox.algorithms.a2c_schedule import NAMES, RMS_DECAY, Scheduled
from rlox.algorithms.native_learner import NativeLearner, explained, valid_rows
from rlox.algorithms.on_policy import where
from rlox.configs import A2CConfig
from rlox.optim.native import ADAM, ADAM_EPS, NativeOptimizer
from rlox.policies.engine import counted, told_where
from rlox.policies.native import NativePolicy, unmasked
from rlox.types import Clock, Iterated, Rollout, Update

__all__ = ["NativeA2CLearner"]


class NativeA2CLearner(NativeLearner, Scheduled):
    """The step that torch's learner makes; it differs by rounding only."""

    def __init__(self, native: NativePolicy, config: A2CConfig) -> None:
        super().__init__(native, _optimizer(native, config))
        self.config = config
        # parameters and moments, of which RMSprop has one; where they lie never changes
        first, *second = (self.optimizer.moment(name) for name in self.optimizer.moments)
        self._vectors = native.vector, first, second[0] if second else None

    def update(self, batch: Rollout, clock: Clock) -> Update:
        """Learn from one rollout; the schedule is read once, from the clock at its start."""
        ent_coef = self._schedule(clock)
        valid, (obs, mask) = valid_rows(batch), unmasked(batch)
        columns = map(np.asarray, (batch.actions, batch.advantages, batch.returns))
        self.native.check()
        update = where(batch.index, len(batch), clock)
        with told_where(update), counted(self.optimizer) as steps:
            told = self.native.engine.a2c(
                *self._vectors,
                steps,
                obs[valid],
                *(column[valid] for column in columns),
                mask=None if mask is None else mask[valid],
                **self._settings(ent_coef),
            )
        return self._update(_named(told), explained(batch), ent_coef, len(obs[valid]))

    def iterate(self, clock: Clock, iteration: Iteration, index: int, rows: int) -> Iterated:
        """Collect rollout number `index`, of so many rows, and learn from it, with the bits of `update`."""
        ent_coef = self._schedule(clock)
        with told_where(where(index, rows, clock)), counted(self.optimizer) as steps:
            told = iteration.a2c(*self._vectors, steps, **self._settings(ent_coef))
        explained = told["explained_variance"]
        return Iterated(self._update(_named(told), explained, ent_coef, rows), told["seconds"])

    def _settings(self, ent_coef: float) -> dict[str, Any]:
        """Of an update, as the engine calls them."""
        config = self.config
        return {
            "learning_rate": self.optimizer.lr,
            "vf_coef": config.vf_coef,
            "ent_coef": ent_coef,
            "max_grad_norm": config.max_grad_norm,
            "normalize_advantages": config.normalize_advantages,
            "alpha": RMS_DECAY,
            "eps": self.optimizer.eps,
            "tf_like": config.rms_prop_tf_like,
        }


def _named(told: Mapping[str, float]) -> dict[str, float]:
    """What the engine said, by the names of the metrics."""
    return {name: told[name.rpartition("/")[2]] for name in NAMES}


def _optimizer(native: NativePolicy, config: A2CConfig) -> NativeOptimizer:
    """RMSprop, whose squares begin at 1 as in TensorFlow where that is asked for, or Adam."""
    part, rate = native.parts[""], config.initial("learning_rate")
    if not config.use_rms_prop:
        return NativeOptimizer(part, ADAM, rate, ADAM_EPS)
    start = 1.0 if config.rms_prop_tf_like else 0.0
    return NativeOptimizer(part, ("square_avg",), rate, config.rms_prop_eps, start)
