"""Choice of MuJoCo's rendering backend if there is no display."""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from contextlib import suppress
from typing import Any

from rlox.errors import MissingExtraError

__all__ = ["DISPLAYS", "choose_mujoco_gl"]

DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")
# Offscreen rendering backends by their name in Gymnasium and MuJoCo, with the libraries they can use.
_OFFSCREEN = {"egl": ("libEGL.so.1",), "osmesa": ("libOSMesa.so.8", "libOSMesa.so.6")}


def choose_mujoco_gl(entry_point: Any) -> None:
    """Set `MUJOCO_GL` before a MuJoCo environment renders, if it is unset and no window can be opened.

    By default Gymnasium tries GLFW first. If GLFW cannot open a window, MuJoCo ends the process, without an
    error that the run could catch. `MissingExtraError` if no offscreen backend is installed.
    """
    if not (isinstance(entry_point, str) and entry_point.startswith("gymnasium.envs.mujoco")):
        return
    _load_triton()
    has_display = not sys.platform.startswith("linux") or any(map(os.environ.get, DISPLAYS))
    if has_display or os.environ.get("MUJOCO_GL"):
        return
    for name, libraries in _OFFSCREEN.items():
        if any(map(_can_load, libraries)):
            os.environ["MUJOCO_GL"] = name
            return
    raise MissingExtraError(
        "MuJoCo needs a display to render (DISPLAY is not set), or EGL or OSMesa (neither is installed): "
        "apt-get install libegl1 libgl1"
    )


def _load_triton() -> None:
    """Load the LLVM of torch's triton before Mesa loads another one for rendering.

    In the other order the process crashes as soon as an optimizer of `torch.optim` is made, which imports
    triton.
    """
    with suppress(ImportError, OSError):
        importlib.import_module("triton._C.libtriton")


def _can_load(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
