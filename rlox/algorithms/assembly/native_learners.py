"""Base classes and helpers of the native learners."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rlox._core import OffPolicyEngine, ReplayIteration, explained_variance
from rlox.parameters.engine import LearnedVectors, label_errors
from rlox.parameters.lazy_torch import LazyTorchModule
from rlox.parameters.optimizer import NativeOptimizer, NativeTargetNetwork
from rlox.rng import update_noise
from rlox.training.loop import Stateful
from rlox.types import Clock, Rollout, Transitions, Update, update_label

__all__ = [
    "NativeLearner",
    "NativeReplayLearner",
    "learn_transitions",
    "rollout_explained_variance",
    "stacked_update_noise",
    "valid_rows",
]

A = NDArray[Any]
# Methods that are called once a call, not for each of its trainings.
PER_TRAINING = ("_learn", "update", "iterate", "_apply_schedules", "_own_metrics")


class NativeLearner:
    """A native policy and the optimizer of its parameters, which together form the learner's state.

    The state is interchangeable with that of the torch learner.
    """

    def __init__(self, native: LazyTorchModule, optimizer: NativeOptimizer) -> None:
        self.native, self.optimizer = native, optimizer

    @property
    def policy(self) -> Any:
        """The policy as a torch module that shares the parameters' memory."""
        return self.native.module

    def state(self) -> dict[str, Any]:
        """Return copies of the weights and optimizer moments, by parameter name."""
        weights = self.native.weights()
        return {"weights": weights, "optimizer": self.optimizer.state()}

    def load_initial_weights(self, weights: Mapping[str, Any]) -> None:
        """Replace the initial weights by these."""
        self.native.load_state_dict(weights)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self.native.load_state_dict(state["weights"])
        self.optimizer.restore(state["optimizer"])


def valid_rows(rollout: Rollout[A]) -> slice | NDArray[np.int64]:
    """Return the indices of the rows that are transitions, or a full slice if all are."""
    return slice(None) if rollout.valid is None else np.flatnonzero(np.asarray(rollout.valid))


def rollout_explained_variance(rollout: Rollout[A]) -> float:
    """Return 1 - Var(R - V) / Var(R) over valid rows, computed as in Rust; 0 if R does not vary."""
    valid = valid_rows(rollout)
    return explained_variance(*(np.asarray(column)[valid] for column in (rollout.values, rollout.returns)))


class NativeReplayLearner(ABC):
    """A native policy with the optimizers and target networks that learn from replayed transitions.

    `optimizers` and `targets` have the engine's names of the networks; target networks start as copies of
    them. `parts` are these and other stateful parts under their names in checkpoints. The state is
    interchangeable with that of the torch learner.
    """

    native: Any  # set by the subclass: the policy, whose engine computes the updates
    config: Any  # of the algorithm
    # Whether a call can make several trainings. A subclass that overrides one of `PER_TRAINING` gets one
    # training a call, unless it declares this itself.
    learns_repeatedly: ClassVar[bool] = False

    def __init__(
        self,
        optimizers: Mapping[str, NativeOptimizer],
        targets: Mapping[str, NativeTargetNetwork],
        parts: Mapping[str, Stateful],
    ) -> None:
        self._optimizers, self._targets, self._parts = optimizers, targets, parts

    def steps_to_change(self, env_steps: int) -> int:
        """Return after how many steps settings or targets change outside the engine, if a call begins with
        the training at `env_steps`; at least 1.
        """
        names = ("learns_repeatedly", *PER_TRAINING)
        nearest = next(vars(cls) for cls in type(self).__mro__ if any(name in vars(cls) for name in names))
        is_repeated = nearest.get("learns_repeatedly", False)
        return sys.maxsize if is_repeated and self.config.is_constant("learning_rate") else 1

    def update(self, batch: Transitions[Any], clock: Clock) -> Update:
        """Take one step for each batch, in one call of the engine; subclasses override `_learn`."""
        return self._learn(self.native.engine, batch, clock)

    def iterate(self, iteration: ReplayIteration, batch: Transitions[Any], clock: Clock) -> Update:
        """Collect, draw `batch` and learn from it in one call; the result is that of `update` afterwards.

        `iteration` makes the steps and writes the drawn rows into the arrays of `batch`.
        """
        return self._learn(iteration, batch, clock)

    @abstractmethod
    def _learn(
        self, engine: OffPolicyEngine | ReplayIteration, batch: Transitions[Any], clock: Clock
    ) -> Update:
        """Take one step for each batch with `engine`."""

    @property
    def policy(self) -> Any:
        """The policy as a torch module that shares the parameters' memory."""
        return self.native.module

    def state(self) -> dict[str, Any]:
        """Return copies of the weights, and the state of every optimizer and target."""
        weights = self.native.weights()
        return {
            "weights": weights,
            "optimizer": {name: part.state() for name, part in self._parts.items()},
        }

    def load_initial_weights(self, weights: Mapping[str, Any]) -> None:
        """Replace the initial weights by these, in the target networks too."""
        self.native.load_state_dict(weights)
        for target in self._targets.values():
            target.copy_online()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self.native.load_state_dict(state["weights"])
        for name, part in self._parts.items():
            part.restore(state["optimizer"][name])


def learn_transitions(
    engine: OffPolicyEngine | ReplayIteration,
    batch: Transitions[Any],
    clock: Clock,
    optimizers: Mapping[str, NativeOptimizer],
    targets: Mapping[str, NativeTargetNetwork],
    draw_noise: Callable[[int], A] | None = None,
    **settings: Any,
) -> tuple[list[dict[str, float]], NDArray[np.float32]]:
    """Let the engine learn from each batch; return the results of each training, and the error of each row.

    The errors `[k, rows]` are those of the last training. `draw_noise` gets the number of trainings; with
    several, the noise has a leading axis for these.
    `optimizers` and `targets` have the engine's names of the networks, which `_core.OffPolicyEngine` lists
    with the settings of each algorithm. All optimizers have the same epsilon.
    """
    iteration = engine if isinstance(engine, ReplayIteration) else None
    errors = np.empty(batch.rewards.shape, np.float32)

    def label() -> str:
        return update_label(batch, clock, iteration.learned if iteration else 0)

    noise = draw_noise(iteration.trainings if iteration else 1) if draw_noise else None
    with label_errors(label), LearnedVectors(optimizers) as learned:
        results: Any = engine.learn(
            learned,
            {name: target.vector for name, target in targets.items()},
            np.asarray(batch.obs),
            np.asarray(batch.actions),
            np.asarray(batch.rewards),
            np.asarray(batch.next_obs),
            np.asarray(batch.discounts),
            errors,
            noise,
            None if batch.weights is None else np.asarray(batch.weights),
            first=clock.updates,
            adam_eps=next(iter(optimizers.values())).eps,
            **settings,
        )
    return results if iteration else [results], errors


def stacked_update_noise(
    seed: int, batch: Transitions[Any], clock: Clock, draws: int = 1, trainings: int = 1
) -> A:
    """Return standard normal noise for the actions of each batch: `[k, rows, size]`, with several draws
    `[k, draws, rows, size]`; for several trainings `[trainings, k, ...]`.
    """
    shape = (*((draws,) if draws > 1 else ()), *batch.actions.shape[1:])
    n_batches = trainings * len(batch)
    noise = np.stack([update_noise(seed, clock.updates + i, shape) for i in range(n_batches)])
    return noise if trainings == 1 else noise.reshape(trainings, len(batch), *shape)
