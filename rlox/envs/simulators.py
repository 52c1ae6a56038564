"""Warnings of simulators go to the log of the run, each once, not to the terminal."""

from __future__ import annotations

import logging

__all__ = ["log_mujoco_warnings"]

log = logging.getLogger("rlox.mujoco")
_logged: set[str] = set()  # MuJoCo repeats a warning for every model that it compiles


def log_mujoco_warnings() -> None:
    """Take the warnings that MuJoCo prints, and writes into MUJOCO_LOG.TXT, for this process."""
    try:
        import mujoco
    except ImportError:  # whoever makes the environment says so
        return
    mujoco.set_mju_user_warning(_log_once)


def _log_once(text: str) -> None:
    if text not in _logged:
        _logged.add(text)
        log.info("MuJoCo: %s", text)
