"""Datasets for offline learning: made, described, checked, and taken from the files of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlox.later import later

if TYPE_CHECKING:
    from rlox.offline.description import Returns, described
    from rlox.offline.foreign.converting import Conversion, converted
    from rlox.offline.foreign.exporting import exported
    from rlox.offline.making import Play, of_random_actions, of_run

__all__ = [
    "Conversion",
    "Play",
    "Returns",
    "converted",
    "described",
    "exported",
    "of_random_actions",
    "of_run",
]

# The process that reads somebody's file imports this package and needs no torch.
__getattr__ = later(
    __name__,
    {
        "description": ("Returns", "described"),
        "foreign.converting": ("Conversion", "converted"),
        "foreign.exporting": ("exported",),
        "making": ("Play", "of_random_actions", "of_run"),
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
