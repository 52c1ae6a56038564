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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlox.configs import EnvConfig, EvalConfig
from rlox.configs.atari import is_ale
from rlox.configs.check import require_bools
from rlox.envs.base import VectorEnv
from rlox.envs.engines.vector import VectorEngine
from rlox.envs.films import frame_of, write_mp4
from rlox.envs.gym_vec import SyncGymVecEnv
from rlox.envs.headless import DISPLAYS
from rlox.envs.identity import beneath
from rlox.envs.ids import find_spec
from rlox.envs.make import Stages, uses_native
from rlox.envs.seeding import SEEDS
from rlox.envs.spaces import what_came
from rlox.envs.stages import BorrowedStage, LocalStage, Stage
from rlox.errors import ConfigError, EnvError, NonFiniteError, UnknownNameError
from rlox.statistics import bootstrap_ci, iqm
from rlox.training.actor import ActorOf

if TYPE_CHECKING:  # a run of the native engine imports no torch
    import torch

__all__ = ["Evaluation", "Evaluator"]

# Episodes side by side: of environments so small that they have a twin in Rust, and of any published one.
MAX_PARALLEL, GYMNASIUM_PARALLEL = 64, 8
PUBLISHED = ("ale_py", "gymnasium", "gymnasium_robotics", "highway_env", "minigrid", "shimmy")


@dataclass(frozen=True)
class Evaluation:
    """Undiscounted returns and lengths of the episodes, in order of their start seed."""

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    seed: int
    samples: tuple[Mapping[str, Any], ...] = ()  # texts to look at, of algorithms that write some
    cut: int = 0  # episodes that `eval.max_steps` ended

    @property
    def mean(self) -> float:
        """Mean return: the score of a run."""
        with _quiet():
            return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        """Population standard deviation of the returns."""
        most = max(map(abs, self.returns))
        unit = most if 1e150 < most < math.inf else 1.0  # the squares of such numbers overflow
        with _quiet():
            return float(np.std(np.asarray(self.returns) / unit)) * unit

    @property
    def iqm(self) -> float:
        """Interquartile mean: the mean of the middle half; NaN where a return is not finite."""
        returns = np.asarray(self.returns)
        with _quiet():
            return iqm(returns) if np.isfinite(returns).all() else math.nan

    @property
    def flaw(self) -> str:
        """Why the mean is no score, as returns are not finite or so large; empty where it is one."""
        wrong = [i for i, value in enumerate(self.returns) if not math.isfinite(value)]
        if not wrong:
            most, many = max(map(abs, self.returns)), len(self.returns)
            over = f"the mean of {many} finite returns overflows: the largest is {most:g}"
            return "" if math.isfinite(self.mean) else over
        first = f"{self.returns[wrong[0]]} in the episode of seed {self.seed + wrong[0]}"
        return f"{len(wrong)} of {len(self.returns)} returns are not finite: {first}"

    def row(self) -> dict[str, float | int]:
        """What a log has of it; how many returns are not finite, or were cut, only where some are."""
        wrong = len(self.returns) - int(np.isfinite(self.returns).sum())
        return {
            "eval/return_mean": self.mean,
            "eval/return_iqm": self.iqm,
            "eval/return_std": self.std,
            "eval/episodes": len(self.returns),
            **({"eval/not_finite": wrong} if wrong else {}),
            **({"eval/cut": self.cut} if self.cut else {}),
        }

    @cached_property
    def ci95(self) -> tuple[float, float] | None:
        """95% percentile-bootstrap interval of the mean over episodes of this one policy.

        `None` for one episode, where a return is not finite, and where sums of them overflow.
        """
        if len(self.returns) < 2 or self.flaw:
            return None
        with _quiet():
            ends = bootstrap_ci(np.asarray(self.returns), np.mean, seed=self.seed)
        return ends if np.isfinite(ends).all() else None


