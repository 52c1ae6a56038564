"""The initial weights of a run, a function of its seed and of the positions of the parameters.

Only linear layers are covered. Rust's random streams make every backend start from the same bits on every
platform; torch's orthogonal matrices come from LAPACK and depend on the machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from rlox._core import Stream

__all__ = ["HEAD_GAINS", "initial_weights"]

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
        if weight not in shapes:
            continue  # not part of a linear layer
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
