"""The results of 20 updates, as arrays that can be compared and stored.

| name | shape | of |
|---|---|---|
| `loss/NAME` | `[trains]` | a part of the loss, averaged over the updates of a batch |
| `loss/total` | `[updates]` | PPO's and A2C's whole loss, for each update |
| `grad/TENSOR` | `[updates, ...]` | the gradient before clipping |
| `clipped/TENSOR` | `[updates, ...]` | the gradient after clipping, if gradients are clipped |
| `weights/TENSOR` | `[updates, ...]` | the weights after the update |
| `final/TENSOR` | `[...]` | a target network after the last update |

If an update does not change a tensor (TD3's actor, every second time), the entry is NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parity.batches import each, tensors, transcription
from parity.cases import Arrays, Case

EACH_UPDATE = ("loss/total",)


@dataclass
class Row:
    """One update of any implementation: arrays by name."""

    losses: Mapping[str, Any] = field(default_factory=dict)
    gradients: Mapping[str, Any] = field(default_factory=dict)
    clipped: Mapping[str, Any] = field(default_factory=dict)
    weights: Mapping[str, Any] = field(default_factory=dict)


def trace(case: Case, rows: Sequence[Row], final: Mapping[str, Any]) -> Arrays:
    """Stack the rows of all updates into one array per name."""
    out: Arrays = {}
    for name in names(row.losses for row in rows):
        losses = np.array([_number(row.losses.get(name)) for row in rows])
        key = f"loss/{name}"
        out[key] = losses if key in EACH_UPDATE else losses.reshape(case.trains, -1).mean(1)
    for part, found in (
        ("grad", [row.gradients for row in rows]),
        ("clipped", [row.clipped for row in rows]),
        ("weights", [row.weights for row in rows]),
    ):
        for name in names(found):
            shape = next(np.shape(_array(row[name])) for row in found if name in row)
            gap = np.full(shape, np.nan)
            out[f"{part}/{name}"] = np.stack([_array(row[name]) if name in row else gap for row in found])
    return out | {f"final/{name}": _array(value) for name, value in final.items()}


def names(found: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in found for name in row))


def _array(value: Any) -> NDArray[Any]:
    return value.detach().cpu().numpy().copy() if hasattr(value, "detach") else np.asarray(value)


def _number(value: Any) -> float:
    return float("nan") if value is None else _array(value).item()


def transcribed(case: Case, init: Arrays, batches: Arrays) -> tuple[Arrays, float]:
    """Return the transcription's trace, and its smallest distance to a kink."""
    learner = transcription(case, init)
    rows = [
        Row(s.losses, s.gradients, s.clipped if "max_grad_norm" in case.settings else {}, s.weights)
        for batch in each(batches)
        for s in learner.train(tensors(batch))
    ]
    return trace(case, rows, learner.targets), learner.kinks.distance


@dataclass(frozen=True)
class Difference:
    """Norms of the difference over the norm; the largest of all updates and tensors."""

    losses: float
    gradients: float
    weights: float
    worst: str

    @property
    def largest(self) -> float:
        return max(self.losses, self.gradients, self.weights)


def difference(found: Arrays, expected: Arrays) -> Difference:
    """Return how far `found` is from `expected`; different names or gaps are an error."""
    missing = found.keys() ^ expected.keys()
    if missing:
        raise ValueError(f"only one side has {sorted(missing)}")
    parts = {name: _relative(name, found[name], expected[name]) for name in expected}
    most = {
        kind: max((v for n, v in parts.items() if n.split("/")[0] in kinds), default=0.0)
        for kind, kinds in (
            ("losses", ("loss",)),
            ("gradients", ("grad", "clipped")),
            ("weights", ("weights", "final")),
        )
    }
    return Difference(**most, worst=max(parts, key=lambda name: parts[name]))


def _relative(name: str, found: NDArray[Any], expected: NDArray[Any]) -> float:
    """Compare a gradient in each update, but losses and weights over all updates, since they pass zero."""
    a, b = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    if a.shape != b.shape or (np.isnan(a) != np.isnan(b)).any():
        raise ValueError(f"{name}: {a.shape} and {b.shape}, or numbers in other updates")
    each_update = name.startswith(("grad/", "clipped/"))
    rows = list(zip(a, b, strict=True)) if each_update else [(a, b)]
    return max(_norms(*pair) for pair in rows)


def _norms(a: NDArray[Any], b: NDArray[Any]) -> float:
    there = ~np.isnan(b)
    apart, size = np.linalg.norm((a - b)[there]), np.linalg.norm(b[there])
    return float(apart / size) if apart else 0.0
