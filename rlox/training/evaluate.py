"""Evaluation: true returns of whole episodes, in environments of their own, with frozen normalisers.

Episode i starts from `reset(seed=seed + i)`: of an id in Gymnasium's own environment, also where Rust
trained, so that scores of different systems are scores on the same episodes; where EnvPool, ALE or a
vectorised environment of the user's trained, in another of that engine. All episodes are finished and
counted; taking the first to finish would favour short ones.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlox.envs.films import frame_of, write_mp4
from rlox.envs.headless import DISPLAYS
from rlox.envs.make import Stages
from rlox.envs.stages import Stage
from rlox.errors import ConfigError
from rlox.statistics import bootstrap_ci, iqm
from rlox.training.actor import ActorOf

if TYPE_CHECKING:  # a run of the native engine imports no torch
    import torch

__all__ = ["Evaluation", "Evaluator"]

MAX_PARALLEL = 64


@dataclass(frozen=True)
class Evaluation:
    """Undiscounted returns and lengths of the episodes, in order of their start seed."""

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    seed: int
    samples: tuple[Mapping[str, Any], ...] = ()  # texts to look at, of algorithms that write some

    @property
    def mean(self) -> float:
        """Mean return: the score of a run."""
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        """Population standard deviation of the returns."""
        return float(np.std(self.returns))

    @property
    def iqm(self) -> float:
        """Interquartile mean: the mean of the middle half; NaN where a return is not finite."""
        returns = np.asarray(self.returns)
        return iqm(returns) if np.isfinite(returns).all() else math.nan

    @cached_property
    def ci95(self) -> tuple[float, float]:
        """95% percentile-bootstrap interval of the mean over episodes of this one policy."""
        return bootstrap_ci(np.asarray(self.returns), np.mean, seed=self.seed)


@dataclass(frozen=True)
class Evaluator:
    """Plays a policy in fresh environments."""

    actor: ActorOf[Any]
    stages: Stages

    def __call__(
        self,
        episodes: int,
        seed: int,
        video: Path | None = None,
        stopped: Callable[[], bool] = lambda: False,
        render: bool = False,
        generator: torch.Generator | None = None,
    ) -> Evaluation:
        """Play `episodes` whole episodes, with the best actions or those that `generator` samples.

        With `video` or `render` one at a time, written to an mp4 or shown in a window, always in this
        process.
        """
        if episodes < 1:
            raise ConfigError(f"episodes={episodes}: expected at least 1")
        frames: list[NDArray[np.uint8]] = []
        rate, observations = 30.0, self.actor.observations
        stage: Stage
        if video is not None:
            stage = shown = self.stages.shown("rgb_array", observations)
            shown.envs = [_Filmed(env, frames) for env in shown.envs]
            rate = float(shown.envs[0].metadata.get("render_fps", rate))
        elif render:
            require_display()
            stage = self.stages.shown("human", observations)
        else:
            stage = self.stages.open(min(episodes, MAX_PARALLEL), seed, observations)
        try:
            with self.actor.ready():
                evaluation = self._play(stage, episodes, seed, stopped, generator)
        finally:
            stage.close()
        if video is not None:
            write_mp4(video, frames, rate)
        return evaluation

    def _play(
        self,
        stage: Stage,
        episodes: int,
        seed: int,
        stopped: Callable[[], bool],
        generator: torch.Generator | None,
    ) -> Evaluation:
        returns, lengths = np.zeros(episodes), np.zeros(episodes, np.int64)
        # the episode in each place, in the order of the player's; fewer at the end
        playing = {place: place for place in range(min(len(stage.rows), episodes))}
        stage.begin({place: seed + place for place in playing})
        upcoming, player = iter(range(len(playing), episodes)), self.actor.player(len(playing))
        while playing and not stopped():
            given = self.actor.actions.each(player.act(stage.rows[list(playing)], generator))
            stepped = stage.step(dict(zip(playing, given, strict=True)))
            player.paid([stepped.rewards[place] for place in playing])
            for place in playing.keys() - stepped.lost:
                returns[playing[place]] += stepped.rewards[place]
                lengths[playing[place]] += 1
            fresh = dict(zip((p for p in playing if p in stepped.ended), upcoming, strict=False))
            if over := stepped.ended - fresh.keys():
                player.keep([k for k, place in enumerate(playing) if place not in over])
                playing = {place: playing[place] for place in playing if place not in over}
            playing |= fresh
            again = stepped.lost | stage.begin({place: seed + fresh[place] for place in fresh})
            for k, (place, episode) in enumerate(playing.items()):
                if place in fresh or place in again:
                    returns[episode], lengths[episode] = 0.0, 0
                    player.begin(k)
        return Evaluation(tuple(map(float, returns)), tuple(map(int, lengths)), seed)


def require_display() -> None:
    """`ConfigError` where there is nothing to show a window on."""
    known = (*DISPLAYS, "SDL_VIDEODRIVER")
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in known):
        raise ConfigError(
            "there is no display to show episodes on (DISPLAY is not set); write them to a file: video"
        )


class _Filmed(gym.Wrapper[Any, Any, Any, Any]):
    """Keeps a frame after every reset and step."""

    def __init__(self, env: gym.Env[Any, Any], frames: list[NDArray[np.uint8]]) -> None:
        super().__init__(env)
        self.frames = frames

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Reset and keep the first frame."""
        result = self.env.reset(**options)
        self._keep()
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step and keep the frame."""
        result = self.env.step(action)
        self._keep()
        return result

    def _keep(self) -> None:
        self.frames.append(frame_of(self.env))
