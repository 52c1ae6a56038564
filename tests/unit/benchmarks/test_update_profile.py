"""Tests that the profile counts the operations of a gradient step while it runs."""

from __future__ import annotations

import pytest
import torch
import update_profile
from update_profile import OperationCounter, make_operand, time_products


def test_operations_are_counted_and_products_kept_with_their_shapes() -> None:
    a, b = torch.ones(2, 3), torch.ones(5, 3)
    with OperationCounter() as noted:
        (a @ b.T).relu_()
        torch.mm(b, a.T, out=torch.empty(5, 2))
        torch.addmm(torch.ones(5), a, b.T)
    assert noted.products.total() == 3
    assert ("mm", (((2, 3), (3, 1)), ((3, 5), (1, 3)))) in noted.products
    assert noted.operations >= 4


def test_the_work_of_products_is_two_of_every_row_column_and_inner_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(update_profile, "time_call", lambda call: call().shape[-1])
    with OperationCounter() as noted:
        torch.mm(torch.ones(2, 3), torch.ones(3, 5))
        torch.baddbmm(torch.ones(4, 1, 5), torch.ones(2, 3).expand(4, 2, 3), torch.ones(4, 3, 5))
    seconds, megaflop = time_products(noted.products)
    assert megaflop == pytest.approx(2e-6 * (2 * 3 * 5 + 4 * 2 * 3 * 5))
    assert seconds == 5 + 5


def test_filled_operands_have_the_shape_and_strides_of_the_original() -> None:
    made = make_operand((4, 2, 3), (0, 3, 1))
    assert made.shape == (4, 2, 3)
    assert made.stride() == (0, 3, 1)
    assert torch.equal(made[0], made[3])


@pytest.mark.parametrize(("algo", "env"), [("a2c", "CartPole-v1"), ("td3", "Pendulum-v1")])
def test_the_update_profile_reports_steps_time_flops_and_operations(
    algo: str, env: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update_profile, "SECONDS", 1e-6)
    found = update_profile.measure(algo, env, 8, 16)
    assert found["steps"] == (1 if algo == "a2c" else 16)
    assert found["products_seconds"] > 0
    assert 0 < found["megaflop"] < 1
    assert found["operations"] > found["products"] > 10


def test_library_rates_has_the_same_products_of_both_libraries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(update_profile, "time_call", lambda call: call().numel() * 1e-9)
    found = update_profile.library_rates(rows=3, width=4)["gflops"]
    assert found.keys() == {"blas", "oneDNN"}
    for rates in found.values():
        assert rates == pytest.approx({"forward": 8.0, "inputs": 8.0, "weights": 6.0})
