"""Any Gymnasium environment, several copies, in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlox._core import stream_seed
from rlox.envs.actions import ActionCodec
from rlox.envs.base import Finals, reward_of
from rlox.envs.columns import apart, joined
from rlox.envs.failures import encoded, raised
from rlox.envs.snapshot import can_save, restore_env, save_env
from rlox.envs.spaces import ObservationCodec
from rlox.envs.stacks import frames_in
from rlox.errors import EnvError

__all__ = ["EnvFactory", "SyncGymVecEnv", "start_seeds"]

EnvFactory = Callable[[], gym.Env[Any, Any]]


class SyncGymVecEnv:
    """Gymnasium environments stepped one after the other in this process.

    Environment i is seeded once, by `reset(seed=seed + i)`; later resets draw on from there. Where
    the environments can be saved (`rlox.envs.snapshot`) a resumed run goes on in mid-episode;
    elsewhere it starts new episodes from other seeds, so that it does not repeat its first ones.
    """

    infos: Sequence[Mapping[str, Any]] = ()

    def __init__(
        self, factories: Sequence[EnvFactory], seed: int, name: str, keep_infos: bool = False
    ) -> None:
        self.name = name
        self.keep_infos = keep_infos
        self.envs = [make() for make in factories]
        self.n_envs = len(self.envs)
        self.seed = seed
        self.starts = 0
        first = self.envs[0]
        self.resume_grade = "exact" if can_save(first) else "episode_start"
        self.observation_space = first.observation_space
        self.action_space = first.action_space
        codec = ObservationCodec.of(first.observation_space, name)
        self.observations = replace(codec, frames=frames_in(first))
        self.actions = ActionCodec.of(first.action_space, name)

    def reset_into(self, obs: NDArray[Any]) -> None:
        """Start every environment's first episode; writes `[n_envs, obs_dim]`."""
        seeds = start_seeds(self.seed, self.n_envs, self.starts)
        self.starts += 1
        infos = [self._restart(i, env, obs[i], seeds[i]) for i, env in enumerate(self.envs)]
        if self.keep_infos:
            self.infos = infos

    def step_into(
        self,
        actions: NDArray[Any],
        obs: NDArray[Any],
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
    ) -> Finals | None:
        """Step every environment in turn, resetting in place those whose episode ended."""
        given = self.actions.each(self.actions.to_env(actions))
        index: list[int] = []
        last: list[NDArray[Any]] = []
        infos: list[Mapping[str, Any]] = []
        final_infos: list[Mapping[str, Any]] = []
        for i, env in enumerate(self.envs):
            try:
                seen, reward, term, trunc, info = env.step(given[i])
                rewards[i], terminated[i], truncated[i] = reward_of(reward), term, trunc
            except (Exception, SystemExit) as error:
                raise _raised(self.name, i, "step", error) from error
            self._encode(i, seen, obs[i])
            if term or trunc:
                index.append(i)
                last.append(obs[i].copy())
                final_infos.append(dict(info))  # which the reset may write over
                info = self._restart(i, env, obs[i])
            infos.append(info)
        if self.keep_infos:
            self.infos = infos
        return Finals(np.asarray(index, np.int64), np.stack(last), final_infos) if index else None

    def state(self) -> dict[str, Any]:
        """How often it was started, and the environments' own state where it can be saved."""
        exact = self.resume_grade == "exact" and self.starts > 0
        return {
            "starts": self.starts,
            "envs": joined([save_env(env) for env in self.envs]) if exact else [],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on in mid-episode, or from the start of new ones than the run began with."""
        self.starts = int(state["starts"])
        trees = state["envs"]  # a list in checkpoints of before
        trees = trees if isinstance(trees, list) else apart(trees, self.n_envs)
        for env, saved in zip(self.envs, trees, strict=False):
            restore_env(env, saved)

    def close(self) -> None:
        """Close every environment."""
        for env in self.envs:
            env.close()

    def _restart(
        self, i: int, env: gym.Env[Any, Any], row: NDArray[Any], seed: int | None = None
    ) -> dict[str, Any]:
        try:
            first, info = env.reset(seed=seed)
        except (Exception, SystemExit) as error:
            raise _raised(self.name, i, "reset", error) from error
        self._encode(i, first, row)
        return info

    def _encode(self, i: int, observation: Any, row: NDArray[Any]) -> None:
        encoded(self.observations, observation, row, f"{self.name} (copy {i})")


def _raised(name: str, i: int, call: str, error: BaseException) -> EnvError:
    return EnvError(raised(f"{name} (copy {i})", call, error))


def start_seeds(seed: int, n_envs: int, starts: int) -> list[int]:
    """What to reset each environment with: `seed + i` at first, fresh keys when a run resumes."""
    if starts == 0:
        return [seed + i for i in range(n_envs)]
    return [stream_seed(seed, f"restart-{starts}", i) for i in range(n_envs)]
