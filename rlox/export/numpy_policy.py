"""Reference implementation of an exported policy in NumPy, in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlox.export.networks import LinearLayers, Network

__all__ = ["ActionBounds", "Moments", "forward", "relative_difference", "to_actions"]

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Observation normalisation `(x - mean) / std`, float64 `[dim]`, clipped to [-clip, clip]."""

    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    clip: float | None


@dataclass(frozen=True)
class ActionBounds:
    """Bounds of a Box of actions, float32 `[size]` each, in row-major order."""

    low: NDArray[np.float32]
    high: NDArray[np.float32]
    shape: tuple[int, ...]


def _silu(x: Numbers) -> Numbers:
    with np.errstate(over="ignore"):  # e^-x overflows for very low x, and the result is 0
        return x / (1.0 + np.exp(-x))


ACTIVATIONS: dict[str, Callable[[Numbers], Numbers]] = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0.0),
    "elu": lambda x: np.where(x > 0.0, x, np.expm1(np.minimum(x, 0.0))),
    "silu": _silu,
}


def forward(network: Network, obs: NDArray[np.float32], moments: Moments | None) -> Numbers:
    """Return the outputs `[n, outputs]` for raw observations `[n, dim]`."""
    x: Numbers = obs.astype(np.float64)
    if moments is not None:
        x = (x - moments.mean) / moments.std
        x = x if moments.clip is None else np.clip(x, -moments.clip, moments.clip)
    if not network.is_dueling:
        return _apply_layers(network.parts[0], x, network.activation)
    shared, value, advantage = network.parts
    features = _apply_layers(shared, x, network.activation, activate_last=True)
    values = _apply_layers(value, features, network.activation)
    advantages = _apply_layers(advantage, features, network.activation)
    q: Numbers = values + advantages - advantages.mean(-1, keepdims=True)
    return q


def to_actions(
    network: Network, outputs: NDArray[Any], first_choice: int, bounds: ActionBounds | None
) -> NDArray[Any]:
    """Return the environment's actions for `outputs` `[n, outputs]`: int64 `[n]`, or `[n, size]`."""
    if bounds is None:
        choices: NDArray[np.int64] = outputs.argmax(-1) + first_choice
        return choices
    if network.head == "gaussian":
        clipped: NDArray[Any] = np.clip(outputs, bounds.low, bounds.high)
        return clipped
    limit = network.mean_limit
    mean_actions = outputs if limit is None else np.clip(outputs, -limit, limit)
    low, high = bounds.low.astype(np.float64), bounds.high.astype(np.float64)
    scaled = low + 0.5 * (np.tanh(mean_actions) + 1.0) * (high - low)
    actions: NDArray[Any] = np.clip(scaled, low, high)
    return actions


def relative_difference(actual: NDArray[Any], expected: NDArray[Any]) -> float:
    """Return the norm of the difference divided by the norm of `expected`; 0 if both are 0."""
    distance = np.linalg.norm(actual.astype(np.float64) - expected.astype(np.float64))
    norm = np.linalg.norm(expected.astype(np.float64))
    return float(distance / norm) if norm else float("inf" if distance else 0.0)


def _apply_layers(layers: LinearLayers, x: Numbers, activation: str, activate_last: bool = False) -> Numbers:
    for i, (weight, bias) in enumerate(zip(layers.weights, layers.biases, strict=True)):
        x = x @ weight.astype(np.float64).T + bias
        if activate_last or i + 1 < len(layers.weights):
            x = ACTIVATIONS[activation](x)
    return x
