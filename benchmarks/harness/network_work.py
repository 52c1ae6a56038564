"""The inputs of a gradient step, and the number of its multiplications, by shape alone.

The parameters are one vector. It has the arrays of two-layer networks in the order of torch's modules, as the
programs of `harness.programs` expect them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
LOG_STD = -0.5


@dataclass(frozen=True)
class Sizes:
    """Sizes of an observation, of the outputs, of both hidden layers and of a batch."""

    obs: int
    outputs: int
    width: int
    rows: int

    def net(self, outputs: int, inputs: int | None = None) -> tuple[int, ...]:
        """Return the sizes of a network's layers, with inputs and outputs."""
        return (self.obs if inputs is None else inputs, self.width, self.width, outputs)


def networks(work: str, sizes: Sizes) -> list[tuple[int, ...]]:
    """Return the layer sizes of every network that learns or acts."""
    if work in ("ppo", "a2c", "act"):
        return [sizes.net(sizes.outputs), sizes.net(1)]
    if work in ("dqn", "critic"):
        return [sizes.net(sizes.outputs if work == "dqn" else 1)]
    heads = 2 * sizes.outputs if work == "sac" else sizes.outputs
    pairs = sizes.net(1, sizes.obs + sizes.outputs)
    return [sizes.net(heads), pairs, pairs]


def shapes(net: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the shapes of the weight `[outputs, inputs]` and the bias of each layer."""
    return [shape for n, m in pairwise(net) for shape in ((m, n), (m,))]


def parameters(nets: Sequence[Sequence[int]], rng: np.random.Generator) -> Array:
    """Draw normal weights, scaled so that activations keep their size, and small biases."""
    all_shapes = [shape for net in nets for shape in shapes(net)]
    scales = [1 / math.sqrt(shape[-1]) if len(shape) == 2 else 0.01 for shape in all_shapes]
    random_arrays = [
        s * rng.standard_normal(shape).ravel() for s, shape in zip(scales, all_shapes, strict=True)
    ]
    return np.concatenate(random_arrays).astype(np.float32)


def arrays(work: str, sizes: Sizes) -> dict[str, Array]:
    """Return the inputs of a step: parameters, those of a target network, and the columns of a batch."""
    rng, (n, k) = np.random.default_rng(1), (sizes.rows, sizes.outputs)
    nets = networks(work, sizes)
    parameters_vector = parameters(nets, rng)
    if work == "act":
        parameters_vector = np.concatenate([np.full(k, LOG_STD, np.float32), parameters_vector])
    columns = {
        "obs": rng.standard_normal((n, sizes.obs)),
        "next_obs": rng.standard_normal((n, sizes.obs)),
        "noise": rng.standard_normal((n, k)),
        "actions": rng.integers(0, k if work != "critic" else 1, n),
        "log_probs": -math.log(k) + 0.1 * rng.standard_normal(n),
        **{name: rng.standard_normal(n) for name in ("values", "advantages", "returns", "goals")},
        "rewards": rng.standard_normal(n),
        "discounts": np.full(n, 0.99),
    }
    parameter_arrays = {"parameters": parameters_vector, "target": parameters(nets, rng)}
    return parameter_arrays | {name: column.astype(np.float32) for name, column in columns.items()}


def product_flops(work: str, sizes: Sizes, policy_delay: int = 2) -> float:
    """Return the multiplications and additions in the matrix products of one step.

    TD3's actor learns in every `policy_delay`-th step.
    """
    forward_flops = [sum(2 * sizes.rows * n * m for n, m in pairwise(net)) for net in networks(work, sizes)]
    # The gradient of a network's inputs is needed only if they are actions.
    learn_flops = [
        3 * f - 2 * sizes.rows * net[0] * net[1]
        for f, net in zip(forward_flops, networks(work, sizes), strict=True)
    ]
    if work == "act":
        return forward_flops[0]
    if work in ("ppo", "a2c", "critic"):
        return sum(learn_flops)
    if work == "dqn":
        return forward_flops[0] + learn_flops[0]
    critic_flops = sum(forward_flops[1:]) + sum(learn_flops[1:])  # the target's values, then a gradient step
    actor_gradient_flops = 2 * forward_flops[1]  # one critic's value, and its gradient by the actions
    if work == "sac":
        return forward_flops[0] + critic_flops + 2 * actor_gradient_flops + learn_flops[0]
    return forward_flops[0] + critic_flops + (actor_gradient_flops + learn_flops[0]) / policy_delay
