"""Tests that the finite guard names the first number that is not finite, and accepts large ones."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from rlox.errors import NonFiniteError
from rlox.training.learner import require_finite, require_finite_parameters

NAMES = ("loss/policy", "loss/value")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_the_first_nonfinite_number_of_a_table_is_named(bad: float) -> None:
    table = torch.tensor([[1.0, 2.0], [3.0, bad], [bad, 4.0]])
    with pytest.raises(NonFiniteError, match=f"loss/value is {bad} in minibatch 1 of the update 7"):
        require_finite(table, NAMES, "update 7")


def test_infinities_of_both_signs_are_seen_though_they_cancel() -> None:
    table = torch.tensor([[float("inf"), float("-inf")]])
    with pytest.raises(NonFiniteError, match="loss/policy is inf"):
        require_finite(table, NAMES, "update 7")


def test_finite_numbers_with_an_infinite_sum_are_accepted() -> None:
    table = torch.full((2, 2), 3e38)
    assert not torch.isfinite(table.sum())
    require_finite(table, NAMES, "update 7")
    require_finite_parameters(nn.Linear(1, 1), table.ravel(), "update 7")


def test_the_finite_guard_names_the_parameter_that_is_not_finite() -> None:
    net = nn.Linear(2, 1)
    with torch.no_grad():
        net.bias[0] = float("nan")
    vector = torch.cat([p.detach().ravel() for p in net.parameters()])
    with pytest.raises(NonFiniteError, match="parameter bias is not finite after the update 7"):
        require_finite_parameters(net, vector, "update 7")
