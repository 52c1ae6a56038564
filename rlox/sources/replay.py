"""The source of off-policy learning: steps environments, stores transitions, samples batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlox.devices import inference_mode
from rlox.envs.actions import UnitCodec
from rlox.envs.base import NO_ENVS, VectorEnv
from rlox.envs.normalize import ObservationNormalizer, RewardNormalizer
from rlox.errors import CheckpointError
from rlox.sources.env_state import env_identity, restore_envs, resume_warning
from rlox.sources.episodes import EpisodeTracker
from rlox.sources.replay_sampler import ReplaySampler
from rlox.sources.store import Store
from rlox.sources.transition_chunks import StepArrays
from rlox.stopping import raise_if_expired
from rlox.types import Clock, Episode, FusedUpdate, Progress, Transitions, Update

__all__ = ["ExplorationPolicy", "ReplaySource", "UpdateSchedule"]

# A tick is one call of `next`. It takes at most this many environment steps, so that hooks and signals are
# served during warm-up.
MAX_TICK_STEPS = 4096
MAX_TICK_ROWS = 256  # most steps of each environment in one tick
# At most this many batches are drawn in one tick; a training with more batches takes several ticks.
MAX_TICK_BATCHES = 64


class ExplorationPolicy(Protocol):
    """How a learner explores.

    Its randomness is a function of the step number, so no generator is saved.
    """

    def random_actions(self, step: int, obs: NDArray[Any]) -> NDArray[Any]:
        """Return random actions `[N]` or `[N, act_dim]` for step number `step`, without the policy.

        It may read only the action masks in `obs` `[N, obs_dim]` (`rlox.envs.masks`).
        """

    def act(self, obs: NDArray[Any], step: int, elapsed: float) -> NDArray[Any]:
        """Return exploring actions for `obs` `[N, obs_dim]`; `elapsed` is the finished fraction of the run.

        It is called in inference mode, with the source's policy in evaluation mode.
        """


@dataclass(frozen=True)
class UpdateSchedule:
    """When to learn; steps are counted over all environments together."""

    learning_starts: int  # steps before learning; their actions are random, unless `skip_random_warmup`
    train_freq: int  # steps between two trainings
    batches_due: Callable[[int, int], int]  # (from, to): number of batches for the steps in (from, to]


class ReplaySource:
    """Steps environments, stores every transition and samples the batches that are due.

    A tick collects steps and returns the batches that became due, or none during warm-up. A training of many
    batches takes several ticks; its last tick reports the steps. The buffer stores the policy's actions;
    `action_codec`, if given, turns them into environment actions. All steps of a tick run inside one
    `acting_context` block.
    """

    def __init__(
        self,
        env: VectorEnv,
        replay_sampler: ReplaySampler,
        exploration: ExplorationPolicy,
        update_schedule: UpdateSchedule,
        obs_normalizer: ObservationNormalizer | None = None,
        reward_normalizer: RewardNormalizer | None = None,
        action_codec: UnitCodec | None = None,
        acting_context: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.env = env
        self.action_codec = action_codec
        self._acting_context = acting_context
        self.replay_sampler = replay_sampler
        self.exploration = exploration
        self.update_schedule = update_schedule
        self.obs_normalizer = obs_normalizer
        self.reward_normalizer = reward_normalizer
        self.tracker = EpisodeTracker(env.n_envs)
        self.vector_steps = 0  # steps of each environment
        self._learning_starts_at = update_schedule.learning_starts
        self._random_until = update_schedule.learning_starts
        self._pending_batches = 0  # batches that are due but not yet sampled
        self._unreported_steps = 0  # environment steps not reported yet
        self._episodes: list[Episode] = []  # finished episodes not reported yet
        self._obs = env.observations.rows(env.n_envs)
        self._started = False
        self._step_arrays = StepArrays.of(1, env)
        self._n_filled = 0

    @property
    def env_steps(self) -> int:
        """Steps taken, summed over all environments."""
        return self.vector_steps * self.env.n_envs

    @property
    def resume_grade(self) -> str:
        """The resume grade of the environments."""
        return self.env.resume_grade

    @property
    def stored_bytes(self) -> int:
        """Bytes of the full buffer."""
        return self.replay_sampler.full_bytes

    def skip_random_warmup(self) -> None:
        """Fill the buffer with the policy's own steps, because the policy comes from another run."""
        self._random_until = 0

    def next(self, clock: Clock) -> tuple[Transitions[Any] | FusedUpdate | None, Progress]:
        """Collect until batches are due or the tick is long enough; return the due batches, or None."""
        if not self._pending_batches:
            self._collect(clock)
        if not self._pending_batches:
            return None, self._report()
        # `batches_at_once` is None if any number of batches can be drawn together
        count = min(self._pending_batches, self.replay_sampler.batches_at_once or MAX_TICK_BATCHES)
        self._pending_batches -= count
        batch = self.replay_sampler.sample(count, 1.0 - clock.remaining, self.env_steps)
        self._normalize(batch)
        return batch, Progress() if self._pending_batches else self._report()

    def feedback(self, update: Update) -> None:
        """Write the update's columns to the rows that it learned from."""
        if update.indices is not None:
            self.replay_sampler.write_columns(update.indices, update.columns)

    def save(self, store: Store) -> dict[str, Any]:
        """Return everything that the next batch depends on, besides the learner.

        Of the infos of unreported episodes only `is_success` is saved: other values may not be serialisable.
        """
        state: dict[str, Any] = {
            "env": self.env.state(),
            "engine": env_identity(self.env),
            "obs": self._obs.copy(),
            "started": self._started,
            "steps": self.vector_steps,
            "learns_from": self._learning_starts_at,
            "owed": self._pending_batches,
            "unreported": self._unreported_steps,
            "unreported_episodes": [[*e[:4], e.is_success] for e in self._episodes],
            "episodes": self.tracker.state(),
            "buffer": store.save(self.replay_sampler.buffer),
        }
        if self._random_until != self.update_schedule.learning_starts:
            state["acts_at_once"] = True  # the policy acts from the first step, without a random warm-up
        if self.replay_sampler.packing is not None:
            # the buffer stores discrete observations as integers; earlier versions stored them one-hot,
            # without this key
            state["packed"] = True
        if self.obs_normalizer:
            state["obs_normalizer"] = self.obs_normalizer.state()
        if self.reward_normalizer:
            state["reward_normalizer"] = self.reward_normalizer.state()
        return state

    def restore(self, state: Mapping[str, Any], store: Store) -> None:
        """Continue from the state that `save` returned.

        Environments that cannot be saved start new episodes. Without the saved rows the policy first fills
        the buffer for `learning_starts` steps, then learning continues.
        """
        self.vector_steps, self._pending_batches = int(state["steps"]), int(state["owed"])
        self._learning_starts_at, self._unreported_steps = int(state["learns_from"]), int(state["unreported"])
        self._episodes = [_episode(fields) for fields in state["unreported_episodes"]]
        if (
            min(self.vector_steps, self._pending_batches, self._unreported_steps, self._learning_starts_at)
            < 0
        ):
            raise CheckpointError("a count of the replay source is negative")
        if state.get("acts_at_once", False):
            self.skip_random_warmup()
        if self.obs_normalizer:
            self.obs_normalizer.restore(state["obs_normalizer"])
        if self.reward_normalizer:
            self.reward_normalizer.restore(state["reward_normalizer"])
        if not state.get("packed", False):
            self.replay_sampler.use_one_hot_buffer()
        if not store.load_into(self.replay_sampler.buffer, state["buffer"]):
            self._pending_batches = 0
            self._learning_starts_at = self.env_steps + self.update_schedule.learning_starts
        if restore_envs(self.env, state, self._obs, self.tracker, self.reward_normalizer):
            self._started = bool(state["started"])
            return
        for env in range(self.env.n_envs):
            self.replay_sampler.buffer.cut_episode(env)  # the next step does not continue the stored episode

    def resume_warning(self, state: Mapping[str, Any]) -> str:
        """Say why the buffer or the episodes do not continue exactly; empty if they do."""
        if state["buffer"] is None:
            return "the buffer fills anew: its rows were not saved"
        return resume_warning(self.env, state)

    def last_batch(self) -> dict[str, NDArray[Any]]:
        """Return the steps of the last tick and the last batches, for inspection."""
        steps = {f"steps_{k}": v for k, v in self._step_arrays.columns(self._n_filled).items()}
        return steps | self.replay_sampler.last_sample

    def close(self) -> None:
        """Close the environments."""
        try:
            self.env.close()
        finally:
            self.replay_sampler.close()

    def _report(self) -> Progress:
        progress = self.tracker.progress(self._unreported_steps, self._episodes)
        self._unreported_steps, self._episodes = 0, []
        return progress

    def _collect(self, clock: Clock) -> None:
        """Step until a training is due, the tick is long enough, or the run ends."""
        steps_before, n_steps = self.env_steps, self._steps_ahead(clock)
        self._prepare_steps(n_steps)
        vector_steps_before, episodes_before = self.vector_steps, len(self._episodes)
        try:
            with inference_mode(), self._acting_context():
                self._step(n_steps, clock)
            self._n_filled = n_steps
            self._step_arrays.require_finite(n_steps, steps_before)
            for chunk in self._step_arrays.transition_chunks(n_steps):
                self.replay_sampler.push(chunk)
            self._obs[:] = self._step_arrays.obs[n_steps]
        except BaseException:
            self._discard_steps(vector_steps_before, episodes_before)
            raise
        self._unreported_steps += self.env_steps - steps_before
        # if every step so far was lost, the buffer is empty and cannot be sampled
        self._pending_batches = (
            self._batches_due(steps_before, self.env_steps) if len(self.replay_sampler.buffer) else 0
        )

    def _prepare_steps(self, n_steps: int) -> None:
        """Make room for `n_steps` steps and reset the environments if they have not started."""
        if len(self._step_arrays.rewards) < n_steps:
            self._step_arrays = StepArrays.of(n_steps, self.env)
        self._n_filled = 0
        self._step_arrays.clear()
        self._start()

    def _batches_due(self, before: int, after: int) -> int:
        """Count the batches that are due for the environment steps in (before, after]."""
        start = max(before, self._learning_starts_at)
        return self.update_schedule.batches_due(start, after) if after > start else 0

    def _discard_steps(self, steps: int, n_episodes: int) -> None:
        """Restore the step count after an error; new episodes begin, as environment states are unknown."""
        self.vector_steps, self._started = steps, False
        del self._episodes[n_episodes:]
        self.tracker.reset()
        if self.reward_normalizer:
            self.reward_normalizer.returns[:] = 0.0
        for env in range(self.env.n_envs):
            self.replay_sampler.buffer.cut_episode(env)

    def _steps_ahead(self, clock: Clock) -> int:
        """Count the steps of each environment until a training is due or the tick must end; at least one."""
        # without a horizon `units_left` is 0; then it does not bound the tick
        units_left = clock.units_left or MAX_TICK_STEPS
        return min(self._steps_to_training(self.env_steps), -(-units_left // self.env.n_envs))

    def _steps_to_training(self, env_steps: int) -> int:
        """Count the steps of each environment from `env_steps` to the next training, within a tick."""
        train_freq = self.update_schedule.train_freq
        # the next training, after the warm-up
        next_training = (max(env_steps, self._learning_starts_at) // train_freq + 1) * train_freq
        steps_left = min(next_training - env_steps, MAX_TICK_STEPS)
        return max(1, min(-(-steps_left // self.env.n_envs), MAX_TICK_ROWS))

    def _step(self, n_steps: int, clock: Clock) -> None:
        """Take `n_steps` steps of every environment; the hot loop of collection."""
        arrays, n = self._step_arrays, self.env.n_envs
        arrays.obs[0] = self._obs
        horizon = clock.horizon or 1
        for t in range(n_steps):
            raise_if_expired()
            if self.env_steps < self._random_until:
                arrays.actions[t] = self.exploration.random_actions(self.vector_steps, arrays.obs[t])
            else:
                elapsed = min(self.env_steps / horizon, 1.0)
                obs = self._normalized_obs(arrays.obs[t])
                arrays.actions[t] = self.exploration.act(obs, self.vector_steps, elapsed)
            env_actions = arrays.actions[t]
            if self.action_codec is not None:
                env_actions = self.action_codec.to_bounds(env_actions)
            rewards, flags = arrays.rewards[t], (arrays.terminated[t], arrays.truncated[t])
            ends = self.env.step_into(env_actions, arrays.obs[t + 1], rewards, *flags)
            arrays.set_next_obs(t, ends)
            self.vector_steps += 1
            self.tracker.add(rewards)
            if ends is not None:
                self._episodes += self.tracker.finish(ends.envs, self.vector_steps * n, ends.infos)
                self.tracker.drop_episodes(ends.lost_envs, ends.restarts)
                self.tracker.undo_step(ends.autoreset_envs)
            if self.obs_normalizer:
                self.obs_normalizer.update(arrays.obs[t + 1])
            if self.reward_normalizer:
                invalid_envs = NO_ENVS if ends is None else ends.invalid_envs
                self.reward_normalizer.scale(rewards, flags[0] | flags[1], invalid_envs)

    def _start(self) -> None:
        if not self._started:
            self.env.reset_into(self._obs)
            if self.obs_normalizer:
                self.obs_normalizer.update(self._obs)
            self._started = True

    def _normalized_obs(self, obs: NDArray[Any]) -> NDArray[Any]:
        """Return observations as the policy sees them; the buffer stores raw ones."""
        if self.obs_normalizer is None:
            return obs
        rows = obs.copy()
        self.obs_normalizer.apply(rows)
        return rows

    def _normalize(self, batch: Transitions[Any]) -> None:
        """Normalise sampled rows in place with the current statistics."""
        if self.obs_normalizer:
            for column in (batch.obs, batch.next_obs):
                self.obs_normalizer.apply(np.asarray(column.reshape(-1, column.shape[-1])))
        if self.reward_normalizer:
            self.reward_normalizer.apply(np.asarray(batch.rewards))


def _episode(fields: Any) -> Episode:
    env_steps, env, total, length, success = fields
    info = None if success is None else {"is_success": bool(success)}
    return Episode(int(env_steps), int(env), float(total), int(length), info)
