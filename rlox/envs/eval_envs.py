"""Environments of an evaluation: several slots side by side, in this process or in worker processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlox.envs.base import unpack_reset, unpack_step
from rlox.envs.failures import encode_checked, env_error_message
from rlox.envs.gym_vec import SyncGymVecEnv, close_all
from rlox.envs.seeding import seeded_reset
from rlox.envs.spaces import ObservationCodec
from rlox.errors import EnvError, RloxError

__all__ = ["BorrowedEvalEnvs", "EvalEnvs", "EvalStep", "LocalEvalEnvs"]


class EvalStep(NamedTuple):
    """The results of a step, by slot."""

    rewards: NDArray[np.float64]  # `[n_slots]`; valid for the slots that were stepped and not lost
    ended_slots: set[int]  # slots whose episode is over
    lost_slots: set[int]  # slots whose episode was lost and has restarted from its seed


class EvalEnvs(Protocol):
    """The environments of an evaluation, one in each slot."""

    obs: NDArray[Any]  # `[n_slots, obs_dim]`: the policy's next input

    def reset(self, seeds: Mapping[int, int]) -> set[int]:
        """Begin an episode in each slot of `seeds`; returns the slots that had to restart.

        A failure may make other slots restart too.
        """

    def step(self, actions: Mapping[int, Any]) -> EvalStep:
        """Step each slot in `actions`, with an action in the environment's form."""

    def close(self) -> None:
        """Close the environments."""


class LocalEvalEnvs:
    """Environments in this process, stepped one after the other; a failure raises an error at once."""

    def __init__(self, envs: Sequence[gym.Env[Any, Any]], observations: ObservationCodec, name: str) -> None:
        self.envs, self.observations, self.name = envs, observations, name
        self.obs = observations.rows(len(envs))
        self._rewards = np.zeros(len(envs))
        self._seeds = [0 for _ in envs]

    def reset(self, seeds: Mapping[int, int]) -> set[int]:
        """Begin episodes from their seeds; returns an empty set, since no episode restarts."""
        for slot, seed in seeds.items():
            self._seeds[slot] = seed
            try:
                observation, _ = unpack_reset(seeded_reset(self.envs[slot], seed))
            except RloxError:
                raise
            except (Exception, SystemExit) as error:
                raise self._env_error(slot, "reset", error) from error
            self._write(slot, observation)
        return set()

    def step(self, actions: Mapping[int, Any]) -> EvalStep:
        """Step each slot in `actions`."""
        ended_slots = set()
        for slot, action in actions.items():
            try:
                observation, reward, terminated, truncated, _ = unpack_step(self.envs[slot].step(action))
                self._rewards[slot] = reward
            except RloxError:
                raise
            except (Exception, SystemExit) as error:
                raise self._env_error(slot, "step", error) from error
            self._write(slot, observation)
            if terminated or truncated:
                ended_slots.add(slot)
        return EvalStep(self._rewards, ended_slots, set())

    def close(self) -> None:
        """Close every environment."""
        close_all(self.envs, self.name)

    def _write(self, slot: int, observation: Any) -> None:
        encode_checked(self.observations, observation, self.obs[slot], self._episode_label(slot))

    def _env_error(self, slot: int, call: str, error: BaseException) -> EnvError:
        return EnvError(env_error_message(self._episode_label(slot), call, error))

    def _episode_label(self, slot: int) -> str:
        return f"{self.name} (evaluation episode of seed {self._seeds[slot]})"


class BorrowedEvalEnvs(LocalEvalEnvs):
    """Borrows the training environments if a second set cannot exist.

    `close()` gives them back: training continues in mid-episode if their state can be saved, else with new
    episodes.
    """

    def __init__(self, vec_env: SyncGymVecEnv, n_slots: int, observations: ObservationCodec) -> None:
        super().__init__(vec_env.envs[:n_slots], observations, vec_env.name)
        self._vec_env, self._state = vec_env, vec_env.state()

    def close(self) -> None:
        """Give the environments back."""
        self._vec_env.restore_after_loan(self._state)
