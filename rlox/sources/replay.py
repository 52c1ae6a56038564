"""The source of off-policy learning: the learner explores, and learns from what a buffer holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlox.devices import inference_mode
from rlox.envs.actions import UnitCodec
from rlox.envs.base import NOBODY, VectorEnv
from rlox.envs.normalize import ObservationNormalizer, RewardNormalizer
from rlox.errors import CheckpointError
from rlox.sources.chunk import Chunk
from rlox.sources.engine import engine_of, go_on, interruption
from rlox.sources.episodes import EpisodeTracker
from rlox.sources.memory import Memory
from rlox.sources.store import Store
from rlox.stopping import check
from rlox.types import Clock, Episode, Iterated, Progress, Transitions, Update

__all__ = ["Behaviour", "Cadence", "ReplaySource"]

# Environment steps between two ticks at most, so that hooks and signals are served while warming up.
TICK_STEPS = 4096
TICK_ROWS = 256  # steps of every environment in them
# Batches drawn in one call at most; a longer training takes several ticks.
TICK_BATCHES = 64


class Behaviour(Protocol):
    """How a learner explores.

    Its randomness is a function of the step number, so that no generator has to be saved.
    """

    def random(self, step: int, obs: NDArray[Any]) -> NDArray[Any]:
        """Actions `[N]` or `[N, act_dim]` that no policy chose, of step number `step`.

        Of `obs` `[N, obs_dim]` it may look at what is allowed (`rlox.envs.masks`).
        """

    def act(self, obs: NDArray[Any], step: int, elapsed: float) -> NDArray[Any]:
        """Exploring actions for `obs` `[N, obs_dim]`; `elapsed` is the part of the run that is over.

        Called in inference mode, with the policy of the source in evaluation mode.
        """


@dataclass(frozen=True)
class Cadence:
    """When to learn, in environment steps of all copies together."""

    learning_starts: int  # until then nothing is learned; actions are random but for `act_at_once`
    train_freq: int  # from one training to the next
    due: Callable[[int, int], int]  # batches for the steps from (excluded) to (included)


class ReplaySource:
    """Steps environments, keeps every transition, and draws what is due to be learned.

    A tick is a stretch of steps with the batches that became due, or without any while warming up.
    A training of many batches takes several ticks; the steps are counted with the last of them.
    Stored are the actions of the policy; where they are not yet the environment's, `actions` makes
    those of them. Each stretch of steps is taken in a block of `acting`.
    """

    def __init__(
        self,
        env: VectorEnv,
        memory: Memory,
        behaviour: Behaviour,
        cadence: Cadence,
        obs_normalizer: ObservationNormalizer | None = None,
        reward_normalizer: RewardNormalizer | None = None,
        actions: UnitCodec | None = None,
        acting: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.env = env
        self.actions = actions
        self._acting = acting
        self.memory = memory
        self.behaviour = behaviour
        self.cadence = cadence
        self.obs_normalizer = obs_normalizer
        self.reward_normalizer = reward_normalizer
        self.tracker = EpisodeTracker(env.n_envs)
        self.steps = 0  # of every environment
        self._learns_from = cadence.learning_starts
        self._random_until = cadence.learning_starts
        self._owed = 0  # batches that are due
        self._unreported = 0  # environment steps, and episodes, of the training under way
        self._episodes: list[Episode] = []
        self._obs = env.observations.rows(env.n_envs)
        self._started = False
        self._chunk = Chunk.of(1, env)
        self._filled = 0

    @property
    def env_steps(self) -> int:
        """Steps taken, all environments together."""
        return self.steps * self.env.n_envs

    @property
    def resume_grade(self) -> str:
        """What the environments can do."""
        return self.env.resume_grade

    @property
    def stored_bytes(self) -> int:
        """The buffer when it is full."""
        return self.memory.full_bytes

    def act_at_once(self) -> None:
        """Fill the buffer with the policy's own steps: it is one that has learned elsewhere."""
        self._random_until = 0

    def next(self, clock: Clock) -> tuple[Transitions | Iterated | None, Progress]:
        """Collect until batches are due, or for some time while none will be."""
        if not self._owed:
            self._collect(clock)
        if not self._owed:
            return None, self._report()
        count = min(self._owed, self.memory.batches_at_once or TICK_BATCHES)
        self._owed -= count
        batch = self.memory.sample(count, 1.0 - clock.remaining, self.env_steps)
        self._normalize(batch)
        return batch, Progress() if self._owed else self._report()

    def feedback(self, update: Update) -> None:
        """Write the update's columns to the rows that it learned from."""
        if update.indices is not None:
            self.memory.write(update.indices, update.columns)

    def save(self, store: Store) -> dict[str, Any]:
        """Everything the next batch depends on, besides the learner.

        Of the infos of episodes that ended in a training under way, which are not reported yet, only
        `is_success` is kept: the others may be anything.
        """
        state: dict[str, Any] = {
            "env": self.env.state(),
            "engine": engine_of(self.env),
            "obs": self._obs.copy(),
            "started": self._started,
            "steps": self.steps,
            "learns_from": self._learns_from,
            "owed": self._owed,
            "unreported": self._unreported,
            "unreported_episodes": [[*e[:4], e.success] for e in self._episodes],
            "episodes": self.tracker.state(),
            "buffer": store.keep(self.memory.buffer),
        }
        if self._random_until != self.cadence.learning_starts:
            state["acts_at_once"] = True
        if self.memory.packing is not None:
            state["packed"] = True  # integers, which are one-hot in checkpoints of before
        if self.obs_normalizer:
            state["obs_normalizer"] = self.obs_normalizer.state()
        if self.reward_normalizer:
            state["reward_normalizer"] = self.reward_normalizer.state()
        return state

    def restore(self, state: Mapping[str, Any], store: Store) -> None:
        """Continue from what `save` returned.

        Environments that cannot be saved start new episodes. Without the rows the buffer fills anew,
        for `learning_starts` steps of the policy, before learning goes on.
        """
        self.steps, self._owed = int(state["steps"]), int(state["owed"])
        self._learns_from, self._unreported = int(state["learns_from"]), int(state["unreported"])
        self._episodes = [_episode(fields) for fields in state["unreported_episodes"]]
        if min(self.steps, self._owed, self._unreported, self._learns_from) < 0:
            raise CheckpointError("a count of the replay source is negative")
        if state.get("acts_at_once", False):
            self.act_at_once()
        if self.obs_normalizer:
            self.obs_normalizer.restore(state["obs_normalizer"])
        if self.reward_normalizer:
            self.reward_normalizer.restore(state["reward_normalizer"])
        if not state.get("packed", False):
            self.memory.keep_one_hot()
        if not store.fill(self.memory.buffer, state["buffer"]):
            self._owed = 0
            self._learns_from = self.env_steps + self.cadence.learning_starts
        if go_on(self.env, state, self._obs, self.tracker, self.reward_normalizer):
            self._started = bool(state["started"])
            return
        for env in range(self.env.n_envs):
            self.memory.buffer.cut_episode(env)  # what comes next does not follow what was

    def interruption(self, state: Mapping[str, Any]) -> str:
        """Why the environments do not go on in mid-episode, or what they had done is not there."""
        if state["buffer"] is None:
            return "the buffer fills anew: its rows were not saved"
        return interruption(self.env, state)

    def last_batch(self) -> dict[str, NDArray[Any]]:
        """The last stretch of steps, and the last batches, to look into."""
        steps = {f"steps_{k}": v for k, v in self._chunk.columns(self._filled).items()}
        return steps | self.memory.last

    def close(self) -> None:
        """Close the environments."""
        try:
            self.env.close()
        finally:
            self.memory.close()

    def _report(self) -> Progress:
        progress = self.tracker.progress(self._unreported, self._episodes)
        self._unreported, self._episodes = 0, []
        return progress

    def _collect(self, clock: Clock) -> None:
        """Step until a training is due, the tick is long enough, or the run ends."""
        before, n_steps = self.env_steps, self._steps_ahead(clock)
        self._begin(n_steps)
        began, told = self.steps, len(self._episodes)
        try:
            with inference_mode(), self._acting():
                self._step(n_steps, clock)
            self._filled = n_steps
            self._chunk.require_finite(n_steps, before)
            for stretch in self._chunk.stretches(n_steps):
                self.memory.push(stretch)
            self._obs[:] = self._chunk.obs[n_steps]
        except BaseException:
            self._begin_anew(began, told)
            raise
        self._unreported += self.env_steps - before
        # from no rows, as where every step so far was lost, nothing can be drawn
        self._owed = self._due(before, self.env_steps) if len(self.memory.buffer) else 0

    def _begin(self, n_steps: int) -> None:
        """Have room for so many steps, and environments that have begun."""
        if len(self._chunk.rewards) < n_steps:
            self._chunk = Chunk.of(n_steps, self.env)
        self._filled = 0
        self._chunk.clear()
        self._start()

    def _due(self, before: int, after: int) -> int:
        """Batches for the environment steps from (excluded) to (included)."""
        since = max(before, self._learns_from)
        return self.cadence.due(since, after) if after > since else 0

    def _begin_anew(self, steps: int, told: int) -> None:
        """Nobody knows where the environments stand: go back to `steps`, with new episodes from there."""
        self.steps, self._started = steps, False
        del self._episodes[told:]
        self.tracker.forget()
        if self.reward_normalizer:
            self.reward_normalizer.returns[:] = 0.0
        for env in range(self.env.n_envs):
            self.memory.buffer.cut_episode(env)

    def _steps_ahead(self, clock: Clock) -> int:
        """Steps of every environment until something happens, at least one."""
        every, taken, n = self.cadence.train_freq, self.env_steps, self.env.n_envs
        # the first training after the warm-up, or after now
        training = (max(taken, self._learns_from) // every + 1) * every
        until = min(training - taken, clock.left or training - taken, TICK_STEPS)
        return max(1, min(-(-until // n), TICK_ROWS))

    def _step(self, n_steps: int, clock: Clock) -> None:
        """The hot loop of collection."""
        chunk, n = self._chunk, self.env.n_envs
        chunk.obs[0] = self._obs
        horizon = clock.horizon or 1
        for t in range(n_steps):
            check()
            if self.env_steps < self._random_until:
                chunk.actions[t] = self.behaviour.random(self.steps, chunk.obs[t])
            else:
                elapsed = min(self.env_steps / horizon, 1.0)
                seen = self._seen(chunk.obs[t])
                chunk.actions[t] = self.behaviour.act(seen, self.steps, elapsed)
            given = chunk.actions[t]
            if self.actions is not None:
                given = self.actions.stretched(given)
            rewards, ended = chunk.rewards[t], (chunk.terminated[t], chunk.truncated[t])
            finals = self.env.step_into(given, chunk.obs[t + 1], rewards, *ended)
            chunk.follow(t, finals)
            self.steps += 1
            self.tracker.add(rewards)
            if finals is not None:
                self._episodes += self.tracker.finish(finals.envs, self.steps * n, finals.infos)
                self.tracker.lose(finals.lost, finals.restarts)
                self.tracker.skip(finals.idle)
            if self.obs_normalizer:
                self.obs_normalizer.learn(chunk.obs[t + 1])
            if self.reward_normalizer:
                void = NOBODY if finals is None else finals.void
                self.reward_normalizer.scale(rewards, ended[0] | ended[1], void)

    def _start(self) -> None:
        if not self._started:
            self.env.reset_into(self._obs)
            if self.obs_normalizer:
                self.obs_normalizer.learn(self._obs)
            self._started = True

    def _seen(self, obs: NDArray[Any]) -> NDArray[Any]:
        """Observations as the policy sees them; the raw ones are what is stored."""
        if self.obs_normalizer is None:
            return obs
        rows = obs.copy()
        self.obs_normalizer.apply(rows)
        return rows

    def _normalize(self, batch: Transitions) -> None:
        """Standardise drawn rows by what is known now, in place."""
        if self.obs_normalizer:
            for column in (batch.obs, batch.next_obs):
                self.obs_normalizer.apply(np.asarray(column.reshape(-1, column.shape[-1])))
        if self.reward_normalizer:
            self.reward_normalizer.apply(np.asarray(batch.rewards))


def _episode(fields: Any) -> Episode:
    env_steps, env, total, length, success = fields
    info = None if success is None else {"is_success": bool(success)}
    return Episode(int(env_steps), int(env), float(total), int(length), info)
