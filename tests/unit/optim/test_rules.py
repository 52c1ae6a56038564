"""Tests that the flat rules equal torch's and TensorFlow's, parameter by parameter."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn

from rlox.algorithms import A2C
from rlox.errors import CheckpointError, ConfigError
from rlox.optim import Adam, Optimizer, RAdam, RMSprop


def module() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))


def losses(net: nn.Module) -> torch.Tensor:
    x = torch.linspace(-1, 1, 30).reshape(10, 3)
    return (net(x) - 3.0).square().mean()


@pytest.mark.parametrize("limit", [0.1, 1e9])
def test_many_steps_equal_torchs_adam_with_clipping(limit: float) -> None:
    ours, theirs = module(), module()
    adam = Adam(ours, 0.01)
    reference = torch.optim.Adam(theirs.parameters(), lr=0.01, eps=1e-5)
    for k in range(50):
        adam.lr = 0.01 / (1 + k)
        reference.param_groups[0]["lr"] = adam.lr
        norm = adam.backward(losses(ours), limit)
        adam.step()
        reference.zero_grad()
        losses(theirs).backward()
        expected = nn.utils.clip_grad_norm_(theirs.parameters(), limit)
        reference.step()
        assert float(norm) == pytest.approx(float(expected), rel=1e-4)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("limit", [0.1, 1e9])
def test_many_steps_equal_torchs_radam_with_clipping(limit: float) -> None:
    """The first five steps have no second moment."""
    ours, theirs = module().double(), module().double()
    rule = RAdam(ours, 0.01)
    reference = torch.optim.RAdam(theirs.parameters(), lr=0.01)
    x = torch.linspace(-1, 1, 30, dtype=torch.float64).reshape(10, 3)
    for k in range(50):
        rule.lr = reference.param_groups[0]["lr"] = 0.01 / (1 + k)
        rule.minimize((ours(x) - 3.0).square().mean(), limit)
        reference.zero_grad()
        (theirs(x) - 3.0).square().mean().backward()
        nn.utils.clip_grad_norm_(theirs.parameters(), limit)
        reference.step()
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.allclose(a, b, rtol=1e-7, atol=1e-10)


def large_steps(threads: int) -> torch.Tensor:
    """Returns parameters after three steps along random gradients."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        torch.manual_seed(0)
        adam = Adam(nn.Linear(523, 257), 0.01)
        for _ in range(3):
            adam.gradient.normal_()
            adam.step()
        return adam.vector.clone()
    finally:
        torch.set_num_threads(before)


def test_steps_are_bit_for_bit_those_of_torchs_fused_adam_whatever_the_threads() -> None:
    torch.manual_seed(0)
    adam = Adam(nn.Linear(523, 257), 0.01)
    theirs = nn.Parameter(adam.vector.clone())
    reference = torch.optim.Adam([theirs], lr=0.01, eps=1e-5, fused=True)
    for _ in range(3):
        theirs.grad = torch.empty_like(theirs).normal_()
        reference.step()
    assert torch.equal(large_steps(1), theirs.detach())
    assert torch.equal(large_steps(2), large_steps(1))
    assert torch.equal(large_steps(5), large_steps(1))


def test_the_modules_values_are_kept_when_it_is_taken_over() -> None:
    net = module()
    before = copy.deepcopy(net.state_dict())
    Adam(net, 0.01)
    assert all(torch.equal(v, before[k]) for k, v in net.state_dict().items())


def test_loading_weights_into_the_module_reaches_the_optimizer() -> None:
    net, other = module(), module()
    adam = Adam(net, 0.01)
    with torch.no_grad():
        for p in other.parameters():
            p.mul_(2)
    net.load_state_dict(other.state_dict())
    adam.backward(losses(net), 1.0)
    adam.step()
    moved = [(a - b).detach().abs().max() for a, b in zip(net.parameters(), other.parameters(), strict=True)]
    assert all(0 < float(m) < 0.02 for m in moved)


def test_parameters_without_a_gradient_and_frozen_ones_stay() -> None:
    net = module()
    net.extra = nn.Linear(2, 2)
    net[0].bias.requires_grad_(False)
    before = copy.deepcopy(net.state_dict())
    adam = Adam(net, 0.01)
    for _ in range(3):
        x = torch.ones(4, 3)
        adam.backward(net[2](net[1](net[0](x))).square().mean(), 1.0)
        adam.step()
    changed = {k for k, v in net.state_dict().items() if not torch.equal(v, before[k])}
    assert changed == {"0.weight", "2.weight", "2.bias"}


