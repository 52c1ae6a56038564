"""Tests that optimizers find the gradients of changed networks, or refuse these by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rlox.algorithms import DQN, PPO, SAC, TD3
from rlox.errors import ConfigError
from rlox.losses import PPOLoss
from rlox.networks import mlp
from rlox.networks.gradients import gradients_of
from rlox.optim import Adam
from rlox.policies import ContinuousPolicy, DiscretePolicy
from rlox.policies.base import evaluate_for_update
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
def test_a_changed_policy_has_the_gradients_of_torchs_backward(odd: str) -> None:
    policy = DiscretePolicy(OBS, N, net_arch=(8,))
    ODD[odd](policy)
    policy.double()
    check_gradients(policy, draws(B, OBS), torch.arange(B) % N)


def test_learning_applies_a_hook_on_log_std() -> None:
    policy = ContinuousPolicy(OBS, N, net_arch=(8,)).double()
    policy.log_std.register_hook(lambda gradient: 0.0 * gradient)
    check_gradients(policy, draws(B, OBS), draws(B, N, seed=1))
    assert policy.log_std.grad is not None
    assert not policy.log_std.grad.any()


def test_barred_choices_of_masked_policies_have_no_gradient() -> None:
    policy = MaskedDiscretePolicy(OBS, N, net_arch=(8,)).double()
    masks = torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64).expand(B, N)
    check_gradients(policy, torch.cat([draws(B, OBS), masks], -1), 2 * (torch.arange(B) % 2))
    head: Any = policy.actor[-1]
    assert not head.weight.grad[1].any()
    assert not head.bias.grad[1].any()
    assert head.weight.grad[0].any()


def check_gradients(policy: Any, obs: Tensor, actions: Tensor) -> None:
    """Assert that the optimizer finds the gradients of PPO's loss that `torch.Tensor.backward` finds."""
    others = [0.1 * draws(B, seed=i) for i in range(4)]

    def loss() -> Tensor:
        return PPOLoss(clip_vloss=True).terms(*evaluate_for_update(policy, obs, actions), *others).total

    loss().backward()
    expected = [parameter.grad.clone() for parameter in policy.parameters()]
    Adam(policy, 0.1).backward(loss(), None)
    for parameter, gradient in zip(policy.parameters(), expected, strict=True):
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
    net, unused = mlp((OBS, 8, N)).double(), nn.Parameter(draws(2))
    found = gradients_of(net(draws(B, OBS)).sum(), [*net.parameters(), unused])
    assert not found[-1].any()
    assert found[0].any()


def test_a_loss_without_a_gradient_is_refused() -> None:
    net = nn.Linear(3, 1)
    with pytest.raises(ConfigError, match=r"nothing can be learned: the loss has no gradient; it must not"):
        Adam(net, 0.1).backward(net(torch.ones(2, 3)).mean().detach(), None)


def test_a_loss_that_depends_on_no_parameter_is_refused() -> None:
    net, other = nn.Linear(3, 1), nn.Linear(3, 1)
    loss = other(torch.zeros(2, 3)).mean()
    with pytest.raises(ConfigError, match="depends on none of the parameters to learn; keep layers"):
        Adam(net, 0.1).backward(loss, None)
