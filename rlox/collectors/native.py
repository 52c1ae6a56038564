"""Rollouts of a policy that acts in Rust."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from rlox._core import Iteration, VecEnv
from rlox.collectors.rollout import RolloutCollector
from rlox.envs.base import VectorEnv
from rlox.envs.native import NativeVecEnv
from rlox.policies.native import Acts, NativePolicy
from rlox.sources.advantages import gae
from rlox.sources.arena import Arena, Ended
from rlox.sources.collector import look_ahead
from rlox.types import Episode, Iterated, Rollout

__all__ = ["Learn", "NativeCollector", "Told", "core_of", "episodes_of"]

# Steps, environments, last observations, sums of rewards and lengths of the episodes that ended.
Told = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]

# Makes the call that collects and learns: of which rollout, and how many rows that has.
Learn = Callable[[Iteration, int, int], Iterated]


class NativeCollector(RolloutCollector):
    """A `RolloutCollector` for a `NativePolicy`; the same parameters, and of modules the same rollouts.

    What rlox steps in Rust is stepped, acted for, written and valued in one call; other environments, and
    normalised ones, step by step, with the same numbers: which of the two changes no bit.
    """

    mid_update = False  # whether the last `iterate` was broken off while it learned

    def gather(self, policy: Acts, n_steps: int) -> Rollout:
        """As `collect`, but where the environments wrote it: on the CPU, in the arena's memory."""
        if not isinstance(policy, NativePolicy):
            return super().gather(policy, n_steps)
        return self._gathered(policy, n_steps, tensors=True)

    def arrays(self, policy: NativePolicy, n_steps: int) -> Rollout:
        """As `collect`, with NumPy's arrays where tensors are: what a learner in Rust reads."""
        rollout = self._gathered(policy, n_steps, tensors=False)
        gae(rollout, self.gamma, self.gae_lambda)
        return rollout

    def _gathered(self, policy: NativePolicy, n_steps: int, tensors: bool) -> Rollout:
        policy.check()
        arena = self._arena_of(n_steps)
        self._start(arena)
        core = self._core()
        if core is not None:
            ended, episodes = self._collect(policy, arena, core)
            return self._finished(arena, ended, episodes, tensors)
        with self._whole():
            episodes = self._step_all(arena, self._acting(policy, arena))
            ended = arena.ended()
            self._value(policy, arena, ended)
            return self._finished(arena, ended, episodes, tensors)

    def iterate(self, policy: NativePolicy, n_steps: int, learn: Learn) -> Iterated | None:
        """Collect the next rollout and learn from it in one call, where Rust does all that is done to it.

        `None` elsewhere, and nothing is done.
        """
        core, self.mid_update = self._core(), False
        if core is None:
            return None
        policy.check()
        arena = self._arena_of(n_steps)
        self._start(arena)
        rows, began = n_steps * self.n_envs, self.env_steps
        iteration = Iteration(
            policy.actor,
            core,
            *arena.written,
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
            iterated = learn(iteration, self.rollouts, rows)
        except BaseException:
            if iteration.collected:  # what broke off is the learning
                self.mid_update = True
                self.env_steps += rows
                self._check_finite(arena)
                self.rollouts += 1
            raise
        finally:
            self._obs[:] = arena.obs[n_steps]
        self.env_steps += rows
        self.mid_update = True  # for a last observation that is refused: it was learned from
        _, episodes = self._told(iteration.episodes(), began)
        self.mid_update = False
        self.progress = self.tracker.progress(rows, episodes)
        self.rollouts += 1
        return iterated

    def _core(self) -> VecEnv | None:
        """The environments, where Rust does all that is done to them."""
        return core_of(self.env, self.obs_normalizer, self.reward_normalizer)

    def _collect(
        self, policy: NativePolicy, arena: Arena, core: VecEnv
    ) -> tuple[Ended | None, list[Episode]]:
        """Fill the arena in one call."""
        n_steps, began = arena.shape[0], self.env_steps
        arena.obs[n_steps] = arena.obs[0]  # where the environments stand if the call is never made
        try:
            with policy.using:
                told = policy.actor.collect(
                    policy.vector,
                    core,
                    *arena.written,
                    self.tracker.returns,
                    self.tracker.lengths,
                    seed=self.streams.seed,
                    rollout=self.rollouts,
                )
        finally:
            self._obs[:] = arena.obs[n_steps]
        self.env_steps += n_steps * self.n_envs
        return self._told(told, began)

    def _told(self, told: Told | None, began: int) -> tuple[Ended | None, list[Episode]]:
        """What `_core` says of the episodes that ended after `began` steps."""
        ended = None
        if told is not None:
            steps, envs, last = ended = told[:3]
            self._check_last(last, envs, steps)
        return ended, episodes_of(told, began, self.n_envs)

    def _acting(self, policy: NativePolicy, arena: Arena) -> Callable[[int], None]:
        """What writes the actions of step t, their log-probabilities and the values of what was seen."""
        vector, masked = policy.vector, self.env.observations.masked
        seed, rollout, act = self.streams.seed, self.rollouts, policy.actor.act

        def acts(t: int) -> None:
            obs, mask = arena.obs[t], None
            if masked:
                obs, mask = obs[:, :-masked], obs[:, -masked:] != 0
            columns = arena.actions[t], arena.log_probs[t], arena.values[t]
            with policy.using:
                act(vector, obs, *columns, seed=seed, rollout=rollout, step=t, mask=mask)

        return acts

    def _value(self, policy: NativePolicy, arena: Arena, ended: Ended | None) -> None:
        """Values of what the last step and the last ones of episodes reached."""
        vector, masked = policy.vector, self.env.observations.masked
        seen = slice(None, -masked if masked else None)
        values = policy.actor.values
        with policy.using:
            arena.values[-1] = values(vector, arena.obs[-1][:, seen])
            look_ahead(arena, ended, lambda cut, last: values(vector, last[:, seen]))


def core_of(env: VectorEnv, *normalizers: object) -> VecEnv | None:
    """The environments as Rust has them, where they are rlox's own and nothing is normalised."""
    if type(env) is not NativeVecEnv or any(normalizers):
        return None
    return env.core if type(env.core) is VecEnv else None


def episodes_of(told: Told | None, began: int, n_envs: int) -> list[Episode]:
    """The episodes of which `_core` says that they ended after `began` steps of the environments together."""
    if told is None:
        return []
    steps, envs, _, totals, lengths = told
    at = (began + (steps + 1) * n_envs).tolist()
    return list(map(Episode, at, envs.tolist(), totals.tolist(), lengths.tolist()))
