"""Data types that components exchange: episodes, rollouts, progress, updates, the clock."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlox.devices import to_device
from rlox.errors import ShapeError

if TYPE_CHECKING:  # so that a run with the native engine does not import torch
    import torch
    import typing_extensions
    from torch import Tensor

    # The arrays of a batch: tensors, or NumPy arrays for a learner in Rust (`Rollout[NDArray[Any]]`).
    ArrayT = typing_extensions.TypeVar("ArrayT", default=Tensor)
else:
    ArrayT = TypeVar("ArrayT")

__all__ = [
    "NO_UPDATE",
    "Clock",
    "Episode",
    "FinalObs",
    "FusedUpdate",
    "Minibatch",
    "Progress",
    "Rollout",
    "Transitions",
    "Unit",
    "Update",
    "build_update",
    "update_label",
]

B = TypeVar("B", "Transitions[Tensor]", "Rollout[Tensor]")

# The unit of a run's total, of its intervals and of its checkpoints.
Unit = Literal["env_steps", "updates", "samples"]


@dataclass(frozen=True, slots=True)
class Clock:
    """Counts environment steps (of all environments together), updates and gradient samples of a run.

    `unit` names the counter that the run's total, its intervals and its checkpoints use. `horizon` is the
    total, 0 if there is none. Hooks are due when the count passes a multiple of one of
    `hook_intervals` (0: never); in between, a source may put several trainings into one update.
    """

    env_steps: int = 0
    updates: int = 0
    samples: int = 0
    unit: Unit = "env_steps"
    horizon: int = 0
    hook_intervals: tuple[int, ...] = field(default=(1,), compare=False)

    @property
    def now(self) -> int:
        """The count in the run's unit."""
        count: int = getattr(self, self.unit)
        return count

    @property
    def text(self) -> str:
        """The progress, as in `1,000 of 20,000 env_steps`."""
        return f"{self.now:,} of {self.horizon:,} {self.unit}"

    @property
    def units_left(self) -> int:
        """Units left until the horizon, at least 0."""
        return max(self.horizon - self.now, 0)

    @property
    def units_to_hooks(self) -> int:
        """Units until hooks are due, at least 1."""
        intervals = (every for every in self.hook_intervals if every)
        return min((every - self.now % every for every in intervals), default=sys.maxsize)

    @property
    def remaining(self) -> float:
        """The fraction of the run that is left, from 1 to 0, for schedules; 1 without a horizon."""
        return max(0.0, 1.0 - self.now / self.horizon) if self.horizon else 1.0

    @property
    def counters(self) -> dict[str, int]:
        """The counters that a checkpoint stores; unit and horizon come from the configuration."""
        return {"env_steps": self.env_steps, "updates": self.updates, "samples": self.samples}

    def with_counters(self, counters: Mapping[str, int]) -> Clock:
        """Return this clock with the saved `counters`."""
        return replace(
            self,
            env_steps=counters["env_steps"],
            updates=counters["updates"],
            samples=counters["samples"],
        )

    def tick(self, progress: Progress, update: Update) -> Clock:
        """Return the clock after one batch."""
        return replace(
            self,
            env_steps=self.env_steps + progress.env_steps,
            updates=self.updates + update.count,
            samples=self.samples + update.samples,
        )


class Episode(NamedTuple):
    """One finished training episode, with the environment's original rewards."""

    env_steps: int  # the run's step count at the end of the episode
    env: int
    total_reward: float
    length: int
    info: Mapping[str, Any] | None = None  # of its last step; None if the environment has no infos

    @property
    def is_success(self) -> bool | None:
        """Whether the episode reached its goal: `is_success` of its info; None if the info lacks it."""
        value = (self.info or {}).get("is_success")
        return None if value is None else bool(value)


@dataclass(frozen=True, slots=True)
class Progress:
    """The cost of one batch; all counts are increments."""

    env_steps: int = 0
    episodes: tuple[Episode, ...] = ()
    lost_episodes: int = 0  # cut off because an environment failed and restarted
    restarts: int = 0  # number of environment failures


@dataclass(frozen=True, slots=True)
class Update:
    """The result of one learner update; `count` and `samples` are increments.

    `metrics` are those of a training, of one batch or more. If the update has several trainings, they are of
    the last one, and `earlier_metrics` of the others. `columns` are written back to the source's rows with
    the given `indices`: `priorities` `[n]` are absolute errors for a prioritized buffer, any other name is a
    column of the buffer.
    """

    metrics: Mapping[str, float] = field(default_factory=dict)
    count: int = 0
    samples: int = 0
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    indices: NDArray[np.uint64] | None = None  # [n]
    earlier_metrics: tuple[Mapping[str, float], ...] = ()


NO_UPDATE = Update()


@dataclass(frozen=True, slots=True)
class FusedUpdate:
    """The result of a batch that Rust collected and learned from in one call."""

    update: Update
    seconds: float  # time spent learning
    error: BaseException | None = None  # raised after the hooks of `update`; later steps of the call failed


class Minibatch(NamedTuple):
    """Rows of a rollout for one gradient step; all `[B, ...]`."""

    obs: Tensor
    actions: Tensor
    log_probs: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor
    extras: Mapping[str, Tensor]  # by name; empty unless the rollout has some


