"""Tests that changed networks learn with autograd's gradients or are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rlox.algorithms import DQN, PPO, SAC, TD3
from rlox.errors import ConfigError
from rlox.networks import mlp, trace
from rlox.networks.mlp import Layers, times
from rlox.networks.traced import Graph, way_back
from rlox.optim import Adam
from rlox.policies import ContinuousPolicy, DiscretePolicy
from rlox.policies.masking import MaskedDiscretePolicy

B, OBS, N = 12, 4, 3


def draws(*shape: int, seed: int = 0) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=g, dtype=torch.float64)


def shared_layer(policy: Any) -> None:
    policy.critic[0] = policy.actor[0]


def shared_body(policy: Any) -> None:
    body = [policy.actor[0], policy.actor[1]]
    policy.actor = nn.Sequential(*body, nn.Linear(8, N))
    policy.critic = nn.Sequential(*body, nn.Linear(8, 1))


def used_twice(policy: Any) -> None:
    layer = nn.Linear(8, 8)
    policy.actor = nn.Sequential(
        policy.actor[0], nn.Tanh(), layer, nn.Tanh(), layer, nn.Tanh(), nn.Linear(8, N)
    )


def no_bias(policy: Any) -> None:
    policy.actor = nn.Sequential(*list(policy.actor)[:-1], nn.Linear(8, N, bias=False))


def gradient_hook(policy: Any) -> None:
    policy.actor[0].weight.register_hook(lambda slope: 3.0 * slope)


def layer_hook(policy: Any) -> None:
    policy.critic[2].register_full_backward_hook(lambda _, given, __: (2.0 * given[0],))


def other_value(policy: Any) -> None:
    own = policy.get_value
    policy.get_value = lambda obs: 5.0 + own(obs)


def other_logits(policy: Any) -> None:
    own = policy.logits
    policy.logits = lambda obs: 2.0 * own(obs)


ODD: dict[str, Callable[[Any], None]] = {
    f.__name__: f
    for f in (
        shared_layer, shared_body, used_twice, no_bias, gradient_hook, layer_hook, other_value, other_logits,
    )
}  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
def test_a_changed_policy_scores_actions_as_it_evaluates_them(odd: str) -> None:
    policy = DiscretePolicy(OBS, N, net_arch=(8,))
    ODD[odd](policy)
    policy.double()
    check_scored(policy, draws(B, OBS), torch.arange(B) % N)


def test_learning_applies_a_hook_on_log_std() -> None:
    policy = ContinuousPolicy(OBS, N, net_arch=(8,)).double()
    policy.log_std.register_hook(lambda slope: 0.0 * slope)
    check_scored(policy, draws(B, OBS), draws(B, N, seed=1))
    with torch.no_grad():
        policy.scored(draws(B, OBS), draws(B, N, seed=1)).learn(draws(B), None, draws(B))
    assert policy.log_std.grad is not None
    assert not policy.log_std.grad.any()


def test_masked_policies_score_as_they_evaluate_without_gradient_of_barred_choices() -> None:
    policy = MaskedDiscretePolicy(OBS, N, net_arch=(8,)).double()
    masks = torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64).expand(B, N)
    check_scored(policy, torch.cat([draws(B, OBS), masks], -1), 2 * (torch.arange(B) % 2))
    with torch.no_grad():
        rows = torch.cat([draws(B, OBS), masks], -1)
        slopes = [0.1 * draws(B, seed=i) for i in range(3)]
        policy.scored(rows, torch.zeros(B).long()).learn(*slopes)
    head = policy.actor[-1]
    assert not head.weight.grad[1].any()
    assert not head.bias.grad[1].any()
    assert head.weight.grad[0].any()


def check_scored(policy: Any, obs: Tensor, actions: Tensor) -> None:
    """Assert that values and gradients equal those of `evaluate_actions` by autograd."""
    slopes = [
        0.1 * draws(B, seed=i) for i in range(3)
    ]  # as for a mean; beyond 1 a barred log-probability overflows
    expected = policy.evaluate_actions(obs, actions)
    parameters = list(policy.parameters())
    found = torch.autograd.grad(expected, parameters, slopes)
    with torch.no_grad():
        scored = policy.scored(obs, actions)
        scored.learn(*slopes)
    for said, of in zip(scored[:3], expected, strict=True):
        torch.testing.assert_close(said, of.detach())
    for parameter, gradient in zip(parameters, found, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


@pytest.mark.parametrize("activation", ["relu", "silu"])
@pytest.mark.parametrize("algorithm", [PPO, DQN, SAC, TD3])
def test_a_layer_that_is_frozen_while_learning_is_refused_by_name(algorithm: Any, activation: str) -> None:
    run = algorithm(
        "Pendulum-v1" if algorithm in (SAC, TD3) else "CartPole-v1", n_envs=1,
        net_arch=[8], activation=activation, backend="torch",
        **({"n_steps": 16, "batch_size": 16} if algorithm is PPO else {"learning_starts": 8}),
    )  # fmt: skip
    run.train(32)
    frozen = next(iter(run.policy.parameters()))
    frozen.requires_grad_(False)
    kept = frozen.clone()
    with pytest.raises(ConfigError, match=r"0\.weight: frozen \(requires_grad=False\)"):
        run.train(64)
    assert torch.equal(frozen, kept)


def test_a_layer_that_is_frozen_before_stays_as_it_was() -> None:
    policy = DiscretePolicy(4, 2, net_arch=(8,))
    policy.actor[0].weight.requires_grad_(False)
    before = [p.clone() for p in policy.parameters()]
    PPO("CartPole-v1", n_envs=1, policy=policy, n_steps=16, batch_size=16).train(32)
    moved = [not torch.equal(a, b) for a, b in zip(before, policy.parameters(), strict=True)]
    assert moved == [False, *[True] * (len(before) - 1)]


class Detached(DiscretePolicy):
    @torch.no_grad()
    def evaluate_actions(self, obs: Tensor, actions: Tensor) -> Any:
        return super().evaluate_actions(obs, actions)


def test_a_policy_that_hides_its_gradient_is_refused() -> None:
    run = PPO("CartPole-v1", n_envs=1, policy=Detached(4, 2), n_steps=16, batch_size=16)
    with pytest.raises(ConfigError, match=r"nothing can be learned: .* under torch\.no_grad"):
        run.train(32)


def test_training_a_torch_policy_in_inference_mode_raises() -> None:
    elu = PPO("CartPole-v1", n_envs=1, activation="elu", n_steps=16, batch_size=16, backend="torch")
    with torch.inference_mode(), pytest.raises(ConfigError, match=r"torch\.inference_mode"):
        elu.train(32)


def test_an_unused_parameter_gets_a_zero_gradient() -> None:
    net = mlp((OBS, 8, N)).double()
    unused = nn.Parameter(draws(2))
    unused.grad = torch.ones_like(unused)
    out = net(draws(B, OBS))
    with torch.no_grad():
        way_back([out], [*net.parameters(), unused])(draws(B, N))
    assert not unused.grad.any()


@pytest.mark.parametrize("m", [1, 2, 5, 15, 16, 40])
@pytest.mark.parametrize("k", [1, 7, 70])
@pytest.mark.parametrize("n", [1, 60])
@pytest.mark.parametrize("several", [(), (2,)])
def test_times_equals_the_matrix_product(several: tuple[int, ...], n: int, k: int, m: int) -> None:
    a, b = draws(*several, n, k), draws(*several, k, m, seed=1)
    out = torch.full((*several, n, m), torch.nan, dtype=torch.float64)
    expected = (a.unsqueeze(-1) * b.unsqueeze(-3)).sum(-2)
    torch.testing.assert_close(times(a, b), expected)
    assert times(a, b, out) is out
    torch.testing.assert_close(out, expected)


def test_a_wide_layer_with_few_inputs_has_autograds_gradients() -> None:
    net, x = mlp((3, 70, 70, 2), "relu").double(), draws(80, 3)
    slope, expected = draws(80, 2, seed=1), net(x)
    to_parameters = torch.autograd.grad(expected, list(net.parameters()), slope)
    with torch.no_grad():
        traced = trace(net, x)
        assert isinstance(traced, Layers)
        traced.learn(slope)
    for parameter, gradient in zip(net.parameters(), to_parameters, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_a_network_that_detaches_its_graph_raises_in_the_backward_pass() -> None:
    net = nn.Linear(3, 1)
    with torch.no_grad():
        traced = Graph(lambda x: net(x).detach(), torch.zeros(2, 3), net.parameters())
        with pytest.raises(ConfigError, match="nothing can be learned: "):
            traced.learn(torch.ones(2, 1))


def test_a_loss_that_depends_on_no_parameter_is_refused() -> None:
    net, other = nn.Linear(3, 1), nn.Linear(3, 1)
    loss = other(torch.zeros(2, 3)).mean()
    with pytest.raises(ConfigError, match="depends on none of its parameters; keep layers as attr"):
        Adam(net, 0.1).backward(loss, None)
