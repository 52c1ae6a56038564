"""Where episodes of an evaluation are played: places side by side, in this process or in supervised ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlox.envs.base import reward_of
from rlox.envs.failures import encoded
from rlox.envs.spaces import ObservationCodec
from rlox.errors import EnvError, RloxError

__all__ = ["LocalStage", "Stage", "Stepped"]


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
                seen = self.envs[place].reset(seed=seed)[0]
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
                seen, reward, terminated, truncated, _ = self.envs[place].step(action)
                self._rewards[place] = reward_of(reward)
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
        for env in self.envs:
            env.close()

    def _write(self, place: int, seen: Any) -> None:
        encoded(self.observations, seen, self.rows[place], self._episode(place))

    def _raised(self, place: int, call: str, error: BaseException) -> EnvError:
        kind = type(error).__name__
        return EnvError(f"{self._episode(place)} raised {kind} in {call}: {error}")

    def _episode(self, place: int) -> str:
        return f"{self.name} (evaluation episode of seed {self._seeds[place]})"
