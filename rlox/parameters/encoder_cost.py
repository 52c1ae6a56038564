"""What an encoder of images takes, as preflight counts it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["NO_COST", "EncoderCost"]


class EncoderCost(NamedTuple):
    """What an encoder takes: numbers, of 4 bytes in float32."""

    parameters: int
    saved_activations: int  # of a row, for going back
    peak_activations: int  # of a row, at once, where nobody goes back
    features: int = 0  # that it gives


NO_COST = EncoderCost(0, 0, 0)
