"""Tests that a policy acts in evaluation mode and that its plain function equals its modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rlox.algorithms import PPO
from rlox.errors import NonFiniteError
from rlox.networks import inference_function, mlp
from rlox.policies.base import evaluation_mode

OBS = np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32)


def small(env: str = "CartPole-v1") -> PPO:
    return PPO(env, n_envs=2, n_steps=16, seed=0)


def dropping() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5), nn.Linear(64, 2))


def test_predictions_disable_dropout_and_restore_the_training_modes() -> None:
    algorithm = small()
    algorithm.policy.actor = dropping()
    first = algorithm.predict(OBS)
    for call in (algorithm.policy.train, algorithm.policy.actor.train, algorithm.policy.eval):
        call()
        modes = [m.training for m in algorithm.policy.modules()]
        assert np.array_equal(algorithm.predict(OBS), first)
        assert [m.training for m in algorithm.policy.modules()] == modes
    algorithm.policy.train()
    rows = torch.from_numpy(OBS)
    assert not torch.equal(algorithm.policy.mode(rows), algorithm.policy.mode(rows))


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_evaluation_mode_includes_torchscript_modules() -> None:
    net, rows = nn.Sequential(torch.jit.script(dropping())), torch.from_numpy(OBS)
    with evaluation_mode(net):
        assert torch.equal(net(rows), net(rows))
    assert all(m.training for m in net.modules())
    assert not torch.equal(net(rows), net(rows))


def test_evaluation_mode_restores_training_mode_after_an_error() -> None:
    net = dropping()
    with pytest.raises(KeyError), evaluation_mode(net):
        raise KeyError
    assert all(m.training for m in net.modules())


def test_an_action_that_is_not_finite_is_refused() -> None:
    algorithm = small("Pendulum-v1")
    with torch.no_grad():
        algorithm.policy.actor[-1].bias.fill_(float("nan"))
    with pytest.raises(NonFiniteError, match="action is not finite"):
        algorithm.predict(np.zeros(3))


class Doubled(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


def doubled(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
    return 2 * output


def halved(module: nn.Module, inputs: tuple[Tensor, ...]) -> Tensor:
    return inputs[0] / 2


def untouched(net: nn.Sequential) -> None:
    pass


def of_another_kind(net: nn.Sequential) -> None:
    net[2] = Doubled(8, 8)


def of_two_activations(net: nn.Sequential) -> None:
    net[3] = nn.Sigmoid()


def with_one_layer_more(net: nn.Sequential) -> None:
    net.append(nn.Tanh())


def without_bias(net: nn.Sequential) -> None:
    net[2] = nn.Linear(8, 8, bias=False)


def hooked(net: nn.Sequential) -> None:
    net[3].register_forward_hook(doubled)


def hooked_before(net: nn.Sequential) -> None:
    net[4].register_forward_pre_hook(halved)


def hooked_as_a_whole(net: nn.Sequential) -> None:
    net.register_forward_hook(doubled)


CHANGES = [untouched, of_another_kind, of_two_activations, with_one_layer_more, without_bias, hooked,
           hooked_before, hooked_as_a_whole]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("activation", ["tanh", "relu", "elu"])
def test_inference_function_equals_the_network(
    change: Callable[[nn.Sequential], None], activation: str
) -> None:
    net, rows = mlp((4, 8, 8, 2), activation), torch.from_numpy(OBS)
    change(net)
    expected = net(rows)
    assert torch.equal(inference_function(net)(rows), expected)
    assert torch.equal(inference_function(net)(rows), expected)  # the rows did not change


class Reversed(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.flip(-1))


def test_inference_function_keeps_an_overridden_forward() -> None:
    net, rows = Reversed(*mlp((4, 8, 2))), torch.from_numpy(OBS)
    assert torch.equal(inference_function(net)(rows), net(rows))