def test_many_steps_equal_torchs_rmsprop_with_clipping() -> None:
    ours, theirs = module(), module()
    rule = RMSprop(ours, 0.01, alpha=0.9, eps=1e-3)
    reference = torch.optim.RMSprop(theirs.parameters(), lr=0.01, alpha=0.9, eps=1e-3)
    for _ in range(50):
        rule.backward(losses(ours), 0.5)
        rule.step()
        reference.zero_grad()
        losses(theirs).backward()
        nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
        reference.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-5)


def test_tensorflows_rmsprop_has_epsilon_inside_the_root_and_begins_at_one() -> None:
    net = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        net.weight.fill_(2.0)
    rule = RMSprop(net, 0.1, alpha=0.9, eps=0.5, tf_like=True)
    weight, square = 2.0, 1.0
    for _ in range(3):
        rule.backward((3.0 * net.weight).sum(), 1e9)
        rule.step()
        square = 0.9 * square + 0.1 * 9.0
        weight -= 0.1 * 3.0 / (square + 0.5) ** 0.5
    assert float(net.weight.detach()) == pytest.approx(weight, rel=1e-6)


@pytest.mark.parametrize("rule", [Adam, RAdam, RMSprop, partial(RMSprop, tf_like=True)])
def test_a_restored_optimizer_goes_on_exactly(rule: Callable[..., Optimizer]) -> None:
    net = module()
    adam = rule(net, 0.01)
    for _ in range(5):
        adam.backward(losses(net), 1.0)
        adam.step()
    twin = copy.deepcopy(net)
    state = copy.deepcopy(adam.state())
    other = rule(twin, 0.01)
    other.restore(state)
    for both in ((adam, net), (other, twin)):
        both[0].backward(losses(both[1]), 1.0)
        both[0].step()
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), twin.parameters(), strict=True))


def test_state_that_does_not_fit_is_refused_and_named() -> None:
    adam = Adam(module(), 0.01)
    state = adam.state()
    missing = {**state, "moments": {k: v for k, v in state["moments"].items() if k != "2.bias"}}
    with pytest.raises(CheckpointError, match=r"parameter '2\.bias'"):
        adam.restore(missing)
    moments = copy.deepcopy(state["moments"])
    moments["0.weight"]["exp_avg"] = torch.zeros(2)
    with pytest.raises(CheckpointError, match=r"exp_avg of 0\.weight has shape \(2,\)"):
        adam.restore({**state, "moments": moments})


def test_a_module_without_one_dtype_is_refused() -> None:
    mixed = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double())
    with pytest.raises(ConfigError, match="share one dtype"):
        Adam(mixed, 0.01)
    with pytest.raises(ConfigError, match="no trainable parameter"):
        Adam(nn.Tanh(), 0.01)


def test_clip_takes_over_gradients_from_outside_the_optimizers_memory() -> None:
    net = module()
    adam = Adam(net, 0.01)
    losses(net).backward()
    expected = [p.grad.clone() for p in net.parameters() if p.grad is not None]
    net.zero_grad(set_to_none=True)  # away from the optimizer's memory
    losses(net).backward()
    norm = adam.clip(None)
    found = list(adam.flat.views(adam.gradient).values())
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert float(norm) == pytest.approx(float(torch.cat([g.flatten() for g in expected]).norm()))
    assert all(p.grad is g for p, g in zip(net.parameters(), adam.flat._gradients, strict=True))
    net.zero_grad(set_to_none=True)
    assert float(adam.clip(1.0)) == 0.0


@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.parametrize("saved", ["RMSprop", "Adam"])
def test_the_state_of_another_optimizer_is_refused_with_the_names_of_both(backend: str, saved: str) -> None:
    there, here = (
        A2C("CartPole-v1", n_envs=1, net_arch=(4,), backend=backend, use_rms_prop=rms)
        for rms in (saved == "RMSprop", saved != "RMSprop")
    )
    vectors = {"RMSprop": "RMSprop's (square_avg)", "Adam": "Adam's (exp_avg, exp_avg_sq)"}
    other = "Adam" if saved == "RMSprop" else "RMSprop"
    with pytest.raises(CheckpointError) as raised:
        here.restore(there.checkpoint())
    assert str(raised.value) == (
        "the checkpoint does not fit a2c on CartPole-v1: the optimizer state of actor.0.weight is "
        f"{vectors[saved]}, the optimizer here is {vectors[other]}; give the run the optimizer that it began "
        "with (in A2C: algo.use_rms_prop)"
    )
