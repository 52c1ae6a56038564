"""The finite guard: a NaN or infinity stops the run in the update where it first shows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rlox.errors import NonFiniteError

__all__ = ["require_finite"]


def require_finite(table: Tensor, names: Sequence[str], where: str) -> None:
    """Raise `NonFiniteError` naming the first non-finite entry of `[minibatches, names]`."""
    bad = torch.nonzero(~torch.isfinite(table))
    if len(bad):
        row, column = bad[0].tolist()
        raise NonFiniteError(
            f"{names[column]} is {table[row, column].item()} in minibatch {row} of the {where}; "
            "lower algo.learning_rate or algo.max_grad_norm, or check the environment's rewards"
        )
