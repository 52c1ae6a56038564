"""The memory cost of an image encoder, for the preflight check."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["NO_COST", "EncoderCost"]


class EncoderCost(NamedTuple):
    """The cost of an encoder, counted in numbers of 4 bytes (float32)."""

    parameters: int
    saved_activations: int  # per row, saved for the gradient
    peak_activations: int  # per row, at the same time, without gradient
    features: int = 0  # size of the output


NO_COST = EncoderCost(0, 0, 0)