@dataclass(frozen=True)
class Evaluator:
    """Plays a policy in fresh environments, as many side by side as `settings.n_envs` says."""

    actor: ActorOf[Any]
    stages: Stages
    settings: EvalConfig
    training: VectorEnv | None = None  # what training steps, for `settings.reuse_env`

    def __post_init__(self) -> None:
        if self.settings.reuse_env:
            self._require_reusable()

    def require_room(self) -> None:
        """Open and close as many of a user's environments as an evaluation plays in, before training.

        `EnvError` where so many cannot live beside those of training. `ConfigError` for seeds of episodes
        that environments do not take.
        """
        config, settings = self.stages.config, self.settings
        _require_seeds(settings.episodes, settings.seed)
        if settings.reuse_env or not self.plays_own_code:
            return
        places = min(settings.episodes, self.places)
        try:
            stage = self._opened(places, settings.seed)
        except Exception as error:
            several = places > 1
            many, one = (f"{places} environments", "one of them") if several else ("1", "it")
            fewer = "in one environment (eval.n_envs=1), or " * several
            raise EnvError(
                f"evaluations of {config.id} need {many} beside the {config.n_envs} of training, but {one} "
                f"cannot be made: {error}\n  evaluate {fewer}in the environments of training "
                "(eval.reuse_env=true env.workers=sync)"
            ) from error
        stage.close()

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
        process. An episode that has not ended after `settings.max_steps` steps ends there. `NonFiniteError`
        for an observation that is not finite, `ConfigError` for pictures with `settings.reuse_env` while
        training has its environments.
        """
        require_bools(render=render)
        if episodes < 1:
            raise ConfigError(f"episodes={episodes}: expected at least 1")
        _require_seeds(episodes, seed)
        if (video or render) and self.settings.reuse_env and not self._require_reusable().closed:
            raise ConfigError(
                f"eval.reuse_env=true: {self.stages.config.id} is not drawn in training, and another one may "
                "not live beside it; end the training and use rlox evaluate RUN video=true, or render=true"
            )
        frames: list[NDArray[np.uint8]] = []
        rate, observations = 30.0, self.actor.observations
        stage: Stage
        if video is not None:
            stage = self.stages.shown("rgb_array", observations, self.trained)
        elif render:
            require_display()
            stage = self.stages.shown("human", observations, self.trained)
        else:
            places = min(episodes, self.places)
            reused = self.settings.reuse_env
            stage = self._borrowed(places) if reused else self._opened(places, seed)
        try:
            if video is not None and isinstance(stage, LocalStage):
                stage.envs = [_Filmed(env, frames) for env in stage.envs]
                rate = float(stage.envs[0].metadata.get("render_fps", rate))
            with self.actor.ready():
                evaluation = self._play(stage, episodes, seed, stopped, generator)
        finally:
            stage.close()
        if video is not None:
            write_mp4(video, frames, rate)
        return evaluation

    @property
    def places(self) -> int:
        """How many episodes are played side by side at most."""
        if self.settings.n_envs is not None:
            return self.settings.n_envs
        if self.plays_own_code:
            return self.stages.config.n_envs  # so many of them live side by side in training
        return MAX_PARALLEL if uses_native(self.stages.config) else GYMNASIUM_PARALLEL

    @property
    def plays_own_code(self) -> bool:
        """Whether the environment is the user's own, which runs in Python."""
        config, source = self.stages.config, self.stages.source
        return source is not None or (not uses_native(config) and is_own_code(config.id))

    @contextmanager
    def lent(self) -> Iterator[gym.Env[Any, Any]]:
        """One of the environments of training, which goes on in it afterwards (`settings.reuse_env`)."""
        vec = self._require_reusable()
        state = vec.state()
        try:
            yield vec.envs[0]
        finally:
            vec.take_back(state)

    @property
    def trained(self) -> list[object]:
        """The objects that training steps in this process, each beneath its wrappers."""
        if isinstance(self.training, VectorEngine):
            return beneath(self.training.env)
        if not isinstance(self.training, SyncGymVecEnv) or self.training.closed:
            return []
        return [each for env in self.training.envs for each in beneath(env)]

    def _opened(self, places: int, seed: int) -> Stage:
        """Other environments than those of training."""
        return self.stages.open(places, seed, self.actor.observations, self.trained)

    def _borrowed(self, places: int) -> BorrowedStage:
        """Some of the environments of training."""
        return BorrowedStage(self._require_reusable(), places, self.actor.observations)

    def _require_reusable(self) -> SyncGymVecEnv:
        """The environments of training; `ConfigError` where others step them, or they score otherwise."""
        config, vec = self.stages.config, self.training
        if not isinstance(vec, SyncGymVecEnv):
            where = "has none in training" if vec is None else f"is stepped by {type(vec).__name__}"
            raise ConfigError(
                f"eval.reuse_env=true: {config.id} {where}, expected a Gymnasium environment in this "
                "process (env.workers=sync); leave it out"
            )
        for name in ("reward_wrappers", "reward_scale", "reward_clip", "record_every"):
            if getattr(config, name) != getattr(EnvConfig(), name):
                raise ConfigError(
                    f"eval.reuse_env=true and env.{name}: returns are those of environments without it; "
                    "leave one of them out"
                )
        if is_ale(config.id):
            raise ConfigError(
                f"eval.reuse_env=true: {config.id} is another game in training, with lives for episodes; "
                "leave it out"
            )
        return vec

    def _play(
        self,
        stage: Stage,
        episodes: int,
        seed: int,
        stopped: Callable[[], bool],
        generator: torch.Generator | None,
    ) -> Evaluation:
        returns, lengths = np.zeros(episodes), np.zeros(episodes, np.int64)
        most, cut = self.settings.max_steps or math.inf, 0
        # the episode in each place, in the order of the player's; fewer at the end
        playing = {place: place for place in range(min(len(stage.rows), episodes))}
        stage.begin({place: seed + place for place in playing})
        upcoming, player = iter(range(len(playing), episodes)), self.actor.player(len(playing))
        while playing and not stopped():
            rows = stage.rows[list(playing)]
            self._require_finite(rows, [seed + episode for episode in playing.values()])
            given = self.actor.actions.each(player.act(rows, generator))
            stepped = stage.step(dict(zip(playing, given, strict=True)))
            player.paid([stepped.rewards[place] for place in playing])
            for place in playing.keys() - stepped.lost:
                returns[playing[place]] += stepped.rewards[place]
                lengths[playing[place]] += 1
            late = {p for p, episode in playing.items() if lengths[episode] >= most}
            late -= stepped.ended | stepped.lost
            ended, cut = stepped.ended | late, cut + len(late)
            fresh = dict(zip((p for p in playing if p in ended), upcoming, strict=False))
            if over := ended - fresh.keys():
                player.keep([k for k, place in enumerate(playing) if place not in over])
                playing = {place: playing[place] for place in playing if place not in over}
            playing |= fresh
            again = stepped.lost | stage.begin({place: seed + fresh[place] for place in fresh})
            for k, (place, episode) in enumerate(playing.items()):
                if place in fresh or place in again:
                    returns[episode], lengths[episode] = 0.0, 0
                    player.begin(k)
        return Evaluation(tuple(map(float, returns)), tuple(map(int, lengths)), seed, cut=cut)

    def _require_finite(self, rows: NDArray[Any], seeds: list[int]) -> None:
        """`NonFiniteError` for an observation that a policy cannot act on, as in training."""
        numbers = self.actor.observations.numbers_of(rows)
        if numbers.dtype.kind != "f" or np.isfinite(numbers).all():
            return
        wrong = int(np.argwhere(~np.isfinite(numbers).all(1))[0, 0])
        raise NonFiniteError(
            f"an observation of {self.stages.config.id} is not finite, in the evaluation episode of seed "
            f"{seeds[wrong]}: {numbers[wrong]}{what_came(numbers[wrong])}"
        )


def _require_seeds(episodes: int, seed: int) -> None:
    """`ConfigError` where the seed of an episode is not below 2^31: not every environment takes it."""
    if seed + episodes > SEEDS:
        raise ConfigError(
            f"seed={seed} with {episodes} episodes: the last would start from reset(seed="
            f"{seed + episodes - 1}), expected at most {SEEDS - 1}; take a smaller seed"
        )


def _quiet() -> np.errstate:
    """The block in which sums may overflow: `Evaluation.flaw` tells it, not NumPy."""
    return np.errstate(over="ignore", invalid="ignore")


def is_own_code(env_id: str) -> bool:
    """Whether an id names an environment of the user's, not one of Gymnasium's or of a simulator package."""
    if ":" in env_id:
        return True
    try:
        entry = find_spec(env_id).entry_point
    except UnknownNameError:  # of an engine that Gymnasium does not know
        return False
    module = entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", "")
    return module.partition(".")[0] not in PUBLISHED


def require_display() -> None:
    """`ConfigError` where there is nothing to show a window on."""
    known = (*DISPLAYS, "SDL_VIDEODRIVER")
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in known):
        raise ConfigError(
            "there is no display to show episodes on (DISPLAY is not set); write them to a file: video=true"
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
