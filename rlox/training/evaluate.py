"""Evaluation: true returns of whole episodes, in environments of their own, with frozen normalisers.

Episode i starts from `reset(seed=seed + i)` in Gymnasium's own environment, whatever engine trained,
so that scores of different systems are scores on the same episodes. All episodes are finished and
counted; taking the first to finish would favour short ones.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from rlox.envs.base import reward_of
from rlox.envs.films import frame_of, write_mp4
from rlox.envs.headless import DISPLAYS
from rlox.errors import ConfigError
from rlox.statistics import bootstrap_ci, iqm
from rlox.training.actor import ActorOf

__all__ = ["Evaluation", "Evaluator"]

MAX_PARALLEL = 64


@dataclass(frozen=True)
class Evaluation:
    """Undiscounted returns and lengths of the episodes, in order of their start seed."""

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    seed: int

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
    """Plays a policy in fresh environments; `make_env(render_mode)` makes one of them."""

    actor: ActorOf[Any]
    make_env: Callable[[str | None], gym.Env[Any, Any]]

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

        With `video` or `render` one at a time, written to an mp4 or shown in a window.
        """
        if episodes < 1:
            raise ConfigError(f"episodes={episodes}: expected at least 1")
        frames: list[NDArray[np.uint8]] = []
        envs: list[gym.Env[Any, Any]]
        if video is not None:
            envs = [_Filmed(self.make_env("rgb_array"), frames)]
        elif render:
            require_display()
            envs = [self.make_env("human")]
        else:
            envs = [self.make_env(None) for _ in range(min(episodes, MAX_PARALLEL))]
        rate = float(envs[0].metadata.get("render_fps", 30))
        try:
            with self.actor.ready():
                evaluation = self._play(list(envs), episodes, seed, stopped, generator)
        finally:
            for env in envs:
                env.close()
        if video is not None:
            write_mp4(video, frames, rate)
        return evaluation

    def _play(
        self,
        envs: list[gym.Env[Any, Any]],
        episodes: int,
        seed: int,
        stopped: Callable[[], bool],
        generator: torch.Generator | None,
    ) -> Evaluation:
        returns, lengths = np.zeros(episodes), np.zeros(episodes, np.int64)
        playing = list(range(len(envs)))  # the episode each environment plays; fewer at the end
        encode_into = self.actor.observations.encode_into
        rows = self.actor.observations.rows(len(envs))
        for k, env in enumerate(envs):
            encode_into(env.reset(seed=seed + k)[0], rows[k])
        upcoming, player = len(envs), self.actor.player(len(envs))
        while envs and not stopped():
            given = self.actor.actions.each(player.act(rows, generator))
            kept: list[int] = []
            for k, env in enumerate(envs):
                obs, reward, terminated, truncated, _ = env.step(given[k])
                returns[playing[k]] += reward_of(reward)
                lengths[playing[k]] += 1
                if terminated or truncated:
                    if upcoming >= episodes:
                        continue
                    playing[k], upcoming = upcoming, upcoming + 1
                    obs, _ = env.reset(seed=seed + playing[k])
                    player.begin(k)
                encode_into(obs, rows[k])
                kept.append(k)
            if len(kept) < len(envs):
                envs = [envs[k] for k in kept]
                playing, rows = [playing[k] for k in kept], rows[kept]
                player.keep(kept)
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
