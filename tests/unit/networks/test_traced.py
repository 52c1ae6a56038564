"""Tests that hand-derived gradients, and those of all other modules, equal the gradients of autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rlox.networks import (
    mlp,
    trace,
)
from rlox.networks.mlp import Layers
from rlox.networks.traced import Graph
from rlox.policies import ActorCritic, ContinuousPolicy, DiscretePolicy, SDEPolicy

B, OBS, ACT = 50, 4, 3
close = torch.testing.assert_close


def draws(*shape: int, seed: int = 0) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=g, dtype=torch.float64)


def large(module: Any) -> Any:
    """Set weights and biases to values far from 0, in float64."""
    module = module.double()
    with torch.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(0.5 * draws(*p.shape, seed=i))
    return module


def gradients(module: nn.Module) -> list[Tensor]:
    """Return the gradients of the backward pass and clear them."""
    found = [p.grad for p in module.parameters()]
    module.zero_grad(set_to_none=True)
    assert all(g is not None for g in found)
    return [g for g in found if g is not None]


def same(found: Any, expected: Any, rtol: float = 1e-9) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        close(a, b, rtol=rtol, atol=1e-3 * rtol)


NETS: dict[str, Callable[[str], nn.Module]] = {
    "single": lambda activation: mlp((OBS, 8, 6, 2), activation),
    "linear": lambda activation: mlp((OBS, 2), activation),
}


@pytest.mark.parametrize("activation", ["relu", "tanh", "elu"])
@pytest.mark.parametrize("kind", NETS)
def test_a_traced_network_has_autograds_values_and_gradients(kind: str, activation: str) -> None:
    net, x = large(NETS[kind](activation)), draws(B, OBS, seed=9)
    expected = net(x)
    slope = draws(*expected.shape, seed=10)
    to_parameters = torch.autograd.grad(expected, list(net.parameters()), slope)
    with torch.no_grad():

        def traced_anew() -> Any:
            return trace(net, x)

        traced = traced_anew()
        written_out = activation != "elu" and kind != "linear"
        assert isinstance(traced, Layers if written_out else Graph)
        same([traced.out], [expected.detach()])
        assert not traced.out.requires_grad
        for _ in range(2):  # a pass replaces earlier gradients
            traced_anew().learn(slope)
        same(gradients(net), to_parameters)


def test_a_network_with_a_hook_is_asked_itself() -> None:
    net = mlp((OBS, 4, 1), "relu")
    seen: list[int] = []
    net.register_forward_hook(lambda *_: seen.append(1))
    with torch.no_grad():
        traced = trace(net, torch.zeros(2, OBS))
    assert seen == [1]
    assert isinstance(traced, Graph)


POLICIES: dict[str, Callable[[], ActorCritic]] = {
    "choices": lambda: DiscretePolicy(OBS, 5, net_arch=(8, 6)),
    "vectors": lambda: ContinuousPolicy(OBS, ACT, net_arch=(8, 6), critic_net_arch=(7,)),
    "gSDE": lambda: SDEPolicy(OBS, ACT, net_arch=(8, 6)),
    "elu": lambda: DiscretePolicy(OBS, 5, net_arch=(8, 6), activation="elu"),
}


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("kind", POLICIES)
def test_scored_policies_have_the_values_and_gradients_of_autograd(kind: str, spread: bool) -> None:
    policy, obs = large(POLICIES[kind]()), draws(B, OBS, seed=9)
    choices = isinstance(policy, DiscretePolicy)
    actions = torch.arange(B) % 5 if choices else draws(B, ACT, seed=5)
    expected = policy.evaluate_actions(obs, actions)
    slopes = [draws(B, seed=i) for i in range(3)]
    zero = torch.zeros_like(slopes[1])
    given = [slopes[0], slopes[1] if spread else zero, slopes[2]]
    found = torch.autograd.grad(expected, list(policy.parameters()), given)
    with torch.no_grad():
        scored = policy.scored(obs, actions)
        scored.learn(slopes[0], slopes[1] if spread else None, slopes[2])
    same(scored[:3], [x.detach() for x in expected])
    same(gradients(policy), found)


class Shifted(DiscretePolicy):
    """A user's subclass that evaluates observations in other units."""

    def evaluate_actions(self, obs: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return super().evaluate_actions(2.0 * obs, actions)


def test_a_subclass_that_evaluates_in_its_own_way_is_learned_in_that_way() -> None:
    own, plain = large(Shifted(OBS, 5)), large(DiscretePolicy(OBS, 5))
    obs, actions = draws(B, OBS), torch.arange(B) % 5
    slopes = [draws(B, seed=i) for i in range(3)]
    with torch.no_grad():
        theirs, ours = own.scored(obs, actions), plain.scored(2.0 * obs, actions)
        for scored in (theirs, ours):
            scored.learn(*slopes)
    same(theirs[:3], ours[:3])
    same(gradients(own), gradients(plain))