class FinalObs(NamedTuple, Generic[ArrayT]):
    """Last observations of the episodes that ended in a rollout: a sparse table `(t, n) -> obs`.

    They are sorted by step, then by environment. Observations are as the policy sees them.
    """

    steps: ArrayT  # [K] int64, t in 0..T-1: the step that ended the episode
    envs: ArrayT  # [K] int64, n in 0..N-1
    obs: ArrayT  # [K, obs_dim] float32


@dataclass(frozen=True, slots=True)
class Transitions(Generic[ArrayT]):
    """`n` batches of `B` stored transitions, learned from one after the other.

    On the CPU the tensors share the source's memory and are valid until its next batch. A learner in Rust
    gets NumPy arrays instead, `Transitions[NDArray[Any]]`.
    """

    obs: ArrayT  # [n, B, obs_dim] float32
    actions: ArrayT  # [n, B] int64, or rows [n, B, act_dim]: docs/actions.md
    rewards: ArrayT  # [n, B]; the discounted sum of an n-step window
    next_obs: ArrayT  # [n, B, obs_dim]: the observation after the step (the window), never after a reset
    discounts: ArrayT  # [n, B]: gamma^m of a window of m steps; 0 if it ended in termination
    indices: NDArray[np.uint64]  # [n, B]: rows of the source, for `Update.indices`
    weights: ArrayT | None = None  # [n, B]: importance weights of a prioritized buffer
    env_steps: int = 0  # the run's step count when the batches were drawn

    def __len__(self) -> int:
        obs: Any = self.obs
        return len(obs)

    def to(self: Transitions[Tensor], device: torch.device | str) -> Transitions[Tensor]:
        """Return the batches on another device (the same object if they are there already)."""
        return _to_device(self, device)


@dataclass(frozen=True, slots=True)
class Rollout(Generic[ArrayT]):
    """`n_steps` of `n_envs` environments, flat `[T*N, ...]` in time-major order (row t*N + n).

    On the CPU the tensors are views of the collector's arena and are valid until the next rollout.
    `rewards` are those the learner sees (scaled when rewards are normalised); `dones` marks the ends of
    episodes, by termination or truncation.

    Learners with their own estimator (V-trace, values in other units) need more than the rows: `last_obs`
    and `last_values` belong to the state where the rollout stopped, `next_values` to the state after each
    step.
    `final_obs` has the observations that a reset replaced, `None` if no episode ended. `advantages` and
    `returns` are NaN until an estimator such as `rlox.sources.rollout_collector.gae` writes them.

    Two columns are optional. `valid` is False in rows that are not transitions: an engine used the step for
    a reset, or an environment failed and restarted. The row before such a row ends its episode, so estimates
    do not cross it. `extras` has further inputs of the policy for each step, by name: `action_mask`
    `[T*N, n_actions]` bool, for example, which rows of `obs` also contain, as numbers after the observation.
    Minibatches have only valid rows, with their extras.

    For a recurrent policy, `first_state` is its state before the first row, and the extra `is_first` marks
    rows that begin an episode, where the state is zero.
    """

    obs: ArrayT  # [T*N, obs_dim] float32
    actions: ArrayT  # [T*N] int64, or rows [T*N, act_dim]: docs/actions.md
    log_probs: ArrayT  # [T*N], of the policy that acted
    values: ArrayT  # [T*N]
    rewards: ArrayT  # [T*N]
    terminated: ArrayT  # [T*N] bool: ended by the environment, no bootstrap
    truncated: ArrayT  # [T*N] bool: cut off, bootstrapped from the final observation
    next_values: ArrayT  # [T*N], V after the step: 0 if terminated, of final_obs if truncated
    advantages: ArrayT  # [T*N]
    returns: ArrayT  # [T*N] = advantages + values
    last_obs: ArrayT  # [N, obs_dim] float32, the first observations of the next rollout
    last_values: ArrayT  # [N]
    n_envs: int
    index: int = 0  # counts the collector's rollouts; part of the shuffle's key
    final_obs: FinalObs[ArrayT] | None = None
    valid: ArrayT | None = None  # [T*N] bool; None: every row
    extras: Mapping[str, ArrayT] = field(default_factory=dict)  # each [T*N, ...]
    first_state: ArrayT | None = None  # [N, state_size] float32; None: the policy is not recurrent

    @property
    def n_steps(self) -> int:
        """The number of steps T."""
        return len(self) // self.n_envs

    @property
    def dones(self) -> ArrayT:
        """`terminated | truncated`, `[T*N]`."""
        ends: Any = self.terminated
        dones: ArrayT = ends | self.truncated
        return dones

    def next_obs(self: Rollout[Tensor]) -> Tensor:
        """Return the observation after each step, never after a reset, `[T*N, obs_dim]` in new memory."""
        import torch

        after = torch.cat([self.obs[self.n_envs :], self.last_obs])
        if self.final_obs is not None:
            steps, envs, obs = self.final_obs
            after[steps * self.n_envs + envs] = obs
        return after

    def __len__(self) -> int:
        obs: Any = self.obs
        return len(obs)

    def to(self: Rollout[Tensor], device: torch.device | str) -> Rollout[Tensor]:
        """Return the rollout on another device (the same object if it is there already)."""
        return _to_device(self, device)

    def rows(self: Rollout[Tensor]) -> Minibatch:
        """Return all valid rows in order; without a copy if every row is valid."""
        return self._rows(self._valid_rows())

    def sample_minibatches(
        self: Rollout[Tensor], batch_size: int, shuffle: bool = True, generator: torch.Generator | None = None
    ) -> Iterator[Minibatch]:
        """Yield disjoint minibatches that cover every valid row once; the last one may be smaller.

        `generator` determines the order (torch's default generator if None).
        """
        if isinstance(batch_size, bool) or not isinstance(batch_size, Integral) or batch_size < 1:
            raise ShapeError(f"batch_size={batch_size!r}: expected a whole number of at least 1")
        order = self.shuffled_indices(generator) if shuffle else self._valid_rows()
        yield from self.minibatches(order, batch_size)

    def minibatches(self: Rollout[Tensor], order: Tensor | None, batch_size: int) -> Iterator[Minibatch]:
        """Yield the rows `order`, int64 indices on the rollout's device, in minibatches; `None`: all rows."""
        import torch

        # one gather for the epoch; the minibatches are slices that share its memory
        rows = self._rows(order)
        names, columns = tuple(rows.extras), (*rows[:-1], *rows.extras.values())
        for chunks in zip(*(torch.split(c, batch_size) for c in columns), strict=True):
            n_fixed = len(chunks) - len(names)
            extras = dict(zip(names, chunks[n_fixed:], strict=True))
            yield Minibatch._make((*chunks[:n_fixed], extras))

    def shuffled_indices(self: Rollout[Tensor], generator: torch.Generator | None = None) -> Tensor:
        """Return the indices of the valid rows, shuffled by `generator`."""
        import torch

        return self.ordered_indices(lambda count: torch.randperm(count, generator=generator))

    def ordered_indices(self: Rollout[Tensor], order: Callable[[int], Tensor]) -> Tensor:
        """Return the indices of the valid rows, int64, permuted by `order(number of valid rows)`."""
        rows = self._valid_rows()
        permutation = to_device(order(len(self) if rows is None else len(rows)), self.obs.device)
        return permutation if rows is None else rows[permutation]

    def _valid_rows(self: Rollout[Tensor]) -> Tensor | None:
        """Return the indices of the valid rows; `None` if all are valid."""
        if self.valid is None:
            return None
        index = self.valid.nonzero().squeeze(-1)
        if not len(index):
            raise ShapeError(
                f"none of the {len(self)} rows of rollout {self.index} is valid, expected at least one; "
                "collect more steps"
            )
        return index

    def _rows(self: Rollout[Tensor], order: Tensor | None) -> Minibatch:
        columns = [getattr(self, name) for name in Minibatch._fields[:-1]]
        if order is None:
            return Minibatch._make((*columns, self.extras))
        extras = {name: column.index_select(0, order) for name, column in self.extras.items()}
        return Minibatch._make((*(column.index_select(0, order) for column in columns), extras))


