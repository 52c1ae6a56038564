"""A2C's update in Rust: one gradient step on a whole rollout."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox._core import Iteration
from rlox.algorithms.a2c.common import METRIC_NAMES, RMS_DECAY, A2CLearnerMixin
from rlox.algorithms.assembly.native_learners import NativeLearner, rollout_explained_variance, valid_rows
from rlox.algorithms.assembly.on_policy import update_label
from rlox.configs import A2CConfig
from rlox.native.policy import NativePolicy, split_masks
from rlox.parameters.engine import counted_steps, label_errors
from rlox.parameters.optimizer import ADAM_EPS, ADAM_MOMENTS, NativeOptimizer
from rlox.types import Clock, FusedUpdate, Rollout, Update

__all__ = ["NativeA2CLearner"]


class NativeA2CLearner(NativeLearner, A2CLearnerMixin):
    """Native counterpart of `A2CLearner`; results differ by rounding only."""

    native: NativePolicy

    def __init__(self, native: NativePolicy, config: A2CConfig) -> None:
        super().__init__(native, _optimizer(native, config))
        self.config = config
        # the vectors of parameters and moments never move in memory; RMSprop has only one moment
        first_moment, *second_moment = (self.optimizer.moment(name) for name in self.optimizer.moment_names)
        self._vectors = native.vector, first_moment, second_moment[0] if second_moment else None

    def update(self, batch: Rollout[NDArray[Any]], clock: Clock) -> Update:
        """Learn from one rollout; schedules are evaluated once, at the clock of the update's start."""
        ent_coef = self._apply_schedules(clock)
        valid, (obs, mask) = valid_rows(batch), split_masks(batch)
        columns = map(np.asarray, (batch.actions, batch.advantages, batch.returns))
        self.native.check()
        label = partial(update_label, batch.index, len(batch), clock)
        with label_errors(label), counted_steps(self.optimizer) as steps:
            result = self.native.engine.a2c(
                *self._vectors,
                steps,
                obs[valid],
                *(column[valid] for column in columns),
                mask=None if mask is None else mask[valid],
                **self._settings(ent_coef),
            )
        return self._build_update(
            _metrics_by_name(result), rollout_explained_variance(batch), ent_coef, len(obs[valid])
        )

    def fused_update(self, clock: Clock, iteration: Iteration, index: int, n_rows: int) -> FusedUpdate:
        """Collect rollout number `index`, of `n_rows` rows, and learn from it; bit for bit like `update`."""
        ent_coef = self._apply_schedules(clock)
        with (
            label_errors(partial(update_label, index, n_rows, clock)),
            counted_steps(self.optimizer) as steps,
        ):
            result = iteration.a2c(*self._vectors, steps, **self._settings(ent_coef))
        explained_var = result["explained_variance"]
        return FusedUpdate(
            self._build_update(_metrics_by_name(result), explained_var, ent_coef, n_rows), result["seconds"]
        )

    def _settings(self, ent_coef: float) -> dict[str, Any]:
        """Return the settings of an update as keyword arguments of the engine."""
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


def _metrics_by_name(result: Mapping[str, float]) -> dict[str, float]:
    """Return the engine's results by the names of the metrics."""
    return {name: result[name.rpartition("/")[2]] for name in METRIC_NAMES}


def _optimizer(native: NativePolicy, config: A2CConfig) -> NativeOptimizer:
    """Make RMSprop or Adam; with `rms_prop_tf_like`, RMSprop's moment starts at 1, as in TensorFlow."""
    parameters, rate = native.parameter_vectors[""], config.initial("learning_rate")
    if not config.use_rms_prop:
        return NativeOptimizer(parameters, ADAM_MOMENTS, rate, ADAM_EPS)
    initial_moment = 1.0 if config.rms_prop_tf_like else 0.0
    return NativeOptimizer(parameters, ("square_avg",), rate, config.rms_prop_eps, initial_moment)
