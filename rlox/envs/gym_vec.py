"""Several copies of a Gymnasium environment in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlox.envs.actions import ActionCodec
from rlox.envs.base import EpisodeEnds, copy_info, unpack_reset, unpack_step
from rlox.envs.env_ownership import EnvOwner
from rlox.envs.failures import close_or_warn, encode_checked, env_error_message
from rlox.envs.frame_stacks import stacked_frames
from rlox.envs.identity import require_distinct_envs
from rlox.envs.parts_codec import codec_of
from rlox.envs.seeding import KEYED, Seeding, seeded_reset
from rlox.envs.snapshot import can_save, restore_env, save_env
from rlox.envs.state_columns import stack_states, unstack_states
from rlox.errors import EnvError, RloxError

__all__ = ["EnvFactory", "SyncGymVecEnv", "close_all", "make_all"]

EnvFactory = Callable[[], gym.Env[Any, Any]]


def make_all(factories: Sequence[EnvFactory]) -> list[gym.Env[Any, Any]]:
    """Make one environment per factory; if one fails, close those made before."""
    envs: list[gym.Env[Any, Any]] = []
    try:
        for make in factories:
            env = make()
            envs.append(env)
    except BaseException:
        for env in envs:
            with suppress(Exception):  # the factory's error is the one to report
                env.close()
        raise
    return envs


def close_all(envs: Sequence[gym.Env[Any, Any]], name: str) -> None:
    """Close every environment; an exception in a `close` is logged as a warning."""
    for i, env in enumerate(envs):
        close_or_warn(env, f"{name} (copy {i})")


class SyncGymVecEnv(EnvOwner):
    """Gymnasium environments stepped one after the other in this process.

    Each environment is seeded once, by the rule `seeding` (`rlox.envs.seeding`); later resets continue its
    random generator. If the environments can be saved (`rlox.envs.snapshot`), a resumed run continues in
    mid-episode; otherwise it starts new episodes from other seeds, so that it does not repeat its first ones.
    """

    infos: Sequence[Mapping[str, Any]] = ()

    def __init__(
        self,
        factories: Sequence[EnvFactory],
        seed: int,
        name: str,
        keep_infos: bool = False,
        seeding: str = KEYED,
    ) -> None:
        self.name = name
        self.keep_infos = keep_infos
        self.n_envs = len(factories)
        self.seeding = Seeding(seed, self.n_envs, seeding)
        self.n_starts = 0
        self._must_restart = False  # whether an evaluation borrowed and changed the environments
        self.envs = make_all(factories)
        require_distinct_envs(self.envs, name)
        try:
            first = self.envs[0]
            self.resume_grade = "exact" if can_save(first) else "episode_start"
            self.observation_space = first.observation_space
            self.action_space = first.action_space
            codec = codec_of(first.observation_space, name)
            self.observations = replace(codec, n_frames=stacked_frames(first))
            self.actions = ActionCodec.of(first.action_space, name)
        except BaseException:
            self.close()
            raise

    def reset_into(self, obs: NDArray[Any]) -> None:
        """Start every environment's first episode; writes `[n_envs, obs_dim]`."""
        self.claim(self.envs)
        self._must_restart = False
        seeds = [self.seeding.start_seed(i, self.n_starts) for i in range(self.n_envs)]
        self.n_starts += 1
        infos = [self._reset_env(i, env, obs[i], seeds[i]) for i, env in enumerate(self.envs)]
        if self.keep_infos:
            self.infos = list(map(copy_info, infos))

    def step_into(
        self,
        actions: NDArray[Any],
        obs: NDArray[Any],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
    ) -> EpisodeEnds | None:
        """Step every environment in turn, resetting in place those whose episode ended."""
        self.require_ownership()
        if self._must_restart:
            return self._restart_all(obs, rewards, terminated, truncated)
        env_actions = self.actions.unbatch(self.actions.to_env(actions))
        ended_envs: list[int] = []
        final_obs: list[NDArray[Any]] = []
        infos: list[Mapping[str, Any]] = []
        final_infos: list[Mapping[str, Any]] = []
        for i, env in enumerate(self.envs):
            try:
                observation, rewards[i], term, trunc, info = unpack_step(env.step(env_actions[i]))
            except (Exception, SystemExit) as error:
                raise _env_error(self.name, i, "step", error) from error
            terminated[i], truncated[i] = term, trunc
            self._encode(i, observation, obs[i])
            if term or trunc:
                ended_envs.append(i)
                final_obs.append(obs[i].copy())
                final_infos.append(copy_info(info))  # a copy, as the reset may overwrite it
                info = self._reset_env(i, env, obs[i])
            if self.keep_infos:
                infos.append(copy_info(info))
        if self.keep_infos:
            self.infos = infos
        return (
            EpisodeEnds(np.asarray(ended_envs, np.int64), np.stack(final_obs), final_infos)
            if ended_envs
            else None
        )

    def state(self) -> dict[str, Any]:
        """Return the count of starts, and the environments' own states if they can be saved."""
        exact = self.resume_grade == "exact" and self.n_starts > 0
        return {
            "starts": self.n_starts,
            "envs": stack_states(list(map(self._env_state, range(self.n_envs)))) if exact else [],
            **self.seeding.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue in mid-episode, or let new episodes begin that differ from the run's first ones."""
        self.claim(self.envs)
        self.n_starts = int(state["starts"])
        self.seeding.restore(state)
        trees = state["envs"]  # a list in older checkpoints, or if no states were saved
        trees = trees if isinstance(trees, list) else unstack_states(trees, self.n_envs)
        for i, (env, saved) in enumerate(zip(self.envs, trees, strict=False)):
            try:
                restore_env(env, saved)
            except RloxError:
                raise
            except (Exception, SystemExit) as error:
                raise _env_error(self.name, i, "load_state", error) from error

    def restore_after_loan(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()` after an evaluation has stepped the environments.

        Environments that cannot be saved lose their current episodes and begin others in the next step.
        """
        if self.resume_grade == "exact":
            self.restore(state)
        else:
            self._must_restart = self.n_starts > 0

    def _restart_all(
        self,
        obs: NDArray[Any],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
    ) -> EpisodeEnds:
        """Perform a step in which every environment begins another episode."""
        self.reset_into(obs)
        rewards[:], terminated[:], truncated[:] = 0.0, False, True
        all_envs = np.arange(self.n_envs)
        return EpisodeEnds(all_envs[:0], obs[:0].copy(), lost_envs=all_envs, restarts=1)

    def close(self) -> None:
        """Close every environment, once."""
        if not self.closed:
            self.closed = True
            close_all(self.envs, self.name)

    def _env_state(self, i: int) -> dict[str, Any]:
        try:
            return save_env(self.envs[i])
        except (Exception, SystemExit) as error:
            raise _env_error(self.name, i, "save_state", error) from error

    def _reset_env(
        self, i: int, env: gym.Env[Any, Any], row: NDArray[Any], seed: int | None = None
    ) -> Mapping[str, Any]:
        try:
            observation, info = unpack_reset(seeded_reset(env, seed))
        except (Exception, SystemExit) as error:
            raise _env_error(self.name, i, "reset", error) from error
        self._encode(i, observation, row)
        return info

    def _encode(self, i: int, observation: Any, row: NDArray[Any]) -> None:
        encode_checked(self.observations, observation, row, f"{self.name} (copy {i})")


def _env_error(name: str, i: int, call: str, error: BaseException) -> EnvError:
    return EnvError(env_error_message(f"{name} (copy {i})", call, error))
