"""Losses of return distributions: over fixed atoms (C51) and as quantiles (QR-DQN, TQC)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

__all__ = [
    "categorical_kl",
    "project_atoms",
    "quantile_critics_loss",
    "quantile_huber",
    "quantile_midpoints",
    "truncate_quantiles",
]


def project_atoms(
    rewards: Tensor, discounts: Tensor, probabilities: Tensor, v_min: float, v_max: float
) -> Tensor:
    """Project the distribution of r + g Z onto the atoms of Z (Bellemare et al. 2017, eq. 7); `[B, N]`.

    m_i = sum_j p_j max(0, 1 - |clip(r + g z_j, v_min, v_max) - z_i| / dz): mass between two atoms is split by
    its distance to them, mass on an atom stays there. `rewards` and `discounts` are `[B]`; a discount is 0 if
    the episode terminated, so all mass is at r. `probabilities` are `[B, N]`.

    The result is deterministic. On a CPU masses are added in order. On a GPU scattered additions have no
    order, so a dense matrix multiplication is used there.
    """
    n = probabilities.shape[-1]
    spacing = (v_max - v_min) / (n - 1)
    atoms = torch.linspace(v_min, v_max, n, device=probabilities.device).to(probabilities)
    shifted_atoms = rewards.unsqueeze(-1) + discounts.unsqueeze(-1) * atoms
    # clipped as positions among the atoms, so rounding cannot leave the range; its ends have one neighbour
    positions = ((shifted_atoms - v_min) / spacing).clamp_(0.0, n - 1.0)
    project = _project_dense if positions.device.type in ("cuda", "mps") else _project_sparse
    return project(positions, probabilities)


def _project_sparse(positions: Tensor, masses: Tensor) -> Tensor:
    """Scatter each mass to the two atoms next to its position, `[B, N]`, in N steps per row."""
    lower_atom = positions.nan_to_num(0.0).floor_()  # a valid index even for NaN, whose shares stay NaN
    upper_mass = positions.sub_(lower_atom).mul_(masses)
    index = lower_atom.long()
    projected = torch.zeros_like(masses).scatter_add_(-1, index, masses - upper_mass)
    return projected.scatter_add_(-1, index.add_(1).clamp_(max=masses.shape[-1] - 1), upper_mass)


def _project_dense(positions: Tensor, masses: Tensor) -> Tensor:
    """Compute `_project_sparse` as a matrix of shares times the masses, in N x N steps per row."""
    index = torch.arange(masses.shape[-1], device=positions.device, dtype=positions.dtype)
    distances = (positions.unsqueeze(-2) - index.unsqueeze(-1)).abs_()  # [B, i, j]
    weights = distances.neg_().add_(1.0).clamp_(min=0.0)
    return (weights @ masses.unsqueeze(-1)).squeeze(-1)


def categorical_kl(logits: Tensor, target: Tensor) -> Tensor:
    """Return KL(m || softmax(logits)) = -sum_i m_i log p_i - H(m), both `[B, N]` -> `[B]`.

    It is the cross-entropy of Bellemare et al. 2017, algorithm 1, minus the entropy of the target, which has
    no gradient. Thus it is 0 when nothing is left to learn, as a priority should be (Hessel et al. 2018).
    """
    cross = -(target * torch.log_softmax(logits, -1)).sum(-1)
    entropy: Tensor = torch.special.entr(target).sum(-1)
    return cross - entropy


def quantile_midpoints(
    n: int, device: torch.device | None = None, dtype: torch.dtype | None = None
) -> Tensor:
    """Return the midpoints of `n` quantiles, tau_i = (2 i + 1) / 2 N, `[N]` (Dabney 2018, lemma 2).

    `dtype` is torch's default without one.
    """
    indices = torch.arange(n, device=device, dtype=dtype or torch.get_default_dtype())
    return (2.0 * indices + 1.0) / (2.0 * n)


def quantile_huber(quantiles: Tensor, targets: Tensor, kappa: float = 1.0) -> Tensor:
    """Return the quantile Huber loss of `[..., B, N]` quantiles theta_i for `[B, M]` targets T_j, `[..., B]`.

    It is sum_i mean_j |tau_i - 1{u_ij < 0}| L(u_ij) / kappa with u_ij = T_j - theta_i, where L(u)
    is u^2 / 2 up to |u| = kappa and kappa (|u| - kappa / 2) beyond (Dabney et al. 2018, equations 9 and 10).
    The sum is over the learned quantiles, the mean over the targets, as in sb3-contrib.
    """
    u, weight = _quantile_errors(quantiles, targets)
    huber = functional.huber_loss(u, torch.zeros_like(u), reduction="none", delta=kappa)
    return (weight * huber).mean(-1).sum(-1) / kappa


def quantile_critics_loss(quantiles: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the mean over rows, critics and quantiles of w times the quantile Huber loss (kappa = 1).

    `quantiles` `[members, B, N]`, `targets` `[B, M]` (for all critics the same), `weights` `[B]` (default 1)
    -> scalar. It is TQC's loss (Kuznetsov et al. 2020, section 3) with sb3-contrib's factors
    (`sum_over_quantiles=False`): the mean over members, N and M. The paper's loss of each critic is the mean
    over N and M too, so that the critics' gradients are `members` times as large there.
    """
    rows = quantile_huber(quantiles, targets).mean(0) / quantiles.shape[-1]
    return (rows if weights is None else weights * rows).mean()


def truncate_quantiles(quantiles: Tensor, drop_per_net: int) -> Tensor:
    """Return the sorted quantiles of all critics without the largest, `[B, members * (N - drop_per_net)]`.

    `quantiles` are `[members, B, N]`. The largest `members * drop_per_net` of a row are dropped, whichever
    critics they are of: TQC's truncated mixture (Kuznetsov et al. 2020, section 3 and algorithm 1).
    """
    members, _, n = quantiles.shape
    pooled = quantiles.movedim(0, 1).flatten(1)  # [B, members * N]
    return pooled.sort(-1).values[:, : members * (n - drop_per_net)]


def _quantile_errors(quantiles: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return u and its weights, `[..., B, i, j]`."""
    tau = quantile_midpoints(quantiles.shape[-1], quantiles.device, quantiles.dtype).unsqueeze(-1)
    u = targets.unsqueeze(-2) - quantiles.unsqueeze(-1)
    return u, (tau - (u < 0).to(u.dtype)).abs()
