"""Evaluation: true returns of whole episodes, in separate environments, with frozen normalisers.

Episode i starts from `reset(seed=seed + i)`. A policy that learned in a Rust environment is evaluated in
Gymnasium's own environment of that id, so that scores of different systems use the same episodes. With
EnvPool, ALE or a user's vectorised environment it is evaluated in another environment of the same engine. All
episodes are finished and counted; to count only the first to finish would favour short ones.
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
from rlox.configs.check import require_bools
from rlox.configs.env import is_ale
from rlox.envs.base import VectorEnv
from rlox.envs.engines.vector import VectorEngine
from rlox.envs.eval_envs import BorrowedEvalEnvs, EvalEnvs, LocalEvalEnvs
from rlox.envs.gym_vec import SyncGymVecEnv
from rlox.envs.headless import DISPLAYS
from rlox.envs.identity import list_unwrapped
from rlox.envs.ids import find_spec
from rlox.envs.make import EvalEnvFactory, uses_native
from rlox.envs.seeding import SEED_LIMIT
from rlox.envs.spaces import infinity_note
from rlox.envs.videos import render_frame, write_mp4
from rlox.errors import ConfigError, EnvError, NonFiniteError, UnknownNameError
from rlox.statistics import bootstrap_ci, iqm
from rlox.training.actor import BaseActor

if TYPE_CHECKING:  # a run of the native engine imports no torch
    import torch

__all__ = ["Evaluation", "Evaluator"]

# Most parallel episodes: for environments that Rust implements too, and for other published ones.
MAX_PARALLEL, MAX_PARALLEL_GYMNASIUM = 64, 8
PUBLISHED_PACKAGES = ("ale_py", "gymnasium", "gymnasium_robotics", "highway_env", "minigrid", "shimmy")


@dataclass(frozen=True)
class Evaluation:
    """Undiscounted returns and lengths of the episodes, in order of their start seed."""

    returns: tuple[float, ...]
    lengths: tuple[int, ...]
    seed: int
    samples: tuple[Mapping[str, Any], ...] = ()  # sample texts, for text algorithms
    n_cut: int = 0  # episodes ended by `eval.max_steps`

    @property
    def mean(self) -> float:
        """Mean return: the score of a run."""
        with _ignore_overflow():
            return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        """Population standard deviation of the returns."""
        largest = max(map(abs, self.returns))
        scale = largest if 1e150 < largest < math.inf else 1.0  # larger squares overflow
        with _ignore_overflow():
            return float(np.std(np.asarray(self.returns) / scale)) * scale

    @property
    def iqm(self) -> float:
        """Interquartile mean: the mean of the middle half; NaN if a return is not finite."""
        returns = np.asarray(self.returns)
        with _ignore_overflow():
            return iqm(returns) if np.isfinite(returns).all() else math.nan

    @property
    def non_finite_message(self) -> str:
        """Why the mean is not a finite number; empty if it is."""
        non_finite = [i for i, value in enumerate(self.returns) if not math.isfinite(value)]
        if not non_finite:
            largest, n_returns = max(map(abs, self.returns)), len(self.returns)
            message = f"the mean of {n_returns} finite returns overflows: the largest is {largest:g}"
            return "" if math.isfinite(self.mean) else message
        example = f"{self.returns[non_finite[0]]} in the episode of seed {self.seed + non_finite[0]}"
        return f"{len(non_finite)} of {len(self.returns)} returns are not finite: {example}"

    def metrics(self) -> dict[str, float | int]:
        """Return the metrics to log; counts of non-finite returns and cut episodes only if not 0."""
        n_non_finite = len(self.returns) - int(np.isfinite(self.returns).sum())
        return {
            "eval/return_mean": self.mean,
            "eval/return_iqm": self.iqm,
            "eval/return_std": self.std,
            "eval/episodes": len(self.returns),
            **({"eval/not_finite": n_non_finite} if n_non_finite else {}),
            **({"eval/cut": self.n_cut} if self.n_cut else {}),
        }

    @cached_property
    def ci95(self) -> tuple[float, float] | None:
        """The 95% interval of the mean, by a percentile bootstrap over the episodes of this one policy.

        `None` for one episode, if a return is not finite, and if sums overflow.
        """
        if len(self.returns) < 2 or self.non_finite_message:
            return None
        with _ignore_overflow():
            interval = bootstrap_ci(np.asarray(self.returns), np.mean, seed=self.seed)
        return interval if np.isfinite(interval).all() else None


@dataclass(frozen=True)
class Evaluator:
    """Plays a policy in fresh environments, `settings.n_envs` in parallel."""

    actor: BaseActor[Any]
    eval_env_factory: EvalEnvFactory
    settings: EvalConfig
    training_envs: VectorEnv | None = None  # for `settings.reuse_env`

    def __post_init__(self) -> None:
        if self.settings.reuse_env:
            self._require_reusable()

    def require_envs_fit(self) -> None:
        """Open and close as many of a user's environments as an evaluation uses, before training.

        Raises `EnvError` if they cannot exist beside those of training, and `ConfigError` for episode seeds
        that environments do not accept.
        """
        config, settings = self.eval_env_factory.config, self.settings
        _require_seed_range(settings.episodes, settings.seed)
        if settings.reuse_env or not self.is_user_env:
            return
        n_slots = min(settings.episodes, self.n_slots)
        try:
            eval_envs = self._open_envs(n_slots, settings.seed)
        except Exception as error:
            has_several = n_slots > 1
            needed_text, failed_text = (
                (f"{n_slots} environments", "one of them") if has_several else ("1", "it")
            )
            fewer_hint = "in one environment (eval.n_envs=1), or " * has_several
            raise EnvError(
                f"evaluations of {config.id} need {needed_text} beside the {config.n_envs} of training, but "
                f"{failed_text} cannot be made: {error}\n  evaluate {fewer_hint}in the environments of "
                "training (eval.reuse_env=true env.workers=sync)"
            ) from error
        eval_envs.close()

    def __call__(
        self,
        episodes: int,
        seed: int,
        video: Path | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
        render: bool = False,
        generator: torch.Generator | None = None,
    ) -> Evaluation:
        """Play `episodes` whole episodes, with the best actions or those that `generator` samples.

        `video` writes an mp4 and `render` shows a window; both play one episode at a time in this process. An
        episode that has not ended after `settings.max_steps` steps ends there. Raises `NonFiniteError` for
        a non-finite observation, and `ConfigError` for `video` or `render` with `settings.reuse_env` while
        the training environments are open.
        """
        require_bools(render=render)
        if episodes < 1:
            raise ConfigError(f"episodes={episodes}: expected at least 1")
        _require_seed_range(episodes, seed)
        if (video or render) and self.settings.reuse_env and not self._require_reusable().closed:
            raise ConfigError(
                f"eval.reuse_env=true: {self.eval_env_factory.config.id} is not rendered during training, "
                "and no second environment may be open beside it; end the training and use rlox evaluate RUN "
                "video=true, or render=true"
            )
        frames: list[NDArray[np.uint8]] = []
        rate, observations = 30.0, self.actor.observations
        eval_envs: EvalEnvs
        if video is not None:
            eval_envs = self.eval_env_factory.open_rendering("rgb_array", observations, self.training_objects)
        elif render:
            require_display()
            eval_envs = self.eval_env_factory.open_rendering("human", observations, self.training_objects)
        else:
            n_slots = min(episodes, self.n_slots)
            is_reused = self.settings.reuse_env
            eval_envs = self._borrow_envs(n_slots) if is_reused else self._open_envs(n_slots, seed)
        try:
            if video is not None and isinstance(eval_envs, LocalEvalEnvs):
                eval_envs.envs = [_FrameRecorder(env, frames) for env in eval_envs.envs]
                rate = float(eval_envs.envs[0].metadata.get("render_fps", rate))
            with self.actor.inference_mode():
                evaluation = self._play(eval_envs, episodes, seed, is_stopped, generator)
        finally:
            eval_envs.close()
        if video is not None:
            write_mp4(video, frames, rate)
        return evaluation

    @property
    def n_slots(self) -> int:
        """The most episodes played in parallel."""
        if self.settings.n_envs is not None:
            return self.settings.n_envs
        if self.is_user_env:
            return self.eval_env_factory.config.n_envs  # training has this many at once, too
        return MAX_PARALLEL if uses_native(self.eval_env_factory.config) else MAX_PARALLEL_GYMNASIUM

    @property
    def is_user_env(self) -> bool:
        """Whether the environment is the user's own, which runs in Python."""
        config, source = self.eval_env_factory.config, self.eval_env_factory.source
        return source is not None or (not uses_native(config) and is_user_env(config.id))

    @contextmanager
    def borrow_env(self) -> Iterator[gym.Env[Any, Any]]:
        """Lend one of the training environments, which continues afterwards (`settings.reuse_env`)."""
        training_envs = self._require_reusable()
        state = training_envs.state()
        try:
            yield training_envs.envs[0]
        finally:
            training_envs.restore_after_loan(state)

    @property
    def training_objects(self) -> list[object]:
        """The unwrapped environments that training steps in this process."""
        if isinstance(self.training_envs, VectorEngine):
            return list_unwrapped(self.training_envs.env)
        if not isinstance(self.training_envs, SyncGymVecEnv) or self.training_envs.closed:
            return []
        return [unwrapped_env for env in self.training_envs.envs for unwrapped_env in list_unwrapped(env)]

    def _open_envs(self, n_slots: int, seed: int) -> EvalEnvs:
        """Open environments apart from those of training."""
        return self.eval_env_factory.open(n_slots, seed, self.actor.observations, self.training_objects)

    def _borrow_envs(self, n_slots: int) -> BorrowedEvalEnvs:
        """Borrow some of the training environments."""
        return BorrowedEvalEnvs(self._require_reusable(), n_slots, self.actor.observations)

    def _require_reusable(self) -> SyncGymVecEnv:
        """Return the training environments; raise `ConfigError` if evaluations cannot use them."""
        config, training_envs = self.eval_env_factory.config, self.training_envs
        if not isinstance(training_envs, SyncGymVecEnv):
            obstacle = (
                "has no training environments"
                if training_envs is None
                else f"is stepped by {type(training_envs).__name__}"
            )
            raise ConfigError(
                f"eval.reuse_env=true: {config.id} {obstacle}, expected a Gymnasium environment in this "
                "process (env.workers=sync); leave it out"
            )
        for name in ("reward_wrappers", "reward_scale", "reward_clip", "record_every"):
            if getattr(config, name) != getattr(EnvConfig(), name):
                raise ConfigError(
                    f"eval.reuse_env=true and env.{name}: evaluations measure returns without it; "
                    "leave one of them out"
                )
        if is_ale(config.id):
            raise ConfigError(
                f"eval.reuse_env=true: {config.id} differs in training, where by default a lost life ends "
                "an episode; leave it out"
            )
        return training_envs

    def _play(
        self,
        eval_envs: EvalEnvs,
        episodes: int,
        seed: int,
        is_stopped: Callable[[], bool],
        generator: torch.Generator | None,
    ) -> Evaluation:
        returns, lengths = np.zeros(episodes), np.zeros(episodes, np.int64)
        max_steps, n_cut = self.settings.max_steps or math.inf, 0
        # the episode of each slot, in the player's order; fewer at the end
        playing = {slot: slot for slot in range(min(len(eval_envs.obs), episodes))}
        eval_envs.reset({slot: seed + slot for slot in playing})
        next_episodes, player = iter(range(len(playing), episodes)), self.actor.make_player(len(playing))
        while playing and not is_stopped():
            rows = eval_envs.obs[list(playing)]
            self._require_finite(rows, [seed + episode for episode in playing.values()])
            actions = self.actor.actions.unbatch(player.act(rows, generator))
            step = eval_envs.step(dict(zip(playing, actions, strict=True)))
            player.observe_rewards([step.rewards[slot] for slot in playing])
            for slot in playing.keys() - step.lost_slots:
                returns[playing[slot]] += step.rewards[slot]
                lengths[playing[slot]] += 1
            cut_slots = {p for p, episode in playing.items() if lengths[episode] >= max_steps}
            cut_slots -= step.ended_slots | step.lost_slots
            ended_slots, n_cut = step.ended_slots | cut_slots, n_cut + len(cut_slots)
            new_episodes = dict(zip((p for p in playing if p in ended_slots), next_episodes, strict=False))
            if finished_slots := ended_slots - new_episodes.keys():
                player.select_slots([k for k, slot in enumerate(playing) if slot not in finished_slots])
                playing = {slot: playing[slot] for slot in playing if slot not in finished_slots}
            playing |= new_episodes
            restarted_slots = step.lost_slots | eval_envs.reset(
                {slot: seed + new_episodes[slot] for slot in new_episodes}
            )
            for k, (slot, episode) in enumerate(playing.items()):
                if slot in new_episodes or slot in restarted_slots:
                    returns[episode], lengths[episode] = 0.0, 0
                    player.reset_slot(k)
        return Evaluation(tuple(map(float, returns)), tuple(map(int, lengths)), seed, n_cut=n_cut)

    def _require_finite(self, rows: NDArray[Any], seeds: list[int]) -> None:
        """Raise `NonFiniteError` for a non-finite observation, as in training."""
        values = self.actor.observations.numeric_view(rows)
        if values.dtype.kind != "f" or np.isfinite(values).all():
            return
        index = int(np.argwhere(~np.isfinite(values).all(1))[0, 0])
        raise NonFiniteError(
            f"an observation of {self.eval_env_factory.config.id} is not finite, in the evaluation episode "
            f"of seed {seeds[index]}: {values[index]}{infinity_note(values[index])}"
        )


