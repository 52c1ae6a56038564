"""Environments that are each broken in one way, and sound ones, for tests of the check."""

from . import (
    actions,
    episodes,
    observations,
    randomness,
    rendering,
    return_values,
    shared_state,
    side_effects,
    space_faults,
)
from .base import BROKEN, BrokenEnv
from .gymnasium_envs import ADVISED, LACKS, PUBLISHED
from .sound import SOUND_ENVS

__all__ = [
    "ADVISED",
    "BROKEN",
    "LACKS",
    "PUBLISHED",
    "SOUND_ENVS",
    "BrokenEnv",
    "actions",
    "episodes",
    "observations",
    "randomness",
    "rendering",
    "return_values",
    "shared_state",
    "side_effects",
    "space_faults",
]
