"""Any Gymnasium environment, several copies, in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlox.envs.actions import ActionCodec
from rlox.envs.base import Finals, copied, reset_of, step_of
from rlox.envs.columns import apart, joined
from rlox.envs.failures import close_or_warn, encoded, raised
from rlox.envs.identity import require_apart
from rlox.envs.seeding import KEYED, Seeding, seeded_reset
from rlox.envs.snapshot import can_save, restore_env, save_env
from rlox.envs.spaces import ObservationCodec
from rlox.envs.stacks import frames_in
from rlox.envs.turns import Turns
from rlox.errors import EnvError, RloxError

__all__ = ["EnvFactory", "SyncGymVecEnv", "close_all", "opened"]

EnvFactory = Callable[[], gym.Env[Any, Any]]


def opened(factories: Sequence[EnvFactory]) -> list[gym.Env[Any, Any]]:
    """An environment of each factory; where one cannot be made, those before it are closed."""
    envs: list[gym.Env[Any, Any]] = []
    try:
        for make in factories:
            env = make()
            envs.append(env)
    except BaseException:
        for env in envs:
            with suppress(Exception):  # the error is that of what cannot be made
                env.close()
        raise
    return envs


def close_all(envs: Sequence[gym.Env[Any, Any]], name: str) -> None:
    """Close every environment, also behind one whose `close` raises: that is a warning."""
    for i, env in enumerate(envs):
        close_or_warn(env, f"{name} (copy {i})")


class SyncGymVecEnv(Turns):
    """Gymnasium environments stepped one after the other in this process.

    Each environment is seeded once, by the rule `seeding` (`rlox.envs.seeding`); later resets draw on from
    there. Where the environments can be saved (`rlox.envs.snapshot`) a resumed run goes on in mid-episode;
    elsewhere it starts new episodes from other seeds, so that it does not repeat its first ones.
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
        self.starts = 0
        self._lent = False  # to an evaluation, which left the environments where it ended
        self.envs = opened(factories)
        require_apart(self.envs, name)
        try:
            first = self.envs[0]
            self.resume_grade = "exact" if can_save(first) else "episode_start"
            self.observation_space = first.observation_space
            self.action_space = first.action_space
            codec = ObservationCodec.of(first.observation_space, name)
            self.observations = replace(codec, frames=frames_in(first))
            self.actions = ActionCodec.of(first.action_space, name)
        except BaseException:
            self.close()
            raise

    def reset_into(self, obs: NDArray[Any]) -> None:
        """Start every environment's first episode; writes `[n_envs, obs_dim]`."""
        self.take(self.envs)
        self._lent = False
        seeds = [self.seeding.start_seed(i, self.starts) for i in range(self.n_envs)]
        self.starts += 1
        infos = [self._restart(i, env, obs[i], seeds[i]) for i, env in enumerate(self.envs)]
        if self.keep_infos:
            self.infos = list(map(copied, infos))

    def step_into(
        self,
        actions: NDArray[Any],
        obs: NDArray[Any],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
    ) -> Finals | None:
        """Step every environment in turn, resetting in place those whose episode ended."""
        self.require_turn()
        if self._lent:
            return self._begin_anew(obs, rewards, terminated, truncated)
        given = self.actions.each(self.actions.to_env(actions))
        index: list[int] = []
        last: list[NDArray[Any]] = []
        infos: list[Mapping[str, Any]] = []
        final_infos: list[Mapping[str, Any]] = []
        for i, env in enumerate(self.envs):
            try:
                seen, rewards[i], term, trunc, info = step_of(env.step(given[i]))
            except (Exception, SystemExit) as error:
                raise _raised(self.name, i, "step", error) from error
            terminated[i], truncated[i] = term, trunc
            self._encode(i, seen, obs[i])
            if term or trunc:
                index.append(i)
                last.append(obs[i].copy())
                final_infos.append(copied(info))  # which the reset may write over
                info = self._restart(i, env, obs[i])
            if self.keep_infos:
                infos.append(copied(info))
        if self.keep_infos:
            self.infos = infos
        return Finals(np.asarray(index, np.int64), np.stack(last), final_infos) if index else None

    def state(self) -> dict[str, Any]:
        """How often it was started, and the environments' own state where it can be saved."""
        exact = self.resume_grade == "exact" and self.starts > 0
        return {
            "starts": self.starts,
            "envs": joined(list(map(self._saved, range(self.n_envs)))) if exact else [],
            **self.seeding.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on in mid-episode, or from the start of new ones than the run began with."""
        self.take(self.envs)
        self.starts = int(state["starts"])
        self.seeding.restore(state)
        trees = state["envs"]  # a list in checkpoints of before
        trees = trees if isinstance(trees, list) else apart(trees, self.n_envs)
        for i, (env, saved) in enumerate(zip(self.envs, trees, strict=False)):
            try:
                restore_env(env, saved)
            except RloxError:
                raise
            except (Exception, SystemExit) as error:
                raise _raised(self.name, i, "load_state", error) from error

    def take_back(self, state: Mapping[str, Any]) -> None:
        """Go on from `state()` after somebody else has stepped the environments.

        Those that cannot be saved lose the episodes under way and begin others in the next step.
        """
        if self.resume_grade == "exact":
            self.restore(state)
        else:
            self._lent = self.starts > 0

    def _begin_anew(
        self,
        obs: NDArray[Any],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
    ) -> Finals:
        """A step in which every environment begins another episode."""
        self.reset_into(obs)
        rewards[:], terminated[:], truncated[:] = 0.0, False, True
        everyone = np.arange(self.n_envs)
        return Finals(everyone[:0], obs[:0].copy(), lost=everyone, restarts=1)

    def close(self) -> None:
        """Close every environment, once."""
        if not self.closed:
            self.closed = True
            close_all(self.envs, self.name)

    def _saved(self, i: int) -> dict[str, Any]:
        try:
            return save_env(self.envs[i])
        except (Exception, SystemExit) as error:
            raise _raised(self.name, i, "save_state", error) from error

    def _restart(
        self, i: int, env: gym.Env[Any, Any], row: NDArray[Any], seed: int | None = None
    ) -> Mapping[str, Any]:
        try:
            first, info = reset_of(seeded_reset(env, seed))
        except (Exception, SystemExit) as error:
            raise _raised(self.name, i, "reset", error) from error
        self._encode(i, first, row)
        return info

    def _encode(self, i: int, observation: Any, row: NDArray[Any]) -> None:
        encoded(self.observations, observation, row, f"{self.name} (copy {i})")


def _raised(name: str, i: int, call: str, error: BaseException) -> EnvError:
    return EnvError(raised(f"{name} (copy {i})", call, error))
