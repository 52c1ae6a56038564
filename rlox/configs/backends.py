"""Which engine an algorithm's updates are asked of."""

from __future__ import annotations

from typing import Any

from rlox.configs.params import param

__all__ = ["backend"]


def backend() -> Any:
    """Of algorithms whose updates are one call of Rust or many of torch."""
    return param(
        "auto",
        "engine of the update; native is in Rust, for plain networks of vectors on the CPU; "
        "auto takes it where it was measured to be faster",
        choices=("auto", "torch", "native"),
    )
