"""The exceptions that rlox raises on purpose; each message names the thing and the remedy.

`RloxError` catches all of them. Where Python has a fitting builtin, the class also derives from it,
so that `except ValueError` in existing code keeps working. The Rust extension raises the same classes.
"""

from __future__ import annotations

import traceback
from functools import cache
from pathlib import Path

__all__ = [
    "CheckpointError",
    "ConfigError",
    "EnvError",
    "GenerationError",
    "GroupError",
    "InternalError",
    "MissingExtraError",
    "NonFiniteError",
    "RewardError",
    "RloxError",
    "ShapeError",
    "StaleIndexError",
    "StorageError",
    "UnknownNameError",
    "UnsupportedSpaceError",
    "describe_error",
    "one_line_message",
]

MAX_MESSAGE_LENGTH = 500  # characters of an exception's message that an rlox error quotes


class RloxError(Exception):
    """Base class of every exception that rlox raises on purpose."""


class ConfigError(RloxError, ValueError):
    """A setting is unknown, of the wrong type, out of range, or contradicts another."""


class UnknownNameError(ConfigError):
    """A name (environment, algorithm, logger, ...) is not registered."""


class UnsupportedSpaceError(ConfigError):
    """The chosen algorithm cannot use the observation or action space."""


class MissingExtraError(ConfigError, ImportError):
    """An optional package is needed but not installed; the message contains the install command."""


class ShapeError(RloxError, ValueError):
    """An array has the wrong shape, dtype, length or memory layout."""


class EnvError(RloxError, RuntimeError):
    """An environment broke its contract, died, or did not answer in time."""


class GenerationError(RloxError, RuntimeError):
    """A generation server refused a request, timed out, or returned something that is not a completion."""


class RewardError(RloxError, ValueError):
    """A reward or preference function of the user raised, or returned something that is not a reward."""


class GroupError(RloxError, RuntimeError):
    """Another process of a distributed run has ended or does not answer."""


class StaleIndexError(RloxError, IndexError):
    """A row of a buffer was overwritten or never written."""


class StorageError(RloxError, OSError):
    """A file or folder cannot be written or read."""


class CheckpointError(RloxError, ValueError):
    """A checkpoint is damaged, incomplete, of another format, or does not fit the run."""


class NonFiniteError(RloxError, ArithmeticError):
    """NaN or infinity where a finite number is required; names the tensor and the step."""


class InternalError(RloxError, RuntimeError):
    """A bug in rlox (a caught Rust panic); please report it with the message."""


def describe_error(error: BaseException) -> str:
    """Describe an exception from user code and its place: `ValueError: no (my_pkg.py, line 3)`.

    The line is the innermost line of user code, even if a library that it called raised the exception.
    """
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} ({error.filename}, line {error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    user_frames = [entry for entry in frames if not entry.filename.startswith(_library_paths())]
    frame = (user_frames or frames)[-1]
    return f"{type(error).__name__}: {one_line_message(error)} ({frame.filename}, line {frame.lineno})"


@cache
def _library_paths() -> tuple[str, ...]:
    """Return the paths of code that is not the user's: Python, installed packages, rlox."""
    import sysconfig  # only for an error: it takes milliseconds

    folders = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return "<frozen ", *folders, str(Path(__file__).parent)


def one_line_message(error: BaseException) -> str:
    """Return an exception's message as one line; for an empty message (a bare `assert`), the failing line."""
    message = " ".join(str(error).split())
    if message:
        return message if len(message) <= MAX_MESSAGE_LENGTH else f"{message[: MAX_MESSAGE_LENGTH - 3]}..."
    frames = traceback.extract_tb(error.__traceback__)
    return (frames[-1].line if frames else "") or "without a word"
