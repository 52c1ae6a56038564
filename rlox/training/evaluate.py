"""Evaluation: true returns of whole episodes, in environments of their own, with frozen normalisers.

Episode i starts from `reset(seed=seed + i)` in Gymnasium's own environment, whatever engine trained,
so that scores of different systems are scores on the same episodes. All episodes are finished and
counted; taking the first to finish would favour short ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from rlox.envs.gym_vec import EnvFactory
from rlox.envs.normalize import ObservationNormalizer
from rlox.envs.spaces import ActionCodec, ObservationCodec
from rlox.errors import ConfigError, NonFiniteError
from rlox.policies import ActorCritic
from rlox.policies.base import acting
from rlox.statistics import bootstrap_ci, iqm
from rlox.training.video import write_mp4

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
        """Interquartile mean: the mean of the middle half."""
        return iqm(np.asarray(self.returns))

    @cached_property
    def ci95(self) -> tuple[float, float]:
        """95% percentile-bootstrap interval of the mean over episodes of this one policy."""
        return bootstrap_ci(np.asarray(self.returns), np.mean, seed=self.seed)


@dataclass(frozen=True)
class Evaluator:
    """Plays a policy deterministically in fresh environments."""

    policy: ActorCritic
    make_env: EnvFactory
    observations: ObservationCodec
    actions: ActionCodec
    normalizer: ObservationNormalizer | None
    device: torch.device
    stopped: Callable[[], bool] = lambda: False

    def run(self, episodes: int, seed: int, record: EnvFactory | None = None) -> Evaluation:
        """Play `episodes` whole episodes; `record` makes the environment instead, one at a time."""
        if episodes < 1:
            raise ConfigError(f"episodes={episodes}: expected at least 1")
        parallel = 1 if record else min(episodes, MAX_PARALLEL)
        envs = [(record or self.make_env)() for _ in range(parallel)]
        try:
            with torch.inference_mode(), acting(self.policy):
                return self._play(envs, episodes, seed)
        finally:
            for env in envs:
                env.close()

    def video(self, make_env: EnvFactory, episodes: int, seed: int, path: Path) -> Evaluation:
        """Play and write what `render_mode="rgb_array"` shows to an mp4."""
        frames: list[NDArray[np.uint8]] = []
        rate: list[float] = []

        def filmed() -> gym.Env[Any, Any]:
            env = make_env()
            rate.append(float(env.metadata.get("render_fps", 30)))
            return _Filmed(env, frames)

        evaluation = self.run(episodes, seed, filmed)
        write_mp4(path, frames, rate[0])
        return evaluation

    def _play(self, envs: list[gym.Env[Any, Any]], episodes: int, seed: int) -> Evaluation:
        returns, lengths = np.zeros(episodes), np.zeros(episodes, np.int64)
        playing = list(range(len(envs)))  # the episode each environment plays; fewer at the end
        rows = np.zeros((len(envs), self.observations.dim), np.float32)
        for k, env in enumerate(envs):
            self.observations.encode_into(env.reset(seed=seed + k)[0], rows[k])
        upcoming = len(envs)
        while envs and not self.stopped():
            given = self.actions.to_env(self._act(rows))
            kept: list[int] = []
            for k, env in enumerate(envs):
                obs, reward, terminated, truncated, _ = env.step(given[k])
                returns[playing[k]] += float(reward)
                lengths[playing[k]] += 1
                if terminated or truncated:
                    if upcoming >= episodes:
                        continue
                    playing[k], upcoming = upcoming, upcoming + 1
                    obs, _ = env.reset(seed=seed + playing[k])
                self.observations.encode_into(obs, rows[k])
                kept.append(k)
            if len(kept) < len(envs):
                envs = [envs[k] for k in kept]
                playing, rows = [playing[k] for k in kept], rows[kept]
        return Evaluation(tuple(map(float, returns)), tuple(map(int, lengths)), seed)

    def _act(self, rows: NDArray[np.float32]) -> NDArray[Any]:
        seen = rows.copy()
        if self.normalizer:
            self.normalizer.apply(seen)
        actions = self.policy.mode(torch.from_numpy(seen).to(self.device)).cpu().numpy()
        if not np.isfinite(actions).all():
            raise NonFiniteError("the policy's action is not finite during evaluation")
        result: NDArray[Any] = actions
        return result


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
        frame = self.env.render()
        if not isinstance(frame, np.ndarray):
            raise ConfigError(f"{self.env} does not render frames: no render_mode='rgb_array'")
        self.frames.append(frame)
