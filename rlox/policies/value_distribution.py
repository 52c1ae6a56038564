"""What a network says of an action's return: its expectation, a distribution over atoms, or quantiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from rlox.losses import (
    categorical_kl,
    categorical_kl_gradient,
    project_atoms,
    quantile_huber,
    quantile_huber_gradient,
    td_gradient,
    td_loss,
    td_target,
)

__all__ = ["CategoricalValue", "QuantileValue", "ScalarValue", "ValueDistribution"]


class ValueDistribution(Protocol):
    """The numbers of one action are `[...]` or `[..., n]`; a goal is what they should become."""

    @property
    def n_outputs(self) -> int | None:
        """How many there are of each action; None: the expectation itself."""

    def values(self, outputs: Tensor) -> Tensor:
        """Expectations `[...]`."""

    def td_target(self, rewards: Tensor, discounts: Tensor, next_outputs: Tensor) -> Tensor:
        """For `rewards` and `discounts` `[B]` and what is said of the action that follows."""

    def loss(self, outputs: Tensor, td_target: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """The mean over the batch, weighted, and by how much each row is wrong `[B]`, unweighted."""

    def gradient(self, outputs: Tensor, td_target: Tensor, weights: Tensor | None) -> Tensor:
        """d loss / d said, in the shape of `outputs`."""


@dataclass(frozen=True)
class ScalarValue:
    """E[Z], by a temporal-difference error; `kind` as in `td_loss`."""

    kind: str = "huber"

    @property
    def n_outputs(self) -> int | None:
        """The expectation itself."""
        return None

    def values(self, outputs: Tensor) -> Tensor:
        """What is said."""
        return outputs

    def td_target(self, rewards: Tensor, discounts: Tensor, next_outputs: Tensor) -> Tensor:
        """`td_target`, `[B]`."""
        return td_target(rewards, discounts, next_outputs)

    def loss(self, outputs: Tensor, td_target: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """`td_loss` and the errors."""
        return td_loss(outputs, td_target, self.kind, weights), outputs - td_target

    def gradient(self, outputs: Tensor, td_target: Tensor, weights: Tensor | None) -> Tensor:
        """`td_gradient`."""
        return td_gradient(outputs, td_target, self.kind, weights)


@dataclass(frozen=True)
class CategoricalValue:
    """P(Z = z_i) of `n_outputs` atoms from `v_min` to `v_max`, said as logits (Bellemare et al. 2017)."""

    n_outputs: int
    v_min: float
    v_max: float

    def values(self, outputs: Tensor) -> Tensor:
        """sum_i p_i z_i."""
        atoms = torch.linspace(
            self.v_min, self.v_max, self.n_outputs, dtype=outputs.dtype, device=outputs.device
        )
        return torch.softmax(outputs, -1) @ atoms

    def td_target(self, rewards: Tensor, discounts: Tensor, next_outputs: Tensor) -> Tensor:
        """Probabilities, projected onto the atoms, `[B, n_outputs]`."""
        return project_atoms(rewards, discounts, torch.softmax(next_outputs, -1), self.v_min, self.v_max)

    def loss(self, outputs: Tensor, td_target: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """`categorical_kl`, which is also how wrong a row is (Hessel et al. 2018)."""
        return _weighted_mean(categorical_kl(outputs, td_target), weights)

    def gradient(self, outputs: Tensor, td_target: Tensor, weights: Tensor | None) -> Tensor:
        """Of each row's `categorical_kl`, in the weighted mean."""
        return _average_gradient(categorical_kl_gradient(outputs, td_target), weights)


@dataclass(frozen=True)
class QuantileValue:
    """`n_outputs` quantiles of Z, each as likely (Dabney et al. 2018)."""

    n_outputs: int

    def values(self, outputs: Tensor) -> Tensor:
        """Their mean."""
        return outputs.mean(-1)

    def td_target(self, rewards: Tensor, discounts: Tensor, next_outputs: Tensor) -> Tensor:
        """r + g Z, quantile by quantile, `[B, n_outputs]`."""
        return td_target(rewards.unsqueeze(-1), discounts.unsqueeze(-1), next_outputs)

    def loss(self, outputs: Tensor, td_target: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """`quantile_huber`, which is also how wrong a row is."""
        return _weighted_mean(quantile_huber(outputs, td_target), weights)

    def gradient(self, outputs: Tensor, td_target: Tensor, weights: Tensor | None) -> Tensor:
        """Of each row's `quantile_huber`, in the weighted mean."""
        return _average_gradient(quantile_huber_gradient(outputs, td_target), weights)


def _weighted_mean(rows: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    weighted = rows if weights is None else weights * rows
    return weighted.mean(), rows


def _average_gradient(slopes: Tensor, weights: Tensor | None) -> Tensor:
    """Slopes `[B, n]` of each row's loss, in the weighted mean of all."""
    slopes = slopes.div_(len(slopes))
    return slopes if weights is None else slopes.mul_(weights.unsqueeze(-1))
