"""What an exported policy does, by its definition: NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.export.networks import Layers, Network

__all__ = ["Bounds", "Moments", "acted", "difference", "said"]

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Observations are seen as `(x - mean) / deviation`, in float64 `[dim]`, cut off at `clip`."""

    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    clip: float | None


@dataclass(frozen=True)
class Bounds:
    """Of a Box of actions, float32 `[size]` each, in row-major order."""

    low: NDArray[np.float32]
    high: NDArray[np.float32]
    shape: tuple[int, ...]


def _silu(x: Numbers) -> Numbers:
    with np.errstate(over="ignore"):  # e^-x of very low numbers, which become 0
        return x / (1.0 + np.exp(-x))


ACTIVATIONS: dict[str, Callable[[Numbers], Numbers]] = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0.0),
    "elu": lambda x: np.where(x > 0.0, x, np.expm1(np.minimum(x, 0.0))),
    "silu": _silu,
}


def said(network: Network, obs: NDArray[np.float32], moments: Moments | None) -> Numbers:
    """The outputs `[n, outputs]` for raw observations `[n, dim]`."""
    x: Numbers = obs.astype(np.float64)
    if moments is not None:
        x = (x - moments.mean) / moments.deviation
        x = x if moments.clip is None else np.clip(x, -moments.clip, moments.clip)
    if not network.dueling:
        return _through(network.parts[0], x, network.activation)
    shared, value, advantage = network.parts
    features = _through(shared, x, network.activation, ends=True)
    values = _through(value, features, network.activation)
    advantages = _through(advantage, features, network.activation)
    q: Numbers = values + advantages - advantages.mean(-1, keepdims=True)
    return q


def acted(
    network: Network, outputs: NDArray[Any], start: int, bounds: Bounds | None
) -> NDArray[Any]:
    """The environment's actions for `outputs` `[n, outputs]`: int64 `[n]`, or `[n, size]`."""
    if bounds is None:
        choices: NDArray[np.int64] = outputs.argmax(-1) + start
        return choices
    if network.head == "gaussian":
        cut: NDArray[Any] = np.clip(outputs, bounds.low, bounds.high)
        return cut
    limit = network.mean_limit
    means = outputs if limit is None else np.clip(outputs, -limit, limit)
    low, high = bounds.low.astype(np.float64), bounds.high.astype(np.float64)
    stretched = low + 0.5 * (np.tanh(means) + 1.0) * (high - low)
    within: NDArray[Any] = np.clip(stretched, low, high)
    return within


def difference(ours: NDArray[Any], theirs: NDArray[Any]) -> float:
    """The norm of the difference over the norm of `theirs`; 0 where both are 0."""
    apart = np.linalg.norm(ours.astype(np.float64) - theirs.astype(np.float64))
    size = np.linalg.norm(theirs.astype(np.float64))
    return float(apart / size) if size else float("inf" if apart else 0.0)


def _through(layers: Layers, x: Numbers, activation: str, ends: bool = False) -> Numbers:
    for i, (weight, bias) in enumerate(zip(layers.weights, layers.biases, strict=True)):
        x = x @ weight.astype(np.float64).T + bias
        if ends or i + 1 < len(layers.weights):
            x = ACTIVATIONS[activation](x)
    return x
