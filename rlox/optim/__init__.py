"""Optimizers over one flat vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlox.later import later

if TYPE_CHECKING:
    from rlox.optim.flat import FlatParameters
    from rlox.optim.rules import Adam, AdamW, Optimizer, RMSprop
    from rlox.optim.target import TargetNetwork

__all__ = ["Adam", "AdamW", "FlatParameters", "Optimizer", "RMSprop", "TargetNetwork"]

__getattr__ = later(
    __name__,
    {
        "flat": ("FlatParameters",),
        "rules": ("Adam", "AdamW", "Optimizer", "RMSprop"),
        "target": ("TargetNetwork",),
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
