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

__all__ = ["Atoms", "Expectation", "Quantiles", "Returns"]


class Returns(Protocol):
    """The numbers of one action are `[...]` or `[..., n]`; a goal is what they should become."""

    @property
    def numbers(self) -> int | None:
        """How many there are of each action; None: the expectation itself."""

    def values(self, said: Tensor) -> Tensor:
        """Expectations `[...]`."""

    def goal(self, rewards: Tensor, discounts: Tensor, after: Tensor) -> Tensor:
        """For `rewards` and `discounts` `[B]` and what is said of the action that follows."""

    def loss(self, said: Tensor, goal: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """The mean over the batch, weighted, and by how much each row is wrong `[B]`, unweighted."""

    def gradient(self, said: Tensor, goal: Tensor, weights: Tensor | None) -> Tensor:
        """d loss / d said, in the shape of `said`."""


@dataclass(frozen=True)
class Expectation:
    """E[Z], by a temporal-difference error; `kind` as in `td_loss`."""

    kind: str = "huber"

    @property
    def numbers(self) -> int | None:
        """The expectation itself."""
        return None

    def values(self, said: Tensor) -> Tensor:
        """What is said."""
        return said

    def goal(self, rewards: Tensor, discounts: Tensor, after: Tensor) -> Tensor:
        """`td_target`, `[B]`."""
        return td_target(rewards, discounts, after)

    def loss(self, said: Tensor, goal: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """`td_loss` and the errors."""
        return td_loss(said, goal, self.kind, weights), said - goal

    def gradient(self, said: Tensor, goal: Tensor, weights: Tensor | None) -> Tensor:
        """`td_gradient`."""
        return td_gradient(said, goal, self.kind, weights)


@dataclass(frozen=True)
class Atoms:
    """P(Z = z_i) of `numbers` atoms from `v_min` to `v_max`, said as logits (Bellemare et al. 2017)."""

    numbers: int
    v_min: float
    v_max: float

    def values(self, said: Tensor) -> Tensor:
        """sum_i p_i z_i."""
        atoms = torch.linspace(
            self.v_min, self.v_max, self.numbers, dtype=said.dtype, device=said.device
        )
        return torch.softmax(said, -1) @ atoms

    def goal(self, rewards: Tensor, discounts: Tensor, after: Tensor) -> Tensor:
        """Probabilities, projected onto the atoms, `[B, numbers]`."""
        return project_atoms(rewards, discounts, torch.softmax(after, -1), self.v_min, self.v_max)

    def loss(self, said: Tensor, goal: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """`categorical_kl`, which is also how wrong a row is (Hessel et al. 2018)."""
        return _weighted(categorical_kl(said, goal), weights)

    def gradient(self, said: Tensor, goal: Tensor, weights: Tensor | None) -> Tensor:
        """Of each row's `categorical_kl`, in the weighted mean."""
        return _shared_out(categorical_kl_gradient(said, goal), weights)


@dataclass(frozen=True)
class Quantiles:
    """`numbers` quantiles of Z, each as likely (Dabney et al. 2018)."""

    numbers: int

    def values(self, said: Tensor) -> Tensor:
        """Their mean."""
        return said.mean(-1)

    def goal(self, rewards: Tensor, discounts: Tensor, after: Tensor) -> Tensor:
        """r + g Z, quantile by quantile, `[B, numbers]`."""
        return td_target(rewards.unsqueeze(-1), discounts.unsqueeze(-1), after)

    def loss(self, said: Tensor, goal: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
        """`quantile_huber`, which is also how wrong a row is."""
        return _weighted(quantile_huber(said, goal), weights)

    def gradient(self, said: Tensor, goal: Tensor, weights: Tensor | None) -> Tensor:
        """Of each row's `quantile_huber`, in the weighted mean."""
        return _shared_out(quantile_huber_gradient(said, goal), weights)


def _weighted(rows: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    weighted = rows if weights is None else weights * rows
    return weighted.mean(), rows


def _shared_out(slopes: Tensor, weights: Tensor | None) -> Tensor:
    """Slopes `[B, n]` of each row's loss, in the weighted mean of all."""
    slopes = slopes.div_(len(slopes))
    return slopes if weights is None else slopes.mul_(weights.unsqueeze(-1))
