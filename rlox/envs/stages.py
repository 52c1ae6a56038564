"""Where episodes of an evaluation are played: places side by side, in this process or in supervised ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlox.envs.base import reset_of, step_of
from rlox.envs.failures import encoded, raised
from rlox.envs.gym_vec import SyncGymVecEnv, close_all
from rlox.envs.seeding import seeded_reset
from rlox.envs.spaces import ObservationCodec
from rlox.errors import EnvError, RloxError

__all__ = ["BorrowedStage", "LocalStage", "Stage", "Stepped"]


class Stepped(NamedTuple):
    """What a step came to, by place."""

    rewards: NDArray[np.float64]  # `[places]`; of those that were stepped and not lost
    ended: set[int]  # whose episode is over
    lost: set[int]  # whose episode came to nothing and has begun again, from its seed


class Stage(Protocol):
    """An environment in each place."""

    rows: NDArray[Any]  # `[places, obs_dim]`: what a policy acts on next

    def begin(self, seeds: Mapping[int, int]) -> set[int]:
        """Begin episodes, by their seeds; the places whose episodes had to begin again, also others."""

    def step(self, actions: Mapping[int, Any]) -> Stepped:
        """A step in each place that an action is for, as its environment takes it."""

    def close(self) -> None:
        """Close the environments."""


class LocalStage:
    """Environments in this process, one after the other: one that fails is an error at once."""

    def __init__(
        self, envs: Sequence[gym.Env[Any, Any]], observations: ObservationCodec, name: str
    ) -> None:
        self.envs, self.observations, self.name = envs, observations, name
        self.rows = observations.rows(len(envs))
        self._rewards = np.zeros(len(envs))
        self._seeds = [0 for _ in envs]

    def begin(self, seeds: Mapping[int, int]) -> set[int]:
        """Begin episodes, by their seeds; none has to begin again."""
        for place, seed in seeds.items():
            self._seeds[place] = seed
            try:
                seen, _ = reset_of(seeded_reset(self.envs[place], seed))
            except RloxError:
                raise
            except (Exception, SystemExit) as error:
                raise self._raised(place, "reset", error) from error
            self._write(place, seen)
        return set()

    def step(self, actions: Mapping[int, Any]) -> Stepped:
        """A step in each place that an action is for."""
        ended = set()
        for place, action in actions.items():
            try:
                seen, reward, terminated, truncated, _ = step_of(self.envs[place].step(action))
                self._rewards[place] = reward
            except RloxError:
                raise
            except (Exception, SystemExit) as error:
                raise self._raised(place, "step", error) from error
            self._write(place, seen)
            if terminated or truncated:
                ended.add(place)
        return Stepped(self._rewards, ended, set())

    def close(self) -> None:
        """Close every environment."""
        close_all(self.envs, self.name)

    def _write(self, place: int, seen: Any) -> None:
        encoded(self.observations, seen, self.rows[place], self._episode(place))

    def _raised(self, place: int, call: str, error: BaseException) -> EnvError:
        return EnvError(raised(self._episode(place), call, error))

    def _episode(self, place: int) -> str:
        return f"{self.name} (evaluation episode of seed {self._seeds[place]})"


class BorrowedStage(LocalStage):
    """The environments that training steps, for where no others can live beside them.

    Closing it gives them back: training goes on in mid-episode where they can be saved, else with others.
    """

    def __init__(self, vec: SyncGymVecEnv, places: int, observations: ObservationCodec) -> None:
        super().__init__(vec.envs[:places], observations, vec.name)
        self._vec, self._state = vec, vec.state()

    def close(self) -> None:
        """Give the environments back."""
        self._vec.take_back(self._state)
