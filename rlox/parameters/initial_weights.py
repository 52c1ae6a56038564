"""What the weights of a run begin as: a function of the run's seed and of where a parameter stands.

Of linear layers alone, from Rust's streams, so that every engine begins with the same bits, on every
platform: torch's own orthogonal matrices are LAPACK's, which depend on the machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from rlox._core import Stream

__all__ = ["HEAD_GAINS", "initial_weights"]

# Gains of the last layers of actor and critic, as in the PPO of OpenAI Baselines.
HEAD_GAINS: Mapping[str, float] = {"actor": 0.01, "critic": 1.0}


def initial_weights(
    shapes_by_name: Iterable[tuple[str, tuple[int, ...]]], seed: int, orthogonal: bool = False
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """The parameters of linear layers among `shapes_by_name`, names and shapes in the order that torch has
    them.

    Weights `[outputs, inputs]`, of n networks `[n, outputs, inputs]`, and biases are uniform in
    +-1/sqrt(inputs), as `torch.nn.Linear` begins; with `orthogonal` the weights are orthogonal (Saxe et al.
    2014) with gain sqrt 2, those of the last layers as in `HEAD_GAINS`, and biases 0. Parameter number i is
    drawn from stream `("init", i)`.
    """
    shapes = dict(shapes_by_name)
    head_names = {
        _network_name(name): name for name in shapes if name.endswith(".weight")
    }  # the last one stays
    for index, (name, shape) in enumerate(shapes.items()):
        weight = _weight_name(name)
        if weight not in shapes:
            continue  # of something else than a linear layer
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
    """The name of the weight beside a bias, and of a weight itself; of `weights.0` in an ensemble too."""
    net, _, kind = name.rpartition(".")
    if kind in ("weight", "bias"):
        return f"{net}.weight"
    net, _, collection = net.rpartition(".")
    return f"{net}.weights.{kind}" if collection in ("weights", "biases") else None


def _network_name(name: str) -> str:
    """The network that a layer's parameter is of: `actor` of `actor.0.weight`."""
    return name.rsplit(".", 2)[0]
