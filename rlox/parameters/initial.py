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

__all__ = ["HEADS", "initial"]

# Gains of the last layers of actor and critic, as in the PPO of OpenAI Baselines.
HEADS: Mapping[str, float] = {"actor": 0.01, "critic": 1.0}


def initial(
    named: Iterable[tuple[str, tuple[int, ...]]], seed: int, orthogonal: bool = False
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """The parameters of linear layers among `named`, names and shapes in the order that torch has them.

    Weights `[outputs, inputs]`, of n networks `[n, outputs, inputs]`, and biases are uniform in
    +-1/sqrt(inputs), as `torch.nn.Linear` begins; with `orthogonal` the weights are orthogonal (Saxe et al.
    2014) with gain sqrt 2, those of the last layers as in `HEADS`, and biases 0. Parameter number i is
    drawn from stream `("init", i)`.
    """
    shapes = dict(named)
    heads = {_net(name): name for name in shapes if name.endswith(".weight")}  # the last one stays
    for index, (name, shape) in enumerate(shapes.items()):
        weight = _weight_of(name)
        if weight not in shapes:
            continue  # of something else than a linear layer
        stream = Stream(seed, "init", index)
        if not orthogonal:
            bound = 1.0 / math.sqrt(shapes[weight][-1])
            drawn = bound * (2.0 * stream.uniform(math.prod(shape)) - 1.0)
            yield name, drawn.reshape(shape).astype(np.float32)
        elif name == weight:
            last = heads[_net(name)] == name
            gain = HEADS[_net(name)] if last else math.sqrt(2.0)
            yield name, (gain * stream.orthogonal(*shape)).astype(np.float32)
        else:
            yield name, np.zeros(shape, np.float32)


def _weight_of(name: str) -> str | None:
    """The name of the weight beside a bias, and of a weight itself; of `weights.0` in an ensemble too."""
    net, _, last = name.rpartition(".")
    if last in ("weight", "bias"):
        return f"{net}.weight"
    net, _, kind = net.rpartition(".")
    return f"{net}.weights.{last}" if kind in ("weights", "biases") else None


def _net(name: str) -> str:
    """The network that a layer's parameter is of: `actor` of `actor.0.weight`."""
    return name.rsplit(".", 2)[0]
