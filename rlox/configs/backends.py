"""The field that selects the library that computes an algorithm's updates."""

from __future__ import annotations

from typing import Any

from rlox.configs.params import param

__all__ = ["backend"]


def backend() -> Any:
    """Return the `backend` field of algorithms that have a native and a torch implementation."""
    return param(
        "auto",
        "library that computes the updates. native: Rust, for MLPs of vector observations on the CPU; "
        "auto: native where it was measured to be faster",
        choices=("auto", "torch", "native"),
    )
