"""A collector of rollouts for policies that act in Rust."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from rlox._core import Iteration, VecEnv
from rlox.envs.base import VectorEnv
from rlox.envs.native import NativeVecEnv
from rlox.native.policy import NativePolicy
from rlox.parameters.lazy_torch import ActingPolicy
from rlox.sources.arena import Arena, FinalObsTable
from rlox.sources.collector import fill_next_values
from rlox.sources.rollout_collector import RolloutCollector, gae
from rlox.types import Episode, FusedUpdate, Rollout

__all__ = ["EndedEpisodes", "FusedCall", "NativeCollector", "native_core", "to_episodes"]

# Steps, environments, last observations, returns and lengths of the episodes that ended.
EndedEpisodes = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]

# A function that collects and learns; it takes the iteration, the rollout's index and its number of rows.
FusedCall = Callable[[Iteration, int, int], FusedUpdate]


class NativeCollector(RolloutCollector):
    """A `RolloutCollector` for a `NativePolicy`, with the same parameters.

    For native environments without normalisation, one call into Rust acts, steps, writes the rollout and
    computes the values. For other environments, each step is a call. The results are bit-identical. With a
    torch module it behaves like a `RolloutCollector`.
    """

    is_mid_update = False  # whether the last `fused_collect` was interrupted while learning

    def collect_in_arena(self, policy: ActingPolicy, n_steps: int) -> Rollout:
        """Like `collect`, but without advantages; the rollout stays in the arena's memory, on the CPU."""
        if not isinstance(policy, NativePolicy):
            return super().collect_in_arena(policy, n_steps)
        return self._collect_rollout(policy, n_steps, as_tensors=True)

    def collect_arrays(self, policy: NativePolicy, n_steps: int) -> Rollout[NDArray[Any]]:
        """Like `collect`, with NumPy arrays instead of tensors, for a learner in Rust."""
        rollout = self._collect_rollout(policy, n_steps, as_tensors=False)
        gae(rollout, self.gamma, self.gae_lambda)
        return rollout

    def _collect_rollout(self, policy: NativePolicy, n_steps: int, as_tensors: bool) -> Rollout[Any]:
        policy.check()
        arena = self._arena_for(n_steps)
        self._start(arena)
        core = self._native_core()
        if core is not None:
            final_obs, episodes = self._collect(policy, arena, core)
            return self._finish_rollout(arena, final_obs, episodes, as_tensors)
        with self._undo_on_error():
            episodes = self._step_all(arena, self._native_act(policy, arena))
            final_obs = arena.final_obs_table()
            self._fill_values(policy, arena, final_obs)
            return self._finish_rollout(arena, final_obs, episodes, as_tensors)

    def fused_collect(self, policy: NativePolicy, n_steps: int, fused_call: FusedCall) -> FusedUpdate | None:
        """Collect the next rollout and learn from it in one call, for native environments.

        Return `None`, and do nothing, for other environments and with normalisation.
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
        arena.obs[n_steps] = arena.obs[0]  # the present observations, in case the call fails before stepping
        try:
            fused_update = fused_call(iteration, self.rollouts, rows)
        except BaseException:
            if iteration.collected:  # learning was interrupted, not collecting
                self.is_mid_update = True
                self.env_steps += rows
                self._check_finite(arena)
                self.rollouts += 1
            raise
        finally:
            self._obs[:] = arena.obs[n_steps]
        self.env_steps += rows
        self.is_mid_update = True  # learned from already, if the next line rejects a last observation
        _, episodes = self._unpack_ended(iteration.episodes(), start_step)
        self.is_mid_update = False
        self.progress = self.tracker.progress(rows, episodes)
        self.rollouts += 1
        return fused_update

    def _native_core(self) -> VecEnv | None:
        """Return the native environments if nothing is normalised, else None."""
        return native_core(self.env, self.obs_normalizer, self.reward_normalizer)

    def _collect(
        self, policy: NativePolicy, arena: Arena, core: VecEnv
    ) -> tuple[FinalObsTable | None, list[Episode]]:
        """Fill the arena in one call."""
        n_steps, start_step = arena.shape[0], self.env_steps
        arena.obs[n_steps] = arena.obs[0]  # the present observations, in case the call fails before stepping
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
        """Return the final observations and the `Episode`s that ended in a rollout from `start_step` on."""
        final_obs = None
        if ended_episodes is not None:
            steps, envs, last_obs = final_obs = ended_episodes[:3]
            self._require_finite_last_obs(last_obs, envs, steps)
        return final_obs, to_episodes(ended_episodes, start_step, self.n_envs)

    def _native_act(self, policy: NativePolicy, arena: Arena) -> Callable[[int], None]:
        """Return a function that writes actions, log-probabilities and values of step t to the arena."""
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
        """Compute the values of the last observations of the rollout and of its ended episodes."""
        vector, mask_dim = policy.vector, self.env.observations.mask_dim
        input_columns = slice(None, -mask_dim if mask_dim else None)
        values = policy.rollout_policy.values
        with policy.lock:
            arena.values[-1] = values(vector, arena.obs[-1][:, input_columns])
            fill_next_values(arena, final_obs, lambda cut, last: values(vector, last[:, input_columns]))


def native_core(env: VectorEnv, *normalizers: object) -> VecEnv | None:
    """Return the environments' Rust object if they are native and nothing is normalised, else None."""
    if type(env) is not NativeVecEnv or any(normalizers):
        return None
    return env.core if type(env.core) is VecEnv else None


def to_episodes(ended_episodes: EndedEpisodes | None, start_step: int, n_envs: int) -> list[Episode]:
    """Convert the episodes that ended in a call; all environments had made `start_step` steps before it."""
    if ended_episodes is None:
        return []
    steps, envs, _, totals, lengths = ended_episodes
    end_steps = (start_step + (steps + 1) * n_envs).tolist()
    return list(map(Episode, end_steps, envs.tolist(), totals.tolist(), lengths.tolist()))
