"""Several networks in one pass, and networks that follow others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.nn import functional

from rlox.envs.spaces import ActionCodec
from rlox.networks import (
    EnsembleMLP,
    QNetwork,
    learning,
    mlp,
    polyak_update,
    squashed_log_prob,
)
from rlox.networks.fused import squashed_draw
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


@pytest.mark.parametrize("activation", ["relu", "elu"])
def test_the_first_members_alone_give_what_they_give_among_all(activation: str) -> None:
    torch.manual_seed(0)
    ensemble = EnsembleMLP(3, (4, 8, 2), activation)
    x = torch.randn(5, 4, requires_grad=True)
    weight = torch.randn(2, 5, 2)
    some = ensemble(x, frozen=True, members=2)
    assert some.shape == (2, 5, 2)
    all_of_them = ensemble(x)[:2]
    torch.testing.assert_close(some, all_of_them)
    (found,) = torch.autograd.grad((some * weight).sum(), x)
    (expected,) = torch.autograd.grad((all_of_them * weight).sum(), x)
    torch.testing.assert_close(found, expected)


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
        target.follow(0.1)
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


def test_minus_one_is_the_low_end_of_a_box_and_one_its_high_end() -> None:
    box = spaces.Box(
        np.array([[-2, 0, 5]], np.float32), np.array([[2, 1, 9]], np.float32), dtype=np.float32
    )
    codec = ActionCodec.of(box).unit("env", "algo")
    given = codec.to_env(
        np.array([[-1, -1, -1], [1, 1, 1], [0, 0.5, -0.5], [7, -7, 0]], np.float32)
    )
    assert given.dtype == np.float32
    assert given.tolist() == [
        [[-2, 0, 5]], [[2, 1, 9]], [[0, 0.75, 6]], [[2, 0, 7]],
    ]  # fmt: skip


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("members", [0, 3])
def test_a_network_as_one_node_has_torchs_values_and_gradients(
    activation: str, members: int
) -> None:
    torch.manual_seed(0)
    sizes = (4, 8, 6, 2)
    x = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    kind = {"relu": torch.nn.ReLU, "tanh": torch.nn.Tanh}[activation]
    if members:
        ensemble = EnsembleMLP(members, sizes, activation).double()
        weights, biases = list(ensemble.weights), list(ensemble.biases)
        nets = [
            [(w[k], b[k]) for w, b in zip(weights, biases, strict=True)] for k in range(members)
        ]
        found = ensemble(x)
    else:
        net = mlp(sizes, activation).double()
        linear = [layer for layer in net if isinstance(layer, torch.nn.Linear)]
        weights, biases = [layer.weight for layer in linear], [layer.bias for layer in linear]
        nets = [list(zip(weights, biases, strict=True))]
        found = learning(net, x)
    outs = []
    for layers in nets:
        y = x
        for i, (weight, bias) in enumerate(layers):
            y = functional.linear(kind()(y) if i else y, weight, bias)
        outs.append(y)
    expected = torch.stack(outs) if members else outs[0]
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)
    slope = torch.randn_like(found)
    parameters = [x, *weights, *biases]
    ours, torchs = (torch.autograd.grad(y, parameters, slope) for y in (found, expected))
    for a, b in zip(ours, torchs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("activation", ["relu", "elu"])
def test_of_a_frozen_ensemble_only_the_input_has_a_gradient(activation: str) -> None:
    torch.manual_seed(0)
    ensemble, x = EnsembleMLP(2, (4, 8, 1), activation), torch.randn(5, 4, requires_grad=True)
    plain, frozen = ensemble(x), ensemble(x, frozen=True)
    assert torch.equal(plain, frozen)
    assert torch.equal(*(torch.autograd.grad(y.sum(), x)[0] for y in (plain, frozen)))
    first = ensemble.weights[0]
    assert (
        torch.autograd.grad(ensemble(x, frozen=True).sum(), [x, first], allow_unused=True)[1]
        is None
    )


def test_a_network_with_a_hook_or_other_layers_is_asked_itself() -> None:
    net, seen = mlp((3, 4, 1), "relu"), []
    net.register_forward_hook(lambda *_: seen.append(1))
    learning(net, torch.zeros(2, 3))
    assert seen == [1]
    other = mlp((3, 4, 1), "elu")
    x = torch.randn(2, 3)
    torch.testing.assert_close(learning(other, x), other(x))


def test_a_squashed_draw_as_one_node_has_torchs_values_and_gradients() -> None:
    g = torch.Generator().manual_seed(0)
    output = torch.randn(50, 6, generator=g, dtype=torch.float64)
    output[:4, 3:] = torch.tensor([[3.0, -25.0, 1.5]], dtype=torch.float64)  # beyond the limits
    output.requires_grad_()
    noise = torch.randn(50, 3, generator=g, dtype=torch.float64)
    mean, log_std = output.chunk(2, -1)
    log_std = log_std.clamp(-20, 2)
    u = mean + log_std.exp() * noise
    expected = u.tanh(), squashed_log_prob(u, mean, log_std)
    found = squashed_draw(output, noise)
    slopes = [torch.randn(x.shape, generator=g, dtype=torch.float64) for x in found]
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)
    ours, torchs = (torch.autograd.grad(y, output, slopes)[0] for y in (found, expected))
    torch.testing.assert_close(ours, torchs, rtol=1e-6, atol=1e-8)
    assert (ours[:4, 4] == 0).all()
    with torch.no_grad():
        assert torch.equal(squashed_draw(output, noise)[1], found[1])
