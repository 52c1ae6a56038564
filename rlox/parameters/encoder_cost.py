"""The memory cost of an image encoder, for the preflight check that a run fits into memory."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["NO_COST", "EncoderCost"]


class EncoderCost(NamedTuple):
    """The size of an encoder; each field counts float32 numbers, of 4 bytes each."""

    parameters: int  # number of weights and biases
    saved_activations: int  # per row: activations that are saved for the gradient
    peak_activations: int  # per row: most activations in memory at once if no gradient is computed
    features: int = 0  # number of features in the output


NO_COST = EncoderCost(0, 0, 0)
