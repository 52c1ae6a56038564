"""Environments that are broken, each in one way, and sound ones: what a check is measured by."""

from . import (
    actions,
    episodes,
    observations,
    randomness,
    rendering,
    returned,
    sharing,
    spaces_,
    surroundings,
)
from .good import GOOD
from .kinds import BROKEN, Kind
from .published import ADVISED, LACKS, PUBLISHED

__all__ = [
    "ADVISED",
    "BROKEN",
    "GOOD",
    "LACKS",
    "PUBLISHED",
    "Kind",
    "actions",
    "episodes",
    "observations",
    "randomness",
    "rendering",
    "returned",
    "sharing",
    "spaces_",
    "surroundings",
]
