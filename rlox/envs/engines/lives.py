"""Games with several lives: where an engine says that one goes on behind a lost life."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlox.configs import EnvConfig
from rlox.configs.atari import is_ale

__all__ = ["AleLives", "EnvPoolLives", "LifeTracker", "life_tracker_for"]


class LifeTracker(Protocol):
    """What an engine's infos say of games, reset by reset and step by step."""

    autoresets_after_life: bool  # whether the step after a lost life is none, as that after a game

    def reset(self, infos: Mapping[str, Any]) -> None:
        """Take in the infos of a reset of all."""

    def step(self, infos: Mapping[str, Any]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whose game goes on if its episode ended in this step, and whose began in it; `[n_envs]` each."""


class EnvPoolLives:
    """EnvPool's games: its own word on the end of a game is in the infos."""

    autoresets_after_life = True

    def reset(self, infos: Mapping[str, Any]) -> None:
        """Nothing is kept."""

    def step(self, infos: Mapping[str, Any]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """What is over here is so for EnvPool; it tells the end of every game."""
        is_over = np.asarray(infos["terminated"]) != 0
        return ~is_over, np.zeros_like(is_over)


class AleLives:
    """ALE's games: one goes on where a life was lost and some are left.

    Lives that are left do not say so alone, as games may end with some (Adventure has one all the time).
    Where a life is lost in the very step that ends such a game it is taken to go on; the frames of the
    next one, counted from its beginning, then tell that the step after it is no transition.
    """

    autoresets_after_life = False

    def __init__(self) -> None:
        self._lives = self._frames = np.zeros(0, np.int64)  # `[n_envs]` of the last step

    def reset(self, infos: Mapping[str, Any]) -> None:
        """Keep how many lives there are, and which frame of each game it is."""
        self._lives = np.array(infos["lives"], np.int64)  # copies: an engine may use its arrays again
        self._frames = np.array(infos["episode_frame_number"], np.int64)

    def step(self, infos: Mapping[str, Any]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Against the step before."""
        lives, frames = self._lives, self._frames
        self.reset(infos)
        return (self._lives > 0) & (self._lives < lives), self._frames < frames


def life_tracker_for(config: EnvConfig) -> LifeTracker | None:
    """How lives are read from the engine of these games; `None` where none ends an episode."""
    if not (is_ale(config.id) and config.atari.life_loss):
        return None
    return EnvPoolLives() if config.backend == "envpool" else AleLives()
