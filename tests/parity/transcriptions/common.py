"""Shared parts of the transcriptions: layers of one row, optimizers of one tensor, distances to kinks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

Weights = dict[str, Tensor]


@dataclass
class Step:
    """One gradient step: losses, gradients before and after clipping, and the weights after it."""

    losses: dict[str, Tensor]
    gradients: Weights
    clipped: Weights
    weights: Weights


@dataclass
class Kinks:
    """The smallest distance so far to a point where a derivative or a choice jumps."""

    distance: float = math.inf
    where: str = "nowhere"

    def note(self, distance: Tensor | float, where: str) -> None:
        apart = abs(distance if isinstance(distance, float) else distance.item())
        if apart < self.distance:
            self.distance, self.where = apart, where


@dataclass
class Adam:
    """Kingma and Ba 2015, algorithm 1."""

    lr: float
    eps: float
    beta1: float = 0.9
    beta2: float = 0.999
    t: int = 0
    m: Weights = field(default_factory=dict)
    v: Weights = field(default_factory=dict)

    def step(self, weights: Weights, gradients: Weights) -> None:
        self.t += 1
        for name, g in gradients.items():
            m = self.beta1 * self.m.get(name, torch.zeros_like(g)) + (1 - self.beta1) * g
            v = self.beta2 * self.v.get(name, torch.zeros_like(g)) + (1 - self.beta2) * g * g
            self.m[name], self.v[name] = m, v
            m_hat, v_hat = m / (1 - self.beta1**self.t), v / (1 - self.beta2**self.t)
            moved = weights[name] - self.lr * m_hat / (v_hat.sqrt() + self.eps)
            weights[name] = leaf(moved)


@dataclass
class RMSprop:
    """Mnih et al. 2016, eq. S2 and S3 with epsilon inside the root; torch has it outside."""

    lr: float
    eps: float
    alpha: float = 0.99
    inside: bool = False  # epsilon inside the root, and a mean square that starts at 1, as in TensorFlow
    g: Weights = field(default_factory=dict)

    def step(self, weights: Weights, gradients: Weights) -> None:
        for name, gradient in gradients.items():
            first = torch.ones_like(gradient) if self.inside else torch.zeros_like(gradient)
            g = self.alpha * self.g.get(name, first) + (1 - self.alpha) * gradient * gradient
            self.g[name] = g
            root = (g + self.eps).sqrt() if self.inside else g.sqrt() + self.eps
            weights[name] = leaf(weights[name] - self.lr * gradient / root)


def leaf(value: Tensor) -> Tensor:
    return value.detach().clone().requires_grad_(True)


def leaves(weights: Mapping[str, Tensor]) -> Weights:
    return {name: leaf(value) for name, value in weights.items()}


def gradients_of(loss: Tensor, weights: Weights) -> Weights:
    found = torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
    return {
        name: torch.zeros_like(w) if g is None else g
        for (name, w), g in zip(weights.items(), found, strict=True)
    }


def clipped_to(gradients: Weights, limit: float) -> Weights:
    """Pascanu et al. 2013, algorithm 1, with torch's 1e-6 added to the norm."""
    norm = math.sqrt(sum(float((g * g).sum()) for g in gradients.values()))
    part = min(1.0, limit / (norm + 1e-6))
    return {name: g * part for name, g in gradients.items()}


def mlp(weights: Mapping[str, Tensor], name: str, x: Tensor, act: str, kinks: Kinks) -> Tensor:
    """Apply layers `name.0`, `name.1`, ... to one row, with an activation between them."""
    count = sum(key.startswith(f"{name}.") and key.endswith(".weight") for key in weights)
    for i in range(count):
        x = linear(weights, f"{name}.{i}", x)
        if i < count - 1:
            x = activation(x, act, kinks)
    return x


def linear(weights: Mapping[str, Tensor], name: str, x: Tensor) -> Tensor:
    return weights[f"{name}.weight"] @ x + weights[f"{name}.bias"]


def activation(x: Tensor, kind: str, kinks: Kinks) -> Tensor:
    if kind == "tanh":
        return torch.tanh(x)
    kinks.note(x.detach().abs().min(), "a hidden unit at zero")
    return torch.where(x > 0, x, torch.zeros_like(x))


def least(a: Tensor, b: Tensor, kinks: Kinks, where: str) -> Tensor:
    kinks.note(a - b, where)
    return a if a.item() < b.item() else b


def greatest(row: Tensor, kinks: Kinks) -> int:
    """Return the index of the greatest entry."""
    ordered = row.detach().sort().values
    kinks.note(ordered[-1] - ordered[-2], "two best choices")
    return int(row.argmax())


def mean(values: Iterable[Tensor]) -> Tensor:
    listed = list(values)
    return torch.stack(listed).sum() / len(listed)


def standardised(values: Tensor) -> Tensor:
    """Standardise by mean and deviation with n - 1, as torch and SB3 do; no paper specifies it."""
    n = len(values)
    centre = values.sum() / n
    deviation = (((values - centre) ** 2).sum() / (n - 1)).sqrt()
    return (values - centre) / (deviation + 1e-8)


def moved(target: Weights, online: Mapping[str, Tensor], tau: float) -> None:
    """theta' <- tau theta + (1 - tau) theta' (Lillicrap et al. 2016, algorithm 1)."""
    for name in target:
        target[name] = (tau * online[name] + (1 - tau) * target[name]).detach()


def detached(weights: Mapping[str, Tensor]) -> Weights:
    return {name: value.detach().clone() for name, value in weights.items()}