def _to_device(batch: B, device: torch.device | str) -> B:
    """Return a batch with all its tensors on `device`; the same object if they are there already."""
    import torch

    target = torch.device(device)
    if batch.obs.device == target:
        return batch
    return replace(batch, **{f.name: _field_to_device(getattr(batch, f.name), target) for f in fields(batch)})


def _field_to_device(value: Any, device: torch.device) -> Any:
    """Return a field of a batch on another device."""
    from torch import Tensor

    if isinstance(value, Tensor):
        return to_device(value, device)
    if isinstance(value, FinalObs):
        return FinalObs(*(to_device(part, device) for part in value))
    if isinstance(value, Mapping):
        return {name: to_device(column, device) for name, column in value.items()}
    return value


def update_label(batch: Transitions[Any], clock: Clock, earlier_trainings: int = 0) -> str:
    """Name an update for messages; it followed `earlier_trainings` of the same size in one call."""
    updates = clock.updates + earlier_trainings * len(batch)
    env_steps = batch.env_steps + earlier_trainings * (batch.env_steps - clock.env_steps)
    return f"update {updates} (env_steps {env_steps})"


def build_update(
    batch: Transitions[Any],
    metrics: Mapping[str, float],
    errors: NDArray[np.floating[Any]] | None,
    earlier_metrics: tuple[Mapping[str, float], ...] = (),
) -> Update:
    """Return the `Update` for these batches; absolute `errors` `[n, B]` become priorities of the rows.

    `earlier_metrics` are those of earlier trainings of the same size.
    """
    trainings, columns, indices = 1 + len(earlier_metrics), {}, None
    if batch.weights is not None and errors is not None:
        columns = {"priorities": np.abs(errors.ravel()).astype(np.float64)}
        indices = batch.indices.ravel()
    count, samples = trainings * len(batch), trainings * math.prod(batch.rewards.shape)
    return Update(metrics, count, samples, columns, indices, earlier_metrics)
