"""PPO's update in Rust, on the same minibatches as the update in torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox._core import Iteration
from rlox.algorithms.assembly.native_learners import NativeLearner, rollout_explained_variance, valid_rows
from rlox.algorithms.assembly.on_policy import update_label
from rlox.algorithms.ppo.common import METRIC_NAMES, PPOLearnerMixin, ScheduledLoss
from rlox.configs import PPOConfig
from rlox.native.policy import NativePolicy, split_masks
from rlox.parameters.engine import AdamVectors, adam_vectors, label_errors
from rlox.parameters.optimizer import ADAM_EPS, ADAM_MOMENTS, NativeOptimizer
from rlox.rng import Streams
from rlox.types import Clock, FusedUpdate, Rollout, Update

__all__ = ["NativePPOLearner"]


@dataclass
class LossCoefficients:
    """The scheduled coefficients of the loss."""

    clip_eps: float
    ent_coef: float


class NativePPOLearner(NativeLearner, PPOLearnerMixin):
    """Learns from each rollout in one call into Rust.

    It is the native counterpart of `PPOLearner`: it uses the same minibatches, results differ by rounding
    only, and states are interchangeable.
    """

    native: NativePolicy

    def __init__(self, native: NativePolicy, config: PPOConfig, streams: Streams) -> None:
        rate = config.initial("learning_rate")
        super().__init__(native, NativeOptimizer(native.parameter_vectors[""], ADAM_MOMENTS, rate, ADAM_EPS))
        self.config, self.streams = config, streams
        self.loss: ScheduledLoss = LossCoefficients(config.initial("clip_eps"), config.initial("ent_coef"))

    def update(self, batch: Rollout[NDArray[Any]], clock: Clock) -> Update:
        """Learn from one rollout; schedules are evaluated once, at the clock of the update's start."""
        self._apply_schedules(clock)
        valid = valid_rows(batch)
        order = self._minibatch_orders(batch.index, len(batch) if isinstance(valid, slice) else len(valid))
        self.native.check()
        with (
            label_errors(partial(update_label, batch.index, len(batch), clock)),
            adam_vectors(self.optimizer) as adam,
        ):
            result = self._learn(batch, order if isinstance(valid, slice) else valid[order], adam)
        return self._build_update(result, rollout_explained_variance(batch))

    def fused_update(self, clock: Clock, iteration: Iteration, index: int, n_rows: int) -> FusedUpdate:
        """Collect rollout number `index`, of `n_rows` rows, and learn from it; bit for bit like `update`."""
        self._apply_schedules(clock)
        order = self._minibatch_orders(index, n_rows)
        with label_errors(partial(update_label, index, n_rows, clock)), adam_vectors(self.optimizer) as adam:
            result = iteration.ppo(*adam, order, **self._settings())
        return FusedUpdate(self._build_update(result, result["explained_variance"]), result["seconds"])

    def _minibatch_orders(self, index: int, n_rows: int) -> NDArray[np.int64]:
        """Return the row order of each epoch over rollout number `index`, `[n_epochs, n_rows]`."""
        order = partial(self._minibatch_order, index, count=n_rows)
        return np.stack([order(epoch) for epoch in range(self.config.n_epochs)])

    def _build_update(self, result: Mapping[str, float], explained_var: float) -> Update:
        """Build the update from the engine's results, whose keys are the last parts of the metrics' names."""
        means = {name: result[name.rpartition("/")[2]] for name in METRIC_NAMES} if result["steps"] else {}
        metrics = self._metrics(explained_var, means, int(result["epochs"]))
        return Update(metrics, count=1, samples=int(result["samples"]))

    def _learn(
        self, batch: Rollout[NDArray[Any]], order: NDArray[np.int64], adam: AdamVectors
    ) -> dict[str, float]:
        obs, mask = split_masks(batch)
        return self.native.engine.ppo(
            *adam,
            obs,
            np.asarray(batch.actions),
            np.asarray(batch.log_probs),
            np.asarray(batch.values),
            np.asarray(batch.advantages),
            np.asarray(batch.returns),
            order,
            mask=mask,
            **self._settings(),
        )

    def _settings(self) -> dict[str, Any]:
        """Return the settings of an update, scheduled values included, as keyword arguments of the engine."""
        config, loss = self.config, self.loss
        return {
            "batch_size": config.batch_size,
            "learning_rate": self.optimizer.lr,
            "clip_eps": loss.clip_eps,
            "vf_coef": config.vf_coef,
            "ent_coef": loss.ent_coef,
            "max_grad_norm": config.max_grad_norm,
            "clip_vloss": config.clip_vloss,
            "normalize_advantages": config.normalize_advantages,
            "target_kl": config.target_kl,
            "adam_eps": self.optimizer.eps,
        }
