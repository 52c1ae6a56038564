"""The layout of a policy's parameters in one vector."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.devices import torch_if_imported
from rlox.errors import CheckpointError

__all__ = [
    "Layout",
    "NamedShape",
    "ParameterVector",
    "as_array",
    "copy_into",
    "linear_shapes",
    "max_width",
    "restore_moments",
]

NamedShape = tuple[str, tuple[int, ...]]  # a parameter's name and shape

# Names of optimizers by their moments.
OPTIMIZER_NAMES = {("exp_avg", "exp_avg_sq"): "Adam", ("square_avg",): "RMSprop"}

ALIGN = 16  # in numbers: parameters start at multiples of 64 bytes, where vector loads are fastest


class Layout:
    """Positions of named parameters, one after the other, in a vector of `size` numbers."""

    def __init__(self, shapes: Iterable[NamedShape]) -> None:
        self.shapes = dict(shapes)
        self.slices: dict[str, slice] = {}
        self.size = 0
        for name, shape in self.shapes.items():
            numbers = math.prod(shape)
            self.slices[name] = slice(self.size, self.size + numbers)
            self.size += -(-numbers // ALIGN) * ALIGN

    def zeros(self) -> NDArray[np.float32]:
        """Return a zero vector of this layout; its memory starts at a multiple of 64 bytes."""
        memory = np.zeros(self.size + ALIGN, np.float32)
        offset = -memory.ctypes.data % (4 * ALIGN) // 4
        return memory[offset : offset + self.size]

    def views(self, vector: Any) -> dict[str, Any]:
        """Return the views of a NumPy or torch vector of this layout, by name and in their shapes."""
        return {name: vector[position].reshape(self.shapes[name]) for name, position in self.slices.items()}


@dataclass(frozen=True)
class ParameterVector:
    """A float32 vector of parameters with its layout."""

    layout: Layout
    vector: NDArray[np.float32]
    lock: Any = field(default_factory=RLock, repr=False, compare=False)  # held during calls into Rust

    @classmethod
    def zeros(cls, shapes: Iterable[NamedShape]) -> ParameterVector:
        """Make a vector of zeros for these shapes."""
        layout = Layout(shapes)
        return cls(layout, layout.zeros())

    def views(self) -> dict[str, NDArray[np.float32]]:
        """Return the parameters by name, as views of the vector."""
        return self.layout.views(self.vector)


def linear_shapes(prefix: str, sizes: Sequence[int]) -> list[NamedShape]:
    """Return names and shapes of linear layers `sizes[0] -> ... -> sizes[-1]`, as in `rlox.networks.mlp`."""
    shapes: list[NamedShape] = []
    for i, (inputs, outputs) in enumerate(pairwise(sizes)):
        shapes += [(f"{prefix}{2 * i}.weight", (outputs, inputs))]
        shapes += [(f"{prefix}{2 * i}.bias", (outputs,))]
    return shapes


def max_width(shapes: Iterable[NamedShape]) -> int:
    """Return the largest number of inputs or outputs among these layers."""
    return max((size for _, shape in shapes for size in shape[-2:]), default=1)


def copy_into(views: Mapping[str, NDArray[np.float32]], saved_values: Mapping[str, Any]) -> None:
    """Copy arrays or tensors, by name, into `views`; `CheckpointError` if names or shapes differ."""
    for name in [*views, *saved_values]:
        shapes = [
            list(arrays[name].shape) if name in arrays else "missing" for arrays in (saved_values, views)
        ]
        if shapes[0] != shapes[1]:
            raise CheckpointError(f"{name} is {shapes[0]} there and {shapes[1]} here")
    for name, view in views.items():
        view[...] = as_array(saved_values[name])


def as_array(values: Any) -> NDArray[Any]:
    """Return an array; a tensor of any device and dtype becomes float32."""
    torch = torch_if_imported()
    if torch is None or not isinstance(values, torch.Tensor):
        return np.asarray(values)
    array: NDArray[np.float32] = values.detach().cpu().float().numpy()
    return array


def restore_moments(
    state: Mapping[str, Any],
    layout: Layout,
    vectors: Mapping[str, Any],
    copy: Callable[[Any, Any], None],
) -> int:
    """Fill an optimizer's moments (`vectors`, by name) from its state; return its step count.

    `copy(view, saved)` writes a parameter's saved moment into its view. `CheckpointError` if names or shapes
    differ, and for the state of another optimizer.
    """
    moments = state["moments"]
    if moments.keys() != layout.shapes.keys():
        name_in_one = sorted(moments.keys() ^ layout.shapes.keys())[0]
        raise CheckpointError(f"optimizer state and policy differ in parameter '{name_in_one}'")
    for name, parameter_moments in moments.items():
        if parameter_moments.keys() != vectors.keys():
            raise CheckpointError(
                f"the optimizer state of {name} is {_optimizer_text(parameter_moments)}, the optimizer here "
                f"is {_optimizer_text(vectors)}; give the run the optimizer that it began with (in A2C: "
                "algo.use_rms_prop)"
            )
    for key, vector in vectors.items():
        for name, view in layout.views(vector).items():
            saved_vector = moments[name][key]
            if tuple(saved_vector.shape) != tuple(view.shape):
                raise CheckpointError(
                    f"optimizer state {key} of {name} has shape {tuple(saved_vector.shape)}, "
                    f"expected {tuple(view.shape)}"
                )
            copy(view, saved_vector)
    return int(state["steps"])


def _optimizer_text(vectors: Iterable[str]) -> str:
    """Describe the optimizer that has these moments."""
    keys = tuple(sorted(vectors))
    return f"{OPTIMIZER_NAMES.get(keys, 'another one')}'s ({', '.join(keys)})"
