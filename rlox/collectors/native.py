"""Rollouts of a policy that acts in Rust."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from rlox._core import Iteration, VecEnv
from rlox.collectors.rollout import RolloutCollector
from rlox.envs.base import VectorEnv
from rlox.envs.native import NativeVecEnv
from rlox.policies.native import ActingPolicy, NativePolicy
from rlox.sources.advantages import gae
from rlox.sources.arena import Arena, FinalObsTable
from rlox.sources.collector import fill_next_values
from rlox.types import Episode, FusedUpdate, Rollout

__all__ = ["EndedEpisodes", "FusedCall", "NativeCollector", "native_core", "to_episodes"]

# Steps, environments, last observations, sums of rewards and lengths of the episodes that ended.
EndedEpisodes = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]

# Makes the call that collects and learns: of which rollout, and how many rows that has.
FusedCall = Callable[[Iteration, int, int], FusedUpdate]


class NativeCollector(RolloutCollector):
    """A `RolloutCollector` for a `NativePolicy`; the same parameters, and of modules the same rollouts.

    What rlox steps in Rust is stepped, acted for, written and valued in one call; other environments, and
    normalised ones, step by step, with the same numbers: which of the two changes no bit.
    """

    is_mid_update = False  # whether the last `fused_collect` was broken off while it learned

    def collect_in_arena(self, policy: ActingPolicy, n_steps: int) -> Rollout:
        """As `collect`, but where the environments wrote it: on the CPU, in the arena's memory."""
        if not isinstance(policy, NativePolicy):
            return super().collect_in_arena(policy, n_steps)
        return self._gather(policy, n_steps, tensors=True)

    def collect_arrays(self, policy: NativePolicy, n_steps: int) -> Rollout:
        """As `collect`, with NumPy's arrays where tensors are: what a learner in Rust reads."""
        rollout = self._gather(policy, n_steps, tensors=False)
        gae(rollout, self.gamma, self.gae_lambda)
        return rollout

    def _gather(self, policy: NativePolicy, n_steps: int, tensors: bool) -> Rollout:
        policy.check()
        arena = self._arena_for(n_steps)
        self._start(arena)
        core = self._native_core()
        if core is not None:
            final_obs, episodes = self._collect(policy, arena, core)
            return self._finish_rollout(arena, final_obs, episodes, tensors)
        with self._undo_on_error():
            episodes = self._step_all(arena, self._native_act(policy, arena))
            final_obs = arena.final_obs_table()
            self._fill_values(policy, arena, final_obs)
            return self._finish_rollout(arena, final_obs, episodes, tensors)

    def fused_collect(self, policy: NativePolicy, n_steps: int, fused_call: FusedCall) -> FusedUpdate | None:
        """Collect the next rollout and learn from it in one call, where Rust does all that is done to it.

        `None` elsewhere, and nothing is done.
        """
        core, self.is_mid_update = self._native_core(), False
        if core is None:
            return None
        policy.check()
        arena = self._arena_for(n_steps)
        self._start(arena)
        rows, start_step = n_steps * self.n_envs, self.env_steps
        iteration = Iteration(
            policy.rollout_policy,
            core,
            *arena.collected_columns,
            arena.advantages,
            arena.returns,
            self.tracker.returns,
            self.tracker.lengths,
            seed=self.streams.seed,
            rollout=self.rollouts,
            gamma=self.gamma,
            lam=self.gae_lambda,
        )
        arena.obs[n_steps] = arena.obs[0]  # where the environments stand if the call is never made
        try:
            fused_update = fused_call(iteration, self.rollouts, rows)
        except BaseException:
            if iteration.collected:  # what broke off is the learning
                self.is_mid_update = True
                self.env_steps += rows
                self._check_finite(arena)
                self.rollouts += 1
            raise
        finally:
            self._obs[:] = arena.obs[n_steps]
        self.env_steps += rows
        self.is_mid_update = True  # for a last observation that is refused: it was learned from
        _, episodes = self._unpack_ended(iteration.episodes(), start_step)
        self.is_mid_update = False
        self.progress = self.tracker.progress(rows, episodes)
        self.rollouts += 1
        return fused_update

    def _native_core(self) -> VecEnv | None:
        """The environments, where Rust does all that is done to them."""
        return native_core(self.env, self.obs_normalizer, self.reward_normalizer)

    def _collect(
        self, policy: NativePolicy, arena: Arena, core: VecEnv
    ) -> tuple[FinalObsTable | None, list[Episode]]:
        """Fill the arena in one call."""
        n_steps, start_step = arena.shape[0], self.env_steps
        arena.obs[n_steps] = arena.obs[0]  # where the environments stand if the call is never made
        try:
            with policy.lock:
                ended_episodes = policy.rollout_policy.collect(
                    policy.vector,
                    core,
                    *arena.collected_columns,
                    self.tracker.returns,
                    self.tracker.lengths,
                    seed=self.streams.seed,
                    rollout=self.rollouts,
                )
        finally:
            self._obs[:] = arena.obs[n_steps]
        self.env_steps += n_steps * self.n_envs
        return self._unpack_ended(ended_episodes, start_step)

    def _unpack_ended(
        self, ended_episodes: EndedEpisodes | None, start_step: int
    ) -> tuple[FinalObsTable | None, list[Episode]]:
        """What `_core` says of the episodes that ended after `start_step` steps."""
        final_obs = None
        if ended_episodes is not None:
            steps, envs, last_obs = final_obs = ended_episodes[:3]
            self._require_finite_last_obs(last_obs, envs, steps)
        return final_obs, to_episodes(ended_episodes, start_step, self.n_envs)

    def _native_act(self, policy: NativePolicy, arena: Arena) -> Callable[[int], None]:
        """What writes the actions of step t, their log-probabilities and the values of what was seen."""
        vector, mask_dim = policy.vector, self.env.observations.mask_dim
        seed, rollout, act = self.streams.seed, self.rollouts, policy.rollout_policy.act

        def act_at(t: int) -> None:
            obs, mask = arena.obs[t], None
            if mask_dim:
                obs, mask = obs[:, :-mask_dim], obs[:, -mask_dim:] != 0
            columns = arena.actions[t], arena.log_probs[t], arena.values[t]
            with policy.lock:
                act(vector, obs, *columns, seed=seed, rollout=rollout, step=t, mask=mask)

        return act_at

    def _fill_values(self, policy: NativePolicy, arena: Arena, final_obs: FinalObsTable | None) -> None:
        """Values of what the last step and the last ones of episodes reached."""
        vector, mask_dim = policy.vector, self.env.observations.mask_dim
        input_columns = slice(None, -mask_dim if mask_dim else None)
        values = policy.rollout_policy.values
        with policy.lock:
            arena.values[-1] = values(vector, arena.obs[-1][:, input_columns])
            fill_next_values(arena, final_obs, lambda cut, last: values(vector, last[:, input_columns]))


def native_core(env: VectorEnv, *normalizers: object) -> VecEnv | None:
    """The environments as Rust has them, where they are rlox's own and nothing is normalised."""
    if type(env) is not NativeVecEnv or any(normalizers):
        return None
    return env.core if type(env.core) is VecEnv else None


def to_episodes(ended_episodes: EndedEpisodes | None, start_step: int, n_envs: int) -> list[Episode]:
    """The episodes of which `_core` says that they ended after `start_step` steps of the environments
    together.
    """
    if ended_episodes is None:
        return []
    steps, envs, _, totals, lengths = ended_episodes
    end_steps = (start_step + (steps + 1) * n_envs).tolist()
    return list(map(Episode, end_steps, envs.tolist(), totals.tolist(), lengths.tolist()))