def _require_seed_range(episodes: int, seed: int) -> None:
    """Raise `ConfigError` unless every episode's seed is below 2^31, as some environments require."""
    if seed + episodes > SEED_LIMIT:
        raise ConfigError(
            f"seed={seed} with {episodes} episodes: the last would start from reset(seed="
            f"{seed + episodes - 1}), expected at most {SEED_LIMIT - 1}; take a smaller seed"
        )


def _ignore_overflow() -> np.errstate:
    """Silence NumPy's overflow warnings in a block; `Evaluation.non_finite_message` reports overflow."""
    return np.errstate(over="ignore", invalid="ignore")


def is_user_env(env_id: str) -> bool:
    """Whether an id names a user's environment, not one of Gymnasium or of a simulator package."""
    if ":" in env_id:
        return True
    try:
        entry_point = find_spec(env_id).entry_point
    except UnknownNameError:  # an id of another engine
        return False
    module = (
        entry_point.partition(":")[0]
        if isinstance(entry_point, str)
        else getattr(entry_point, "__module__", "")
    )
    return module.partition(".")[0] not in PUBLISHED_PACKAGES


def require_display() -> None:
    """Raise `ConfigError` if there is no display for a window."""
    variables = (*DISPLAYS, "SDL_VIDEODRIVER")
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in variables):
        raise ConfigError(
            "there is no display to show episodes on (DISPLAY is not set); write them to a file: video=true"
        )


class _FrameRecorder(gym.Wrapper[Any, Any, Any, Any]):
    """Keeps a frame after every reset and step."""

    def __init__(self, env: gym.Env[Any, Any], frames: list[NDArray[np.uint8]]) -> None:
        super().__init__(env)
        self.frames = frames

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Reset and keep the first frame."""
        result = self.env.reset(**options)
        self._record()
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step and keep the frame."""
        result = self.env.step(action)
        self._record()
        return result

    def _record(self) -> None:
        self.frames.append(render_frame(self.env))
