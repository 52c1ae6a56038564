"""The sources of the native engine: rollouts and replayed transitions, collected in calls into Rust."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from rlox._core import Iteration, ReplayIteration, VecEnv
from rlox.errors import NonFiniteError
from rlox.native.collector import EndedEpisodes, NativeCollector, native_core, to_episodes
from rlox.native.exploration import NativeExplorationPolicy
from rlox.native.policy import NativePolicy
from rlox.native.q_policy import NativeQPolicy
from rlox.native.vector_policies import NativeDeterministicPolicy, NativeSquashedPolicy
from rlox.sources.replay import MAX_TICK_BATCHES, MAX_TICK_ROWS, ReplaySource
from rlox.sources.rollout import RolloutSource
from rlox.stopping import raise_if_expired
from rlox.types import Clock, FusedUpdate, Progress, Rollout, Transitions, Update

__all__ = ["FusedLearner", "FusedReplayLearner", "FusedSource", "NativeReplaySource"]


@runtime_checkable
class FusedLearner(Protocol):
    """A learner that can learn in the call that collects; the result is bit-identical to that of `update`."""

    native: NativePolicy

    def fused_update(self, clock: Clock, iteration: Iteration, index: int, rows: int) -> FusedUpdate:
        """Collect rollout number `index`, of `rows` rows, and learn from it."""


@dataclass
class FusedSource(RolloutSource):
    """A source that collects and learns in one Rust call and returns the finished update, not a rollout.

    If the environments are not native or are normalised, it returns rollouts like a `RolloutSource`. The
    results are bit-identical.
    """

    collector: NativeCollector
    learner: FusedLearner

    @property
    def is_mid_update(self) -> bool:
        """Whether the last `next` was interrupted while learning."""
        return self.collector.is_mid_update

    def next(self, clock: Clock) -> tuple[Rollout[Any] | FusedUpdate | None, Progress]:
        """Collect the next rollout, and learn from it in the same call if that is possible."""
        learn = partial(self.learner.fused_update, clock)
        with self._count_unlearned():
            fused_update = self.collector.fused_collect(self.learner.native, self.n_steps, learn)
        return super().next(clock) if fused_update is None else (fused_update, self.collector.progress)

    def _collect(self) -> Rollout[Any]:
        return self.collector.collect_arrays(self.learner.native, self.n_steps)


Array = NDArray[Any]
# Several trainings in one call have at most this many batches and take about this long, so that signals are
# soon served.
MAX_CALL_BATCHES = 16
MAX_CALL_SECONDS = 0.1
# The arguments of `_core.Explorer.collect` from the observations on.
CollectArguments = tuple[
    Array, Array, Array, Array, Array, Array, Array, Array, Array | None, tuple[Array, Array] | None
]


@runtime_checkable
class FusedReplayLearner(Protocol):
    """A learner that can collect, draw and learn in one call."""

    native: NativeQPolicy | NativeSquashedPolicy | NativeDeterministicPolicy

    def steps_to_change(self, env_steps: int) -> int:
        """Return after how many steps settings or targets change outside the engine, if a call begins with
        the training at `env_steps`; at least 1.
        """

    def iterate(self, iteration: ReplayIteration, batch: Transitions[Array], clock: Clock) -> Update:
        """Make the steps of `iteration`, draw `batch` into its arrays and learn from it."""


class NativeReplaySource(ReplaySource):
    """A `ReplaySource` that steps up to a training, samples and learns in one call.

    Between two steps at which hooks are due, a call makes several trainings of the same size. It does not
    matter for results how many. The call only makes the steps if no batch is due, if that number of
    batches was never sampled before, or if sampled arrays are converted afterwards (stacked frames, packed
    integers, hindsight). Environments that are not native or are normalised take one call per step. The
    results are bit-identical.
    """

    exploration: NativeExplorationPolicy
    is_mid_update = False  # whether the last `next` was interrupted while learning

    def __init__(self, learner: FusedReplayLearner, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.learner = learner
        self._training_seconds = math.inf  # of the last call, for each training

    def next(self, clock: Clock) -> tuple[Transitions[Any] | FusedUpdate | None, Progress]:
        """Collect, and learn from the first due batches in the same call if that is possible."""
        self.is_mid_update = False
        n_steps, core = self._steps_ahead(clock), self._native_core()
        n_due = self._batches_due(self.env_steps, self.env_steps + n_steps * self.env.n_envs)
        if self._pending_batches or not n_due or core is None:
            return super().next(clock)
        n_batches = min(n_due, self.replay_sampler.batches_at_once or MAX_TICK_BATCHES)
        sample = self.replay_sampler.output_arrays(n_batches, self.env_steps + n_steps * self.env.n_envs)
        if sample is None:
            return super().next(clock)
        trainings = self._trainings_ahead(clock, n_steps, n_due) if n_due == n_batches else 1
        fused_update = self._fused_update(clock, core, n_steps, n_due, sample, trainings)
        return fused_update, Progress() if self._pending_batches else self._report()

    def _trainings_ahead(self, clock: Clock, n_steps: int, n_due: int) -> int:
        """Count the trainings of one call, which have `n_steps` steps and `n_due` batches each.

        The call ends where hooks are due. Rows with priorities take one training a call: each changes how
        the next batches are drawn. So do steps that an interrupted call left unreported.
        """
        if self.replay_sampler.batches_at_once is not None or self._unreported_steps:
            return 1
        n: int = n_steps * self.env.n_envs  # environment steps of a training
        units_to_end = min(clock.units_to_hooks, self.learner.steps_to_change(self.env_steps + n))
        most = min(MAX_CALL_BATCHES // n_due, MAX_TICK_ROWS // n_steps, -(-units_to_end // n))
        most = min(most, int(MAX_CALL_SECONDS / max(self._training_seconds, 1e-6)))
        if clock.units_left:
            most = min(most, clock.units_left // n)
        for i in range(1, most):
            start = self.env_steps + i * n
            if (self._steps_to_training(start), self._batches_due(start, start + n)) != (n_steps, n_due):
                return i
        return max(most, 1)

    def _fused_update(
        self,
        clock: Clock,
        core: VecEnv,
        n_steps: int,
        n_due: int,
        sample: tuple[dict[str, Any], Transitions[Array]],
        trainings: int,
    ) -> FusedUpdate:
        """Make the fused call of trainings with `n_steps` steps each.

        If it fails, the steps of complete trainings stay stored, and those of one that failed while learning.
        """
        self._prepare_steps(trainings * n_steps)
        collect_arguments, n_random = self._collect_arguments(trainings * n_steps, clock)
        self.replay_sampler.set_beta(1.0 - clock.remaining)
        self.replay_sampler.last_sample, batch = sample
        iteration = ReplayIteration(
            self.exploration.explorer,
            core,
            self.replay_sampler.buffer,
            self.replay_sampler.last_sample,
            self.exploration.vector,
            *collect_arguments,
            given=n_random,
            trainings=trainings,
            **self.replay_sampler.return_settings,
        )
        update, error = None, None
        try:
            update = self.learner.iterate(iteration, batch, clock)
            error = iteration.error  # steps failed after complete trainings, which are returned first
        except BaseException as exception:
            self.is_mid_update, error = iteration.stored > 0, exception
        started_at = self.env_steps
        if iteration.stored:
            self._count_steps(iteration.stored * n_steps, iteration.episodes())
            self._pending_batches = n_due - len(batch)
        if iteration.learned == iteration.stored < trainings:
            error = self._drop_steps((iteration.stored + 1) * n_steps, started_at, error)
        if update is None:
            assert error is not None
            raise error
        self._training_seconds = iteration.seconds / iteration.learned
        return FusedUpdate(update, iteration.seconds, error)

    def _count_steps(self, n_steps: int, ended_episodes: EndedEpisodes | None) -> None:
        """Count `n_steps` stored steps and their episodes."""
        self._episodes += to_episodes(ended_episodes, self.env_steps, self.env.n_envs)
        self.vector_steps += n_steps
        self._unreported_steps += n_steps * self.env.n_envs
        self._n_filled = n_steps
        self._obs[:] = self._step_arrays.obs[n_steps]

    def _drop_steps(self, n_steps: int, started_at: int, error: BaseException | None) -> BaseException | None:
        """Drop steps that were not stored, the last of `n_steps`.

        Return the error, or one that locates a non-finite number.
        """
        self._n_filled = n_steps
        self._discard_steps(self.vector_steps, len(self._episodes))
        if isinstance(error, NonFiniteError):
            try:
                self._step_arrays.require_finite(n_steps, started_at)
            except NonFiniteError as nonfinite_error:
                return nonfinite_error
        return error

    def _step(self, n_steps: int, clock: Clock) -> None:
        core = self._native_core()
        if core is None:
            super()._step(n_steps, clock)
            return
        raise_if_expired()
        collect_arguments, n_random = self._collect_arguments(n_steps, clock)
        explorer, vector = self.exploration.explorer, self.exploration.vector
        with self.learner.native.lock:
            ended_episodes = explorer.collect(vector, core, *collect_arguments, given=n_random)
        self._episodes += to_episodes(ended_episodes, self.env_steps, self.env.n_envs)
        self.vector_steps += n_steps

    def _native_core(self) -> VecEnv | None:
        """Return the native environments if nothing is normalised, else None."""
        return native_core(self.env, self.obs_normalizer, self.reward_normalizer)

    def _collect_arguments(self, n_steps: int, clock: Clock) -> tuple[CollectArguments, int]:
        """Return `Explorer.collect`'s arguments for the next steps, and how many have random actions."""
        arrays, action_codec = self._step_arrays, self.action_codec
        arrays.obs[0] = self._obs
        elapsed = self._elapsed_fractions(n_steps, clock)
        noise = self.exploration.draw_ahead(self.vector_steps, arrays.actions[:n_steps], elapsed)
        bounds = None if action_codec is None else (action_codec.low, action_codec.high)
        running_sums = self.tracker.returns, self.tracker.lengths
        columns = arrays.obs[: n_steps + 1], *arrays.step_outputs(n_steps)
        return (*columns, *running_sums, noise, bounds), n_steps - len(elapsed)

    def _elapsed_fractions(self, n_steps: int, clock: Clock) -> list[float]:
        """Return the elapsed fraction of the run at each of the next steps at which the policy acts."""
        start_step, n, horizon = self.env_steps, self.env.n_envs, clock.horizon or 1
        random_left = -(-(self._random_until - start_step) // n)
        n_random = min(max(random_left, 0), n_steps)
        return [min((start_step + t * n) / horizon, 1.0) for t in range(n_random, n_steps)]
