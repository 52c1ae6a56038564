"""Optimizers over one flat vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlox.later import later

if TYPE_CHECKING:
    from rlox.optim.flat import FlatParameters
    from rlox.optim.rules import Adam, Optimizer, RMSprop
    from rlox.optim.target import TargetNetwork

__all__ = ["Adam", "FlatParameters", "Optimizer", "RMSprop", "TargetNetwork"]

__getattr__ = later(
    __name__,
    {
        "flat": ("FlatParameters",),
        "rules": ("Adam", "Optimizer", "RMSprop"),
        "target": ("TargetNetwork",),
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
