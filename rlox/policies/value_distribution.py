"""Interpretations of a network's outputs as returns: expectation, distribution over atoms, or quantiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from rlox.losses import (
    categorical_kl,
    project_atoms,
    quantile_huber,
    td_loss,
    td_target,
)

__all__ = ["CategoricalValue", "QuantileValue", "ScalarValue", "ValueDistribution"]


class ValueDistribution(Protocol):
    """What the outputs for one action, `[...]` or `[..., n]`, mean; `td_target` is what they learn."""

    @property
    def n_outputs(self) -> int | None:
        """The number of outputs per action; None: one, the expectation."""

    def values(self, outputs: Tensor) -> Tensor:
        """Return the expectations `[...]`."""

    def td_target(self, rewards: Tensor, discounts: Tensor, next_outputs: Tensor) -> Tensor:
        """Return the target for `rewards` and `discounts` `[B]` and the outputs of the next action."""

    def loss(self, outputs: Tensor, td_target: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the weighted mean loss of the batch, and the unweighted error of each row, `[B]`."""


@dataclass(frozen=True)
class ScalarValue:
    """The output is the expected return E[Z]; its loss is `td_loss` of this `kind`."""

    kind: str = "huber"

    @property
    def n_outputs(self) -> int | None:
        """None: the output is the expectation."""
        return None

    def values(self, outputs: Tensor) -> Tensor:
        """Return the outputs."""
        return outputs

    def td_target(self, rewards: Tensor, discounts: Tensor, next_outputs: Tensor) -> Tensor:
        """Return `td_target`, `[B]`."""
        return td_target(rewards, discounts, next_outputs)

    def loss(self, outputs: Tensor, td_target: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return `td_loss` and the TD errors."""
        return td_loss(outputs, td_target, self.kind, weights), outputs - td_target


@dataclass(frozen=True)
class CategoricalValue:
    """Outputs are logits of `n_outputs` atoms z_i from `v_min` to `v_max` (Bellemare et al. 2017)."""

    n_outputs: int
    v_min: float
    v_max: float

    def values(self, outputs: Tensor) -> Tensor:
        """Return sum_i p_i z_i."""
        atoms = torch.linspace(
            self.v_min, self.v_max, self.n_outputs, dtype=outputs.dtype, device=outputs.device
        )
        return torch.softmax(outputs, -1) @ atoms

    def td_target(self, rewards: Tensor, discounts: Tensor, next_outputs: Tensor) -> Tensor:
        """Return probabilities, projected onto the atoms, `[B, n_outputs]`."""
        return project_atoms(rewards, discounts, torch.softmax(next_outputs, -1), self.v_min, self.v_max)

    def loss(self, outputs: Tensor, td_target: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the weighted mean of `categorical_kl`, and its value for each row (Hessel et al. 2018)."""
        return _weighted_mean(categorical_kl(outputs, td_target), weights)


@dataclass(frozen=True)
class QuantileValue:
    """Outputs are `n_outputs` quantiles of Z with equal probability (Dabney et al. 2018)."""

    n_outputs: int

    def values(self, outputs: Tensor) -> Tensor:
        """Return the mean of the quantiles."""
        return outputs.mean(-1)

    def td_target(self, rewards: Tensor, discounts: Tensor, next_outputs: Tensor) -> Tensor:
        """Return reward + discount * quantile for each quantile of the next action, `[B, n_outputs]`."""
        return td_target(rewards.unsqueeze(-1), discounts.unsqueeze(-1), next_outputs)

    def loss(self, outputs: Tensor, td_target: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the weighted mean of `quantile_huber`, and its value for each row."""
        return _weighted_mean(quantile_huber(outputs, td_target), weights)


def _weighted_mean(rows: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    weighted = rows if weights is None else weights * rows
    return weighted.mean(), rows
