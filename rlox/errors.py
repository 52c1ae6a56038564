"""Everything rlox raises on purpose: one small tree, each message naming the thing and the remedy.

`RloxError` catches all of them. Where Python has a fitting builtin, the class also derives from it,
so that `except ValueError` of existing code keeps working. The Rust extension raises the same classes.
"""

from __future__ import annotations

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
]


class RloxError(Exception):
    """Base of every error that rlox raises on purpose."""


class ConfigError(RloxError, ValueError):
    """A setting is unknown, of the wrong type, out of range, or contradicts another."""


class UnknownNameError(ConfigError):
    """A name (environment, algorithm, logger, ...) is not registered."""


class UnsupportedSpaceError(ConfigError):
    """An observation or action space that the chosen algorithm cannot use."""


class MissingExtraError(ConfigError, ImportError):
    """An optional package is needed and not installed; the message has the install line."""


class ShapeError(RloxError, ValueError):
    """An array has the wrong shape, dtype, length or memory layout."""


class EnvError(RloxError, RuntimeError):
    """An environment broke its contract, died, or did not answer in time."""


class GenerationError(RloxError, RuntimeError):
    """A generation server refused, hung, or answered what no completion is."""


class RewardError(RloxError, ValueError):
    """A reward or preference function of the user's raised, or returned what is no reward."""


class GroupError(RloxError, RuntimeError):
    """A process that learns along is gone, or does not answer."""


class StaleIndexError(RloxError, IndexError):
    """A row of a buffer that was overwritten or never written."""


class StorageError(RloxError, OSError):
    """A file or folder cannot be written or read."""


class CheckpointError(RloxError, ValueError):
    """A checkpoint is damaged, incomplete, of another format, or does not fit the run."""


class NonFiniteError(RloxError, ArithmeticError):
    """NaN or infinity where a finite number is required; names the tensor and the step."""


class InternalError(RloxError, RuntimeError):
    """A bug in rlox (a caught Rust panic); please report it with the message."""
