"""Optimizers and target networks on one flat parameter vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlox.lazy_imports import lazy_getattr

if TYPE_CHECKING:
    from rlox.optim.optimizers import Adam, AdamW, FlatParameters, Optimizer, RMSprop, TargetNetwork
    from rlox.optim.radam import RAdam

__all__ = ["Adam", "AdamW", "FlatParameters", "Optimizer", "RAdam", "RMSprop", "TargetNetwork"]

__getattr__ = lazy_getattr(
    __name__,
    {
        "optimizers": ("Adam", "AdamW", "FlatParameters", "Optimizer", "RMSprop", "TargetNetwork"),
        "radam": ("RAdam",),
    },
)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
