"""Check that an environment renders in the modes that it lists."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np

from rlox.envs.check.subject import Subject, close_quietly
from rlox.envs.check.values import short_repr
from rlox.errors import MissingExtraError, describe_error

__all__ = ["check_rendering"]

RGB_MODE = "rgb_array"


def check_rendering(subject: Subject, env: Any) -> None:
    """Check the environment's own render mode, and a frame if it lists `rgb_array`."""
    modes = [*(env.metadata or {}).get("render_modes", ())]
    if env.render_mode is not None and env.render_mode not in modes:
        subject.report.warning(
            "render-mode-unknown",
            f"it was made with render_mode={env.render_mode!r}, which its metadata does not list, expected "
            f"one of {modes}; add it to metadata['render_modes']",
        )
    # an object that cannot be copied cannot be made again in another mode
    elif RGB_MODE in modes and subject.accepts_render_mode and not subject.is_uncopyable:
        with _hidden_windows():
            _check_frame(subject)


def _check_frame(subject: Subject) -> None:
    try:
        subject.on_call(f"being made with render_mode={RGB_MODE}")
        env = subject.maker(RGB_MODE)
        subject.on_call("render()")
        if env.render_mode != RGB_MODE:
            subject.report.warning(
                "render-mode-lost",
                f"made with render_mode={RGB_MODE!r} it has render_mode={env.render_mode!r}, expected the "
                "requested one, without which wrappers record no videos; set self.render_mode = render_mode",
            )
            return
        env.reset(seed=subject.seeds(1)[0])
        frame = env.render()
    except (ImportError, gym.error.DependencyNotInstalled, MissingExtraError):
        return  # the rendering package is not installed, and nothing else needs it
    except subject.env_exceptions as error:
        subject.report.warning(
            "render-fails",
            f"render() in the mode {RGB_MODE!r}, which its metadata lists, raises {describe_error(error)}, "
            "expected a frame; call it by hand, or remove the mode from metadata['render_modes']",
        )
        return
    close_quietly(env)
    _check_array(subject, frame)


def _check_array(subject: Subject, frame: Any) -> None:
    if frame is None:
        subject.report.warning(
            "render-nothing",
            f"render() in the mode {RGB_MODE!r} gives None, expected a frame [height, width, 3] of uint8; "
            "return the array, even if a window is shown too",
        )
        return
    is_array = isinstance(frame, np.ndarray)
    if not (is_array and frame.dtype == np.uint8 and frame.ndim == 3 and frame.shape[-1] == 3):
        actual = f"{frame.dtype} of shape {frame.shape}" if is_array else short_repr(frame)
        subject.report.warning(
            "render-frame",
            f"render() in the mode {RGB_MODE!r} gives {actual}, expected uint8 of [height, width, 3] from 0 "
            "to 255; videos need such frames",
        )


@contextmanager
def _hidden_windows() -> Iterator[None]:
    before = os.environ.get("SDL_VIDEODRIVER")
    os.environ["SDL_VIDEODRIVER"] = "dummy"
    try:
        yield
    finally:
        os.environ.pop("SDL_VIDEODRIVER")
        if before is not None:
            os.environ["SDL_VIDEODRIVER"] = before
