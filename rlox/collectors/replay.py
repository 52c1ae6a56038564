"""The source of off-policy learning where Rust explores, stores, draws and learns in one call."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from numpy.typing import NDArray

from rlox._core import ReplayIteration, VecEnv
from rlox.collectors.native import Told, core_of, episodes_of
from rlox.errors import NonFiniteError
from rlox.policies.native_exploring import Explores
from rlox.policies.native_q import NativeQ
from rlox.policies.native_vectors import NativeDeterministic, NativeSquashed
from rlox.sources.replay import TICK_BATCHES, ReplaySource
from rlox.stopping import check
from rlox.types import Clock, Iterated, Progress, Transitions, Update

__all__ = ["NativeReplaySource", "Replays"]

A = NDArray[Any]
# What `_core.Explorer.collect` takes of a stretch, from its observations on.
Stretch = tuple[A, A, A, A, A, A, A, A, A | None, tuple[A, A] | None]


@runtime_checkable
class Replays(Protocol):
    """A learner whose batches are learned from in one call of an engine, `native.learns`."""

    native: NativeQ | NativeSquashed | NativeDeterministic

    def update(self, batch: Transitions, clock: Clock) -> Update:
        """Learn from the batches."""


class NativeReplaySource(ReplaySource):
    """A `ReplaySource` whose steps up to a training, what is drawn then and the training are one call.

    Where no batch is due, and before so many batches were drawn for the first time, the steps alone are one.
    In other environments than rlox's own, and normalised ones, they are taken one by one. None of it changes
    a bit.
    """

    behaviour: Explores
    mid_update = False  # whether the last `next` was broken off while it learned

    def __init__(self, learner: Replays, *given: Any) -> None:
        super().__init__(*given)
        self.learner = learner

    def next(self, clock: Clock) -> tuple[Transitions | Iterated | None, Progress]:
        """Collect, and learn from the first batches that are due then where that is one call."""
        self.mid_update = False
        n_steps, core = self._steps_ahead(clock), self._core()
        due = self._due(self.env_steps, self.env_steps + n_steps * self.env.n_envs)
        if self._owed or not due or core is None:
            return super().next(clock)
        count = min(due, self.memory.batches_at_once or TICK_BATCHES)
        drawn = self.memory.drawn(count, self.env_steps + n_steps * self.env.n_envs)
        if drawn is None:
            return super().next(clock)
        iterated = self._iterate(clock, core, n_steps, due, drawn)
        return iterated, Progress() if self._owed else self._report()

    def _iterate(
        self,
        clock: Clock,
        core: VecEnv,
        n_steps: int,
        due: int,
        drawn: tuple[dict[str, Any], Transitions],
    ) -> Iterated:
        """Make the call; what was collected stays collected if it fails while it learns."""
        self._begin(n_steps)
        stretch, given = self._stretch(n_steps, clock)
        self.memory.weigh(1.0 - clock.remaining)
        self.memory.last, batch = drawn
        iteration = ReplayIteration(
            self.behaviour.explorer,
            core,
            self.memory.buffer,
            self.memory.last,
            self.behaviour.vector,
            *stretch,
            given=given,
            **self.memory.returns,
        )
        native, found = self.learner.native, None
        native.learns = iteration
        try:
            update = self.learner.update(batch, clock)
        except BaseException as error:
            self.mid_update = iteration.collected
            if not iteration.collected:
                found = self._broken_off(n_steps, error)
            if found is None:
                raise
        finally:
            native.learns = native.engine
            if iteration.collected:
                self._took(n_steps, iteration.episodes())
                self._owed = due - len(batch)
        if found is not None:
            raise found
        return Iterated(update, iteration.seconds)

    def _took(self, n_steps: int, told: Told | None) -> None:
        """So many steps are stored."""
        self._episodes += episodes_of(told, self.env_steps, self.env.n_envs)
        self.steps += n_steps
        self._unreported += n_steps * self.env.n_envs
        self._filled = n_steps
        self._obs[:] = self._chunk.obs[n_steps]

    def _broken_off(self, n_steps: int, error: BaseException) -> NonFiniteError | None:
        """Nothing was stored: begin anew; which number was none, where that is why."""
        try:
            if isinstance(error, NonFiniteError):
                self._filled = n_steps
                self._chunk.require_finite(n_steps, self.env_steps)
        except NonFiniteError as found:
            return found
        finally:
            self._begin_anew(self.steps, len(self._episodes))
        return None

    def _step(self, n_steps: int, clock: Clock) -> None:
        core = self._core()
        if core is None:
            super()._step(n_steps, clock)
            return
        check()
        stretch, given = self._stretch(n_steps, clock)
        explorer, vector = self.behaviour.explorer, self.behaviour.vector
        with self.learner.native.using:
            told = explorer.collect(vector, core, *stretch, given=given)
        self._episodes += episodes_of(told, self.env_steps, self.env.n_envs)
        self.steps += n_steps

    def _core(self) -> VecEnv | None:
        """The environments, where Rust does all that is done to them."""
        return core_of(self.env, self.obs_normalizer, self.reward_normalizer)

    def _stretch(self, n_steps: int, clock: Clock) -> tuple[Stretch, int]:
        """What the next steps are written to and made of, and at how many of them no policy acts."""
        chunk, actions = self._chunk, self.actions
        chunk.obs[0] = self._obs
        elapsed = self._elapsed(n_steps, clock)
        noise = self.behaviour.ahead(self.steps, chunk.actions[:n_steps], elapsed)
        bounds = None if actions is None else (actions.low, actions.high)
        running = self.tracker.returns, self.tracker.lengths
        columns = chunk.obs[: n_steps + 1], *chunk.written(n_steps)
        return (*columns, *running, noise, bounds), n_steps - len(elapsed)

    def _elapsed(self, n_steps: int, clock: Clock) -> list[float]:
        """The parts of the run that are over at those of the next steps at which the policy acts."""
        began, n, horizon = self.env_steps, self.env.n_envs, clock.horizon or 1
        chance = -(-(self._random_until - began) // n)
        given = min(max(chance, 0), n_steps)
        return [min((began + t * n) / horizon, 1.0) for t in range(given, n_steps)]
