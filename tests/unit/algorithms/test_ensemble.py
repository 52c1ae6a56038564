"""Tests ensembles that compute several networks in one pass, and target networks."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn
from torch.nn import functional

from rlox.envs.actions import ActionCodec
from rlox.errors import ConfigError, ShapeError
from rlox.networks import EnsembleMLP, QNetwork, polyak_update
from rlox.optim import FlatParameters, TargetNetwork


@pytest.mark.parametrize("activation", ["relu", "tanh", "elu"])
def test_an_ensemble_gives_what_its_networks_give_by_themselves(activation: str) -> None:
    torch.manual_seed(0)
    ensemble, x = EnsembleMLP(3, (4, 8, 6, 2), activation), torch.randn(5, 4)
    found = ensemble(x)
    assert found.shape == (3, 5, 2)
    rule = {"relu": torch.relu, "tanh": torch.tanh, "elu": functional.elu}[activation]
    for member in range(3):
        y = x
        for i, (weight, bias) in enumerate(zip(ensemble.weights, ensemble.biases, strict=True)):
            y = functional.linear(rule(y) if i else y, weight[member], bias[member])
        torch.testing.assert_close(found[member], y)
    assert not torch.equal(found[0], found[1])


def test_the_members_of_an_ensemble_begin_as_linear_layers_do() -> None:
    torch.manual_seed(0)
    ensemble = EnsembleMLP(2, (100, 400, 1), "relu")
    for weight, bias in zip(ensemble.weights, ensemble.biases, strict=True):
        bound = weight.shape[-1] ** -0.5
        for values in (weight, bias):
            assert float(values.detach().abs().max()) <= bound
        assert float(weight.detach().std()) == pytest.approx(bound / 3**0.5, rel=0.1)


def test_n_steps_of_a_target_network_leave_one_minus_tau_to_the_nth() -> None:
    torch.manual_seed(0)
    online, other = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    flat = FlatParameters(online)
    target = TargetNetwork(other, flat)
    assert torch.equal(target.module.weight, online.weight)
    begun = online.weight.detach().clone()
    with torch.no_grad():
        flat.vector.add_(1.0)
    for _ in range(5):
        target.polyak_update(0.1)
    part = 0.9**5
    expected = part * begun + (1 - part) * online.weight.detach()
    torch.testing.assert_close(target.module.weight, expected)
    assert not any(p.requires_grad for p in target.module.parameters())


def test_polyak_update_moves_the_target_by_tau_and_the_source_not_at_all() -> None:
    torch.manual_seed(0)
    source, target = QNetwork(3, 1, hidden=4), QNetwork(3, 1, hidden=4)
    before, there = target.net[0].weight.detach().clone(), source.net[0].weight.detach().clone()
    polyak_update(source, target, 0.25)
    torch.testing.assert_close(target.net[0].weight, 0.75 * before + 0.25 * there)
    assert torch.equal(source.net[0].weight, there)


@pytest.mark.parametrize("tau", [-1.0, 2.0, float("nan")])
def test_polyak_update_refuses_tau_outside_0_to_1(tau: float) -> None:
    with pytest.raises(ConfigError, match=r"polyak_update: tau=.*, expected a number from 0 to 1"):
        polyak_update(QNetwork(3, 1, hidden=4), QNetwork(3, 1, hidden=4), tau)


def test_minus_one_is_the_low_end_of_a_box_and_one_its_high_end() -> None:
    box = spaces.Box(np.array([[-2, 0, 5]], np.float32), np.array([[2, 1, 9]], np.float32), dtype=np.float32)
    codec = ActionCodec.of(box).unit_codec("env", "algo")
    given = codec.to_env(np.array([[-1, -1, -1], [1, 1, 1], [0, 0.5, -0.5], [7, -7, 0]], np.float32))
    assert given.dtype == np.float32
    assert given.tolist() == [
        [[-2, 0, 5]], [[2, 1, 9]], [[0, 0.75, 6]], [[2, 0, 7]],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "target", "tau", "told"),
    [
        (nn.Linear(3, 1), nn.Linear(3, 1), "x", "tau='x', expected a number from 0 to 1"),
        (5, nn.Linear(3, 1), 0.5, "source is a int, expected a torch.nn.Module"),
        (nn.Linear(3, 1), [], 0.5, "target is a list, expected a torch.nn.Module"),
        (
            nn.Linear(3, 1),
            nn.Linear(4, 1),
            0.5,
            "parameter weight is float32 [1, 3] on cpu in the source and float32 [1, 4] on cpu in the target",
        ),
        (
            nn.Linear(3, 1),
            nn.Linear(3, 1, bias=False),
            0.5,
            "parameter bias is float32 [1] on cpu in the source and missing in the target",
        ),
        (
            nn.Linear(3, 1),
            nn.Linear(3, 1).double(),
            0.5,
            "parameter weight is float32 [1, 3] on cpu in the source and float64 [1, 3] on cpu in the target",
        ),
    ],
)
def test_polyak_update_refuses_what_does_not_fit_and_changes_nothing(
    source: Any, target: Any, tau: Any, told: str
) -> None:
    before = [p.clone() for p in target.parameters()] if isinstance(target, nn.Module) else []
    with pytest.raises((ConfigError, ShapeError), match=re.escape(f"polyak_update: {told}")):
        polyak_update(source, target, tau)
    assert all(torch.equal(a, b) for a, b in zip(before, getattr(target, "parameters", list)(), strict=True))
