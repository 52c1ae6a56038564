"""The layout of a policy's parameters in one vector, and their initial values.

Initial weights are a function of the run's seed and of the positions of the parameters; only linear layers
are covered. Rust's random streams make every backend start from the same bits on every platform; torch's
orthogonal matrices come from LAPACK and depend on the machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox._core import Stream
from rlox.devices import torch_if_imported
from rlox.errors import CheckpointError

__all__ = [
    "HEAD_GAINS",
    "Layout",
    "NamedShape",
    "ParameterVector",
    "as_array",
    "copy_into",
    "initial_weights",
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


# Gains of the output layers of actor and critic, as in the PPO of OpenAI Baselines.
HEAD_GAINS: Mapping[str, float] = {"actor": 0.01, "critic": 1.0}


def initial_weights(
    shapes_by_name: Iterable[tuple[str, tuple[int, ...]]], seed: int, orthogonal: bool = False
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yield names and initial values of the parameters of linear layers among `shapes_by_name`.

    `shapes_by_name` has names and shapes in torch's order. Weights `[outputs, inputs]`, or
    `[n, outputs, inputs]` for n networks, and biases are uniform in +-1/sqrt(inputs), as in
    `torch.nn.Linear`. With `orthogonal` the weights are orthogonal (Saxe et al. 2014), and biases are 0;
    the gain is sqrt 2, in the last layers that of `HEAD_GAINS`. Parameter number i is drawn from stream
    `("init", i)`.
    """
    shapes = dict(shapes_by_name)
    head_names = {
        _network_name(name): name for name in shapes if name.endswith(".weight")
    }  # later layers overwrite earlier ones, so the last layer remains
    for index, (name, shape) in enumerate(shapes.items()):
        weight = _weight_name(name)
        if weight not in shapes or len(shapes[weight]) == 1:
            continue  # not part of a linear layer; weights of layer normalisation have one dimension
        stream = Stream(seed, "init", index)
        if not orthogonal:
            bound = 1.0 / math.sqrt(shapes[weight][-1])
            values = bound * (2.0 * stream.uniform(math.prod(shape)) - 1.0)
            yield name, values.reshape(shape).astype(np.float32)
        elif name == weight:
            is_head = head_names[_network_name(name)] == name
            gain = HEAD_GAINS[_network_name(name)] if is_head else math.sqrt(2.0)
            yield name, (gain * stream.orthogonal(*shape)).astype(np.float32)
        else:
            yield name, np.zeros(shape, np.float32)


def _weight_name(name: str) -> str | None:
    """Return the name of the weight in the layer of this weight or bias; None for other parameters."""
    net, _, kind = name.rpartition(".")
    if kind in ("weight", "bias"):
        return f"{net}.weight"
    net, _, collection = net.rpartition(".")
    return f"{net}.weights.{kind}" if collection in ("weights", "biases") else None


def _network_name(name: str) -> str:
    """Return the network's name in a parameter's name: `actor` for `actor.0.weight`."""
    return name.rsplit(".", 2)[0]
