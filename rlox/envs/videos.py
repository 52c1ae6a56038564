"""Videos of episodes as mp4 files, in evaluations and in training; needs the optional package imageio."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rlox.envs.base import LIFE_LOST, to_flag
from rlox.errors import ConfigError, EnvError, MissingExtraError, describe_error
from rlox.extras import install_command

__all__ = ["VIDEO", "EpisodeVideoRecorder", "render_frame", "require_video", "write_mp4"]

VIDEO = "rlox/film"  # in the info of a recorded episode's last step: the bytes of an mp4


def require_video() -> None:
    """Raise `MissingExtraError` if a package for videos is missing."""
    try:
        import imageio.v2  # noqa: F401
        import imageio_ffmpeg  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(f"videos need imageio: {install_command('video')}") from error


def write_mp4(path: Path, frames: Sequence[NDArray[np.uint8]], fps: float) -> None:
    """Write RGB frames `[H, W, 3]` as H.264."""
    require_video()
    if not frames:
        raise ConfigError(f"no frames to write to {path}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with _open_writer(path, fps) as writer:
        for frame in frames:
            writer.append_data(frame)


def render_frame(env: gym.Env[Any, Any]) -> NDArray[np.uint8]:
    """Render the current state of an environment, RGB `[H, W, 3]`."""
    name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
    try:
        frame = env.render()
    except gym.error.DependencyNotInstalled as error:
        raise MissingExtraError(
            f"{name} renders with a package that is not installed: {install_command('video')} ({error})"
        ) from error
    except Exception as error:
        raise EnvError(f"{name} raised {describe_error(error)} in render()") from error
    if not isinstance(frame, np.ndarray):
        raise ConfigError(
            f"{name} gave {type(frame).__name__} in render(), expected a frame [height, width, 3] as with "
            f"render_mode='rgb_array'; its render_mode is {env.render_mode!r}"
        )
    return frame


class EpisodeVideoRecorder(gym.Wrapper[Any, Any, Any, Any]):
    """Records every `every`-th episode, starting with the first.

    Frames are written to a temporary file at once, since those of a long episode take gigabytes. The mp4,
    which is small, is in the info of the last step under `VIDEO`. There is no video of an episode that a
    reset cuts off, or of which a resumed run plays the second half.
    """

    def __init__(self, env: gym.Env[Any, Any], every: int) -> None:
        super().__init__(env)
        require_video()
        if env.render_mode != "rgb_array":
            raise ConfigError(
                f"env.record_every={every}: {env} has render_mode={env.render_mode}, expected "
                "'rgb_array'; make the environment with that mode, or leave env.record_every out"
            )
        self._every = every
        self._n_episodes = 0  # number of episodes that began so far
        self._game_continues = False  # whether the last step lost a life in a game that is not over
        self._fps = float(env.metadata.get("render_fps", 30))
        self._video: _VideoFile | None = None

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        """Begin an episode, and a video if due; the next life of a game belongs to the same episode."""
        game_continues = self._game_continues and options.get("seed") is None
        if not game_continues:
            self._discard_video()
        result = self.env.reset(**options)
        self._game_continues = False
        if game_continues:
            return result
        if self._n_episodes % self._every == 0:
            self._video = _VideoFile(self._fps)
            self._video.add(render_frame(self.env))
        self._n_episodes += 1
        return result

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Step, and add a frame to the current video."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._game_continues = bool(info.get(LIFE_LOST))
        if self._video is not None:
            self._video.add(render_frame(self.env))
            is_over = to_flag("terminated", terminated) or to_flag("truncated", truncated)
            if is_over and not info.get(LIFE_LOST):
                info = {**info, VIDEO: self._video.finish()}
                self._video = None
        return observation, reward, terminated, truncated, info

    def close(self) -> None:
        """Close the environment and discard an unfinished video."""
        try:
            self._discard_video()
        finally:
            super().close()

    def save_state(self) -> dict[str, Any]:
        """Return the number of episodes, which decides the next recording, and whether a game continues."""
        return {"begun": self._n_episodes, "goes_on": self._game_continues}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from `save_state()`; an episode in progress is not recorded."""
        self._discard_video()
        self._n_episodes, self._game_continues = int(state["begun"]), bool(state["goes_on"])

    def _discard_video(self) -> None:
        if self._video is not None:
            self._video.finish()
            self._video = None


class _VideoFile:
    """An unfinished mp4."""

    def __init__(self, fps: float) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="rlox-film-")
        self._path = Path(self._folder.name) / "film.mp4"
        self._writer = _open_writer(self._path, fps)

    def add(self, frame: NDArray[np.uint8]) -> None:
        self._writer.append_data(frame)

    def finish(self) -> bytes:
        """Finish the file, return its content and delete it."""
        self._writer.close()
        content = self._path.read_bytes()
        self._folder.cleanup()
        return content


def _open_writer(path: Path, fps: float) -> Any:
    import imageio.v2 as imageio

    return imageio.get_writer(path, fps=fps, macro_block_size=2)
