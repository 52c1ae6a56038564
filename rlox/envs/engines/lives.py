"""Games with several lives: how an engine reports that a game continues after a lost life."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlox.configs import EnvConfig
from rlox.configs.env import is_ale

__all__ = ["AleLives", "EnvPoolLives", "LifeTracker", "life_tracker_for"]


class LifeTracker(Protocol):
    """Reads after each reset and step, from an engine's infos, whether games continue."""

    autoresets_after_life: bool  # whether the step after a lost life only resets, as after a game

    def reset(self, infos: Mapping[str, Any]) -> None:
        """Read the infos of a reset of all games."""

    def step(self, infos: Mapping[str, Any]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Tell which games continue if their episode ended, and which began in this step; `[n_envs]` each."""


class EnvPoolLives:
    """EnvPool's games: the infos report the end of a game."""

    autoresets_after_life = True

    def reset(self, infos: Mapping[str, Any]) -> None:
        """Do nothing; no state is needed."""

    def step(self, infos: Mapping[str, Any]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Read `infos["terminated"]`, EnvPool's flag for the end of a game; no game begins unreported."""
        is_over = np.asarray(infos["terminated"]) != 0
        return ~is_over, np.zeros_like(is_over)


class AleLives:
    """ALE's games: a game continues if a life was lost and some are left.

    Remaining lives alone do not show this, as games may end with some left (Adventure always has one). If the
    step that ends such a game also loses a life, the game is assumed to continue; the frame counter of the
    next game, which restarts, then shows that the following step is not a transition.
    """

    autoresets_after_life = False

    def __init__(self) -> None:
        self._lives = self._frames = np.zeros(0, np.int64)  # `[n_envs]` of the last step

    def reset(self, infos: Mapping[str, Any]) -> None:
        """Store the lives and the frame number of each game."""
        self._lives = np.array(infos["lives"], np.int64)  # copies: an engine may reuse its arrays
        self._frames = np.array(infos["episode_frame_number"], np.int64)

    def step(self, infos: Mapping[str, Any]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Compare lives and frame numbers with those of the step before."""
        lives, frames = self._lives, self._frames
        self.reset(infos)
        return (self._lives > 0) & (self._lives < lives), self._frames < frames


def life_tracker_for(config: EnvConfig) -> LifeTracker | None:
    """Make the reader of lives for the configured engine; `None` if a lost life ends no episode."""
    if not (is_ale(config.id) and config.atari.life_loss):
        return None
    return EnvPoolLives() if config.backend == "envpool" else AleLives()
