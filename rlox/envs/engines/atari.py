"""Games of the Arcade Learning Environment in this process, with the standard preprocessing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox.configs import EnvConfig
from rlox.configs.env import AtariConfig
from rlox.envs.base import LIFE_LOST
from rlox.errors import ConfigError

__all__ = ["AtariGame", "ale_arguments", "resize_area"]

NOOP, FIRE = 0, 1  # action numbers, if the game has these actions
# Arguments that the preprocessing sets, and the key to set instead of each.
_RESERVED = {
    "frameskip": "env.atari.frame_skip",
    "obs_type": "env.atari.preprocess=false",
    "continuous": "env.atari.preprocess=false",
    "sound_obs": "env.atari.preprocess=false",
}


def ale_arguments(config: EnvConfig) -> dict[str, Any]:
    """Return the `gymnasium.make` arguments of a game; for `AtariGame` they request single gray frames."""
    arguments: dict[str, Any] = {}
    if config.repeat_action_probability is not None:
        arguments["repeat_action_probability"] = config.repeat_action_probability
    if config.max_episode_steps is not None:  # ALE also has a limit of its own
        arguments["max_num_frames_per_episode"] = config.max_episode_steps
    if not config.atari.preprocess:
        return arguments
    for name, key in _RESERVED.items():
        if name in config.kwargs:
            raise ConfigError(
                f"env.kwargs.{name}: {config.id} is preprocessed; set {key}, or env.atari.preprocess=false "
                "to have the environment as it is"
            )
    return {**arguments, "frameskip": 1, "obs_type": "grayscale"}


class AtariGame(gym.Wrapper[Any, Any, Any, Any]):
    """Preprocesses a game: observations are uint8 `[stack, size, size]`, and lost lives may end episodes.

    A game starts with 1 to `noop_max` no-op frames; the environment's own generator draws their number. With
    `fire_reset`, FIRE replaces the last no-op, and the one after a lost life, if the game has this action. An
    action is held for `frame_skip` frames. With `max_pool`, the observation is the pixelwise maximum of the
    last two frames, else the last frame; it is scaled by area. With `training` and `life_loss`, a lost life
    ends the episode but not the game: the last info has `LIFE_LOST`, and a reset without a seed continues the
    game. The frame after a lost life is played within the step that lost it, so
    that a game that ends in that frame is reported as over. Rewards from the start of a game or a life are
    added to its first step.

    Parameters
    ----------
    env : the game, one frame per step, gray `[height, width]`
    settings : settings of the preprocessing
    training : whether lost lives may end episodes
    """

    def __init__(self, env: gym.Env[Any, Any], settings: AtariConfig, training: bool) -> None:
        super().__init__(env)
        self.settings = settings
        self._counts_lives = training and settings.life_loss
        inner: Any = env.unwrapped
        self._has_fire = settings.fire_reset and inner.get_action_meanings()[FIRE:2] == ["FIRE"]
        size, shape = settings.screen_size, env.observation_space.shape
        assert shape is not None
        self._last_frames = np.zeros((2, *shape), np.uint8)  # the last two
        self._stack = np.zeros((settings.stack, size, size), np.uint8)
        self.observation_space = spaces.Box(0, 255, self._stack.shape, np.uint8)
        self._lives = 0
        self._next_life_info: dict[str, Any] | None = None  # info at the start of the next life of this game
        self._pending_reward = 0.0  # rewards from the start of the game, or of the life

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.uint8], dict[str, Any]]:
        """Begin a game, or continue with the next life."""
        life_info, self._next_life_info = self._next_life_info, None
        if life_info is not None and seed is None:
            self._push(self._resize(self._last_frames[1]))
            return self._stack.copy(), life_info
        info = self._begin(seed, options)
        for action in self._opening_actions():
            is_over, info = self._step_frame(action)
            if is_over:
                info = self._begin(None, None)
        self._stack[:] = self._resize(self._last_frames[1])
        self._lives = int(info["lives"])
        return self._stack.copy(), info

    def step(self, action: Any) -> tuple[NDArray[np.uint8], float, bool, bool, dict[str, Any]]:
        """Repeat an action for `frame_skip` frames."""
        total, self._pending_reward = self._pending_reward, 0.0
        for _ in range(self.settings.frame_skip):
            frame, reward, terminated, truncated, info = self.env.step(action)
            self._store_frame(frame)
            total += float(reward)
            if terminated or truncated:
                break
        pools_frames = self.settings.max_pool and self.settings.frame_skip > 1
        self._push(self._resize(self._last_frames.max(0) if pools_frames else self._last_frames[1]))
        lives, lives_before = int(info["lives"]), self._lives
        self._lives = lives
        if self._counts_lives and 0 < lives < lives_before and not (terminated or truncated):
            terminated, info = True, self._lose_life(info)
            if self._next_life_info is None:  # the game is over, so the reward cannot go to a next life
                total, self._pending_reward = total + self._pending_reward, 0.0
        return self._stack.copy(), total, terminated, truncated, info

    def save_state(self) -> dict[str, Any]:
        """Return the frames, the stack, and the position in the game."""
        return {
            "frames": self._last_frames.copy(),
            "stack": self._stack.copy(),
            "lives": self._lives,
            "goes_on": self._next_life_info is not None,
            "owed": self._pending_reward,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from `save_state()`."""
        self._last_frames[:], self._stack[:] = state["frames"], state["stack"]
        self._lives, self._pending_reward = int(state["lives"]), float(state["owed"])
        self._next_life_info = {"lives": self._lives} if state["goes_on"] else None

    def _begin(self, seed: int | None, options: dict[str, Any] | None) -> dict[str, Any]:
        frame, info = self.env.reset(seed=seed, options=options)
        self._last_frames[:], self._pending_reward = frame, 0.0
        return info

    def _lose_life(self, info: dict[str, Any]) -> dict[str, Any]:
        """Play the frame after a lost life; returns the last info of the life, or of a game that is over."""
        is_over, next_info = self._step_frame(FIRE if self._has_fire else NOOP)
        self._lives = int(next_info["lives"])
        if is_over:
            return next_info
        self._next_life_info = next_info
        return {**info, LIFE_LOST: True}

    def _opening_actions(self) -> list[int]:
        """Return the actions of the frames at the start of a game; FIRE is the last."""
        noop_max = self.settings.noop_max
        count = int(self.env.unwrapped.np_random.integers(1, noop_max + 1)) if noop_max else 0
        fire = [FIRE] * self._has_fire
        return [NOOP] * (count - len(fire)) + fire

    def _step_frame(self, action: int) -> tuple[bool, dict[str, Any]]:
        """Play one frame with an action; returns whether the game is over, and the info."""
        frame, reward, terminated, truncated, info = self.env.step(action)
        self._store_frame(frame)
        self._pending_reward += float(reward)
        return terminated or truncated, info

    def _store_frame(self, frame: NDArray[np.uint8]) -> None:
        self._last_frames[0], self._last_frames[1] = self._last_frames[1], frame

    def _push(self, frame: NDArray[np.uint8]) -> None:
        self._stack[:-1] = self._stack[1:]
        self._stack[-1] = frame

    def _resize(self, frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
        return resize_area(frame, self.settings.screen_size)


def resize_area(frame: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Scale a gray frame `[height, width]` to `[size, size]`: each pixel is the mean of the area it covers.

    Sums are integers, so the exact mean is rounded (half to even, as in OpenCV). They fit 32 bits up to 8
    million pixels.
    """
    rows = _area_sums(frame, size)
    sums = _area_sums(np.ascontiguousarray(rows.T), size).T
    scaled: NDArray[np.uint8] = np.rint(sums / frame.size).astype(np.uint8)
    return scaled


def _area_sums(pixels: NDArray[Any], size: int) -> NDArray[np.int32]:
    """Sum rows `[n, width]` in each of `size` equal parts; returns the sums times `size`, `[size, width]`."""
    sums = np.zeros((size, pixels.shape[1]), np.int32)
    for rows, weights in zip(*_area_weights(len(pixels), size), strict=True):
        sums += pixels[rows] * weights
    return sums


@cache
def _area_weights(length: int, size: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return which of `length` rows each of `size` equal parts covers, and the weights of these rows.

    The rows are `[k, size]`. The weights are `[k, size, 1]`, in units of `1 / size`, and 0 for rows after the
    last one of a part.
    """
    begin = np.arange(size) * length
    rows = begin // size + np.arange(-(-length // size) + 1)[:, None]
    stop, start = np.minimum((rows + 1) * size, begin + length), np.maximum(rows * size, begin)
    weights = np.maximum(stop - start, 0).astype(np.int32)
    return np.minimum(rows, length - 1), weights[..., None]
