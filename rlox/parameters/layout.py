"""Where the parameters of a policy lie in one vector."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.errors import CheckpointError

__all__ = ["Layout", "restored"]

ALIGN = 16  # parameters start at multiples of 64 bytes, where vector loads are fastest


class Layout:
    """Parameters by name and shape, one after the other; `size` numbers in all."""

    def __init__(self, named: Iterable[tuple[str, tuple[int, ...]]]) -> None:
        self.shapes = dict(named)
        self.slices: dict[str, slice] = {}
        self.size = 0
        for name, shape in self.shapes.items():
            numbers = math.prod(shape)
            self.slices[name] = slice(self.size, self.size + numbers)
            self.size += -(-numbers // ALIGN) * ALIGN

    def zeros(self) -> NDArray[np.float32]:
        """Such a vector, which begins at a multiple of 64 bytes too."""
        room = np.zeros(self.size + ALIGN, np.float32)
        first = -room.ctypes.data % (4 * ALIGN) // 4
        return room[first : first + self.size]

    def views(self, vector: Any) -> dict[str, Any]:
        """The parts of such a vector, of NumPy's or torch's, by name and in their shapes."""
        return {name: vector[at].reshape(self.shapes[name]) for name, at in self.slices.items()}


def restored(
    state: Mapping[str, Any],
    layout: Layout,
    vectors: Mapping[str, Any],
    copy: Callable[[Any, Any], None],
) -> int:
    """Fill an optimizer's moments, vectors by name, from its state; how many steps it had made.

    `copy(view, saved)` writes one. CheckpointError for names or shapes that do not fit.
    """
    moments = state["moments"]
    if moments.keys() != layout.shapes.keys():
        odd = sorted(moments.keys() ^ layout.shapes.keys())[0]
        raise CheckpointError(f"optimizer state and policy differ in parameter '{odd}'")
    for key, vector in vectors.items():
        for name, view in layout.views(vector).items():
            saved = moments[name][key]
            if tuple(saved.shape) != tuple(view.shape):
                raise CheckpointError(
                    f"optimizer state {key} of {name} has shape {tuple(saved.shape)}, "
                    f"expected {tuple(view.shape)}"
                )
            copy(view, saved)
    return int(state["steps"])
