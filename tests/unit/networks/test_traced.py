"""Tests that hand-derived gradients, and those of all other modules, equal the gradients of autograd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rlox.losses import (
    categorical_kl,
    categorical_kl_gradient,
    critics_gradient,
    critics_loss,
    quantile_huber,
    quantile_huber_gradient,
    td_gradient,
    td_loss,
)
from rlox.networks import (
    ActionValues,
    EnsembleMLP,
    SquashedGaussianPolicy,
    SquashedSDEPolicy,
    mlp,
    q_values,
    trace,
)
from rlox.networks.mlp import Layers
from rlox.networks.traced import Graph
from rlox.policies import ActorCritic, ContinuousPolicy, DiscretePolicy, SDEPolicy
from rlox.policies.deterministic import DeterministicPolicy
from rlox.policies.soft import CategoricalSACPolicy, SquashedSACPolicy
from rlox.policies.value_distribution import CategoricalValue, QuantileValue, ScalarValue

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
    "ensemble": lambda activation: EnsembleMLP(3, (OBS, 8, 6, 2), activation),
}


@pytest.mark.parametrize("activation", ["relu", "tanh", "elu"])
@pytest.mark.parametrize("kind", NETS)
def test_a_traced_network_has_autograds_values_and_gradients(kind: str, activation: str) -> None:
    net, x = large(NETS[kind](activation)), draws(B, OBS, seed=9).requires_grad_()
    expected = net(x)
    slope = draws(*expected.shape, seed=10)
    to_x, *to_parameters = torch.autograd.grad(expected, [x, *net.parameters()], slope)
    with torch.no_grad():

        def traced_anew() -> Any:
            return net.trace(x) if kind == "ensemble" else trace(net, x)

        traced = traced_anew()
        written_out = activation != "elu" and kind != "linear"
        assert isinstance(traced, Layers if written_out else Graph)
        same([traced.out], [expected.detach()])
        assert not traced.out.requires_grad
        same([traced.back(slope)], [to_x])
        assert all(p.grad is None for p in net.parameters())
        for _ in range(2):  # a pass replaces earlier gradients
            traced_anew().learn(slope)
        same(gradients(net), to_parameters)


@pytest.mark.parametrize("activation", ["relu", "elu"])
def test_the_first_ensemble_members_give_equal_outputs_alone(activation: str) -> None:
    ensemble = large(EnsembleMLP(3, (OBS, 8, 2), activation))
    x = draws(B, OBS, seed=9).requires_grad_()
    slope = draws(2, B, 2)
    expected = ensemble(x)[:2]
    (to_x,) = torch.autograd.grad(expected, x, slope)
    with torch.no_grad():
        some = ensemble.trace(x, members=2)
        same([some.out, some.back(slope)], [expected.detach(), to_x])


@pytest.mark.parametrize("ensemble", [False, True])
def test_a_network_with_a_hook_is_asked_itself(ensemble: bool) -> None:
    net: Any = EnsembleMLP(2, (OBS, 4, 1), "relu") if ensemble else mlp((OBS, 4, 1), "relu")
    seen: list[int] = []
    net.register_forward_hook(lambda *_: seen.append(1))
    with torch.no_grad():
        traced = net.trace(torch.zeros(2, OBS)) if ensemble else trace(net, torch.zeros(2, OBS))
    assert seen == [1]
    assert isinstance(traced, Graph)


@pytest.mark.parametrize("members", [None, 1])
def test_values_of_actions_go_back_to_the_actions_alone(members: int | None) -> None:
    critics, obs = large(EnsembleMLP(2, (OBS + ACT, 8, 1), "relu")), draws(B, OBS)
    actions = draws(B, ACT, seed=1).requires_grad_()
    expected = q_values(critics, obs, actions)[:members]
    slope = draws(*expected.shape, seed=2)
    (to_actions,) = torch.autograd.grad(expected, actions, slope)
    with torch.no_grad():
        q = ActionValues(critics, obs, actions, members)
        same([q.out, q.back(slope)], [expected.detach(), to_actions])


@pytest.mark.parametrize("kind", [SquashedGaussianPolicy, SquashedSDEPolicy])
def test_a_traced_draw_has_autograds_values_and_gradients(kind: Any) -> None:
    actor = large(kind(OBS, ACT, net_arch=(8, 6)))
    with torch.no_grad():  # log deviations of the plain policy exceed both limits
        actor.net[-1].bias[-2:] += torch.tensor([-25.0, 3.0])
    obs = draws(B, OBS, seed=9)
    noise = draws(6, ACT) if kind is SquashedSDEPolicy else draws(B, ACT)
    expected = actor.draw(obs, noise)
    slopes = draws(B, ACT, seed=3), draws(B, seed=4)
    found = torch.autograd.grad(expected, list(actor.parameters()), slopes)
    with torch.no_grad():
        action, log_prob, learn = actor.trace(obs, noise)
        learn(*slopes)
    # autograd divides rounded values by deviations of e^-20
    same([action, log_prob], [x.detach() for x in expected], rtol=1e-5)
    same(gradients(actor), found, rtol=1e-5)


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


def test_a_deterministic_action_goes_back_to_the_actor() -> None:
    policy = large(DeterministicPolicy(OBS, ACT, 1, (8,), (8,), "relu"))
    obs, slope = draws(B, OBS), draws(B, ACT, seed=1)
    expected = policy.actor(obs).tanh()
    found = torch.autograd.grad(expected, list(policy.actor.parameters()), slope)
    with torch.no_grad():
        action, learn = policy.act(obs)
        learn(slope)
    same([action], [expected.detach()])
    same(gradients(policy.actor), found)


def test_the_lowest_critic_gives_the_action_autograds_gradient() -> None:
    critic = large(EnsembleMLP(3, (OBS + ACT, 8, 1), "relu"))
    policy = SquashedSACPolicy(SquashedGaussianPolicy(OBS, ACT, net_arch=(4,)).double(), critic)
    obs, drawn, slope = draws(B, OBS), draws(B, ACT, seed=1).requires_grad_(), draws(B, seed=2)
    expected = q_values(critic, obs, drawn).amin(0)
    (found,) = torch.autograd.grad(expected, drawn, slope)
    with torch.no_grad():
        value, back = policy.value(critic, obs, drawn)
        same([value, back(slope)], [expected.detach(), found])


def test_discrete_sac_gradients_equal_autograd_for_actor_and_critics() -> None:
    policy = large(CategoricalSACPolicy(OBS, 5, 2, (8,), (6,), "relu"))
    obs, actions, slope = draws(B, OBS), torch.arange(B) % 5, draws(2, B, seed=1)
    log_p = policy.actor.net(obs).log_softmax(-1)
    lowest = policy.critic(obs).amin(0).detach()
    entropy = (log_p.exp() * log_p).sum(-1)
    actor = torch.autograd.grad(
        (slope[0] * (log_p.exp() * lowest).sum(-1)).sum() + (slope[1] * entropy).sum(),
        list(policy.actor.parameters()),
    )
    q = policy.critic(obs).gather(-1, actions.expand(2, -1).unsqueeze(-1)).squeeze(-1)
    critic = torch.autograd.grad(q, list(policy.critic.parameters()), slope)
    with torch.no_grad():
        p, mean, learn = policy.draw(obs, torch.empty(0))
        value, back = policy.value(policy.critic, obs, p)
        learn(back(slope[0]), slope[1])
        taken, learn_critics = policy.action_values(policy.critic, obs, actions)
        learn_critics(slope)
    same([mean, taken, value], [entropy.detach(), q.detach(), (p * lowest).sum(-1)])
    same(gradients(policy.actor), actor)
    same(gradients(policy.critic), critic)


Rows = Callable[[Tensor, Tensor], Tensor]
LOSSES: dict[str, tuple[Rows, Rows]] = {
    "C51": (categorical_kl, categorical_kl_gradient),
    "QR-DQN": (quantile_huber, quantile_huber_gradient),
    "QR-DQN, a wide parabola": (
        lambda q, y: quantile_huber(q, y, 2.0),
        lambda q, y: quantile_huber_gradient(q, y, 2.0),
    ),
}


@pytest.mark.parametrize("name", LOSSES)
def test_slopes_of_distributional_losses_are_autograds(name: str) -> None:
    loss, slope = LOSSES[name]
    said, goal = draws(B, 7).requires_grad_(), 3.0 * draws(B, 7, seed=1)
    if name == "C51":
        goal = goal.softmax(-1) * 0.9  # exact also for targets that do not sum to 1
    (expected,) = torch.autograd.grad(loss(said, goal).sum(), said)
    same([slope(said.detach(), goal)], [expected])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "returns", [ScalarValue(), ScalarValue("mse"), CategoricalValue(7, -2, 3), QuantileValue(7)]
)
def test_value_gradients_equal_those_of_the_loss_of_each_value_kind(returns: Any, weighted: bool) -> None:
    shape = (B,) if returns.n_outputs is None else (B, 7)
    said, after = 2.0 * draws(*shape), draws(*shape, seed=1)
    goal = returns.td_target(draws(B, seed=2), torch.full((B,), 0.9).double(), after)
    weights = draws(B, seed=3).abs() if weighted else None
    kept = said.clone()
    slope = returns.gradient(said, goal, weights)
    assert torch.equal(said, kept)
    (expected,) = torch.autograd.grad(returns.loss(said.requires_grad_(), goal, weights)[0], said)
    same([slope], [expected])


@pytest.mark.parametrize("weighted", [False, True])
def test_slopes_of_temporal_difference_losses_are_autograds(weighted: bool) -> None:
    weights = draws(B, seed=3).abs() if weighted else None
    q, goal = 2.0 * draws(2, B).requires_grad_(), draws(B, seed=1)
    (expected,) = torch.autograd.grad(critics_loss(q, goal, weights), q)
    same([critics_gradient(q.detach(), goal, weights)], [expected])
    for kind in ("huber", "mse"):
        one = q.detach()[0].clone().requires_grad_()
        (slope,) = torch.autograd.grad(td_loss(one, goal, kind, weights), one)
        same([td_gradient(one.detach(), goal, kind, weights)], [slope])
