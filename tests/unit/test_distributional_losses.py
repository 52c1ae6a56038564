"""Tests losses of return distributions against explicit loops, and the quantities that they keep."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from rlox.losses import (
    categorical_kl,
    distributional,
    project_atoms,
    quantile_huber,
    quantile_midpoints,
)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def probabilities(rows: int, atoms: int) -> Tensor:
    return torch.softmax(2 * drawn(rows, atoms), -1)


def test_project_atoms_equals_projections_computed_by_hand() -> None:
    """Atoms -1, 0, 1: r = 0.25 and g = 0.5 take 0 to 0.25 and 1 to 0.75."""
    found = project_atoms(
        torch.tensor([0.25]), torch.tensor([0.5]), torch.tensor([[0.0, 0.2, 0.8]]), -1.0, 1.0
    )
    # 3/4 of 0.2 and 1/4 of 0.8 to atom 0, the rest to atom 1
    torch.testing.assert_close(found, torch.tensor([[0.0, 0.35, 0.65]]))
    shifted = project_atoms(
        torch.tensor([-0.5]), torch.tensor([1.0]), torch.tensor([[0.2, 0.6, 0.2]]), -1.0, 1.0
    )
    # -1.5 is clipped to -1; -0.5 halves between -1 and 0; 0.5 between 0 and 1
    torch.testing.assert_close(shifted, torch.tensor([[0.5, 0.4, 0.1]]))


@pytest.mark.parametrize(("v_min", "v_max", "atoms"), [(-10.0, 10.0, 51), (0.0, 100.0, 11), (-3.0, -1.0, 2)])
def test_every_projection_keeps_the_total_mass(v_min: float, v_max: float, atoms: int) -> None:
    rows = 500
    rewards, discounts = 30 * drawn(rows), torch.sigmoid(drawn(rows, seed=1))
    discounts[::7] = 0.0
    found = project_atoms(rewards, discounts, probabilities(rows, atoms), v_min, v_max)
    assert (found >= 0).all()
    torch.testing.assert_close(found.sum(-1), torch.ones(rows), atol=2e-6, rtol=0)


def test_a_projection_keeps_the_mean_where_nothing_is_clipped() -> None:
    rows, atoms = 200, torch.linspace(-10, 10, 51)
    before = probabilities(rows, 51)
    rewards = torch.linspace(-1, 1, rows)
    discounts = torch.linspace(0, 0.9, rows)  # all targets stay within 10
    found = project_atoms(rewards, discounts, before, -10.0, 10.0) @ atoms
    torch.testing.assert_close(found, rewards + discounts * (before @ atoms), atol=1e-5, rtol=0)
    clipped = project_atoms(torch.tensor([15.0]), torch.tensor([0.9]), before[:1], -10.0, 10.0)
    assert float(clipped @ atoms) < 10.0001


def test_a_projection_on_a_gpu_is_that_on_a_cpu() -> None:
    """This runs the matrix product for GPUs on the CPU."""
    drawn_at = torch.rand(50, 21, generator=torch.Generator().manual_seed(0))
    at, masses = (20 * drawn_at).round(decimals=1), probabilities(50, 21)
    torch.testing.assert_close(
        distributional._project_sparse(at.clone(), masses),
        distributional._project_dense(at, masses),
    )


def test_a_nan_reward_affects_only_its_own_row() -> None:
    rewards = torch.tensor([1.0, math.nan])
    found = project_atoms(rewards, torch.ones(2), probabilities(2, 5), 0.0, 4.0)
    assert found[0].isfinite().all()
    assert found[1].isnan().any()


def test_mass_that_falls_on_an_atom_stays_whole_there() -> None:
    """Whole steps of r move every atom onto another, the ends onto themselves."""
    before = probabilities(1, 5)
    for step in (0, 1, 2):
        found = project_atoms(torch.tensor([float(step)]), torch.ones(1), before, 0.0, 4.0)
        expected = torch.zeros(1, 5)
        for j in range(5):
            expected[0, min(j + step, 4)] += before[0, j]
        torch.testing.assert_close(found, expected, atol=1e-7, rtol=0)


@pytest.mark.parametrize(
    ("reward", "expected"),
    [
        (1.0, {1: 1.0}),
        (1.25, {1: 0.75, 2: 0.25}),
        (9.0, {4: 1.0}),
        (-2.0, {0: 1.0}),
        (4.0, {4: 1.0}),
    ],
)
def test_a_terminal_step_puts_all_mass_at_its_reward(reward: float, expected: dict[int, float]) -> None:
    found = project_atoms(torch.tensor([reward]), torch.zeros(1), probabilities(1, 5), 0.0, 4.0)
    want = torch.zeros(5)
    for index, mass in expected.items():
        want[index] = mass
    torch.testing.assert_close(found[0], want, atol=1e-6, rtol=0)


def test_the_divergence_is_the_cross_entropy_less_the_targets_entropy() -> None:
    logits, target = drawn(6, 4), probabilities(6, 4)
    target[0] = torch.tensor([0.0, 1.0, 0.0, 0.0])
    found = categorical_kl(logits, target)
    for row in range(6):
        p = torch.softmax(logits[row], 0)
        by_hand = sum(
            float(m) * math.log(float(m) / float(q)) for m, q in zip(target[row], p, strict=True) if m > 0
        )
        assert float(found[row]) == pytest.approx(by_hand, abs=1e-5)
    assert float(categorical_kl(target[1:].log(), target[1:]).abs().max()) < 1e-6


def test_the_gradient_of_categorical_kl_is_that_of_the_cross_entropy() -> None:
    logits, target = drawn(3, 5).requires_grad_(), probabilities(3, 5)
    (found,) = torch.autograd.grad(categorical_kl(logits, target).sum(), logits)
    torch.testing.assert_close(found, torch.softmax(logits.detach(), -1) - target)


@pytest.mark.parametrize("kappa", [1.0, 0.5])
def test_the_quantile_loss_is_the_double_loop_of_its_definition(kappa: float) -> None:
    quantiles, targets = 2 * drawn(3, 4), 2 * drawn(3, 6, seed=1)
    found = quantile_huber(quantiles, targets, kappa)
    for b in range(3):
        total = 0.0
        for i in range(4):
            for j in range(6):
                u = float(targets[b, j] - quantiles[b, i])
                huber = u * u / 2 if abs(u) <= kappa else kappa * (abs(u) - kappa / 2)
                total += abs((2 * i + 1) / 8 - (u < 0)) * huber / kappa / 6
        assert float(found[b]) == pytest.approx(total, rel=1e-5)


def test_midpoints_are_in_the_middle_of_equal_parts() -> None:
    assert quantile_midpoints(4).tolist() == [0.125, 0.375, 0.625, 0.875]


def test_the_quantile_loss_recovers_the_quantiles_of_a_distribution() -> None:
    """Quantile tau of an exponential distribution is -ln(1 - tau); a small kappa leaves little bias."""
    n, samples = 5, 4000
    spread = -torch.log1p(-(torch.arange(samples) + 0.5) / samples)
    found = torch.zeros(1, n, requires_grad=True)
    for step in range(400):
        (slope,) = torch.autograd.grad(quantile_huber(found, spread[None], 0.01).sum(), found)
        with torch.no_grad():
            found -= (0.5 if step < 200 else 0.05) * slope
    expected = -torch.log1p(-quantile_midpoints(n))
    torch.testing.assert_close(found.detach()[0], expected, atol=0.02, rtol=0)
