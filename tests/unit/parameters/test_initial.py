"""Tests initial weights: a function of the seed and of the parameter's place, with any engine."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from rlox.algorithms import ALGORITHMS
from rlox.networks import EnsembleMLP, NoisyMLP, init_weights, mlp
from rlox.parameters.layout import initial_weights

ACTOR_CRITIC = [
    ("log_std", (2,)),
    ("actor.0.weight", (64, 3)),
    ("actor.0.bias", (64,)),
    ("actor.2.weight", (2, 64)),
    ("actor.2.bias", (2,)),
    ("critic.0.weight", (64, 3)),
    ("critic.0.bias", (64,)),
    ("critic.2.weight", (1, 64)),
    ("critic.2.bias", (1,)),
]


@pytest.mark.parametrize(
    ("name", "gain"),
    [("actor.0", math.sqrt(2)), ("actor.2", 0.01), ("critic.0", math.sqrt(2)), ("critic.2", 1.0)],
)
def test_orthogonal_weights_have_their_gains_and_biases_are_zero(name, gain):
    values = dict(initial_weights(ACTOR_CRITIC, 4, orthogonal=True))
    weight = values[f"{name}.weight"].astype(np.float64)
    few = weight if weight.shape[0] <= weight.shape[1] else weight.T
    np.testing.assert_allclose(few @ few.T, gain**2 * np.eye(len(few)), atol=gain**2 * 1e-6)
    assert not values[f"{name}.bias"].any()
    assert "log_std" not in values


def test_other_weights_and_biases_are_uniform_as_torch_begins_linear_layers():
    values = dict(initial_weights(ACTOR_CRITIC, 4))
    for name, inputs in (("actor.0", 3), ("critic.0", 3), ("actor.2", 64)):
        bound = 1 / math.sqrt(inputs)
        numbers = np.concatenate([values[f"{name}.{of}"].ravel() for of in ("weight", "bias")])
        assert np.abs(numbers).max() <= bound
        # of uniform numbers in +-b the variance is b^2 / 3; five standard errors of it
        assert abs(numbers.var() / bound**2 - 1 / 3) < 5 * math.sqrt(4 / 45 / numbers.size)
    reference = nn.Linear(64, 1024)
    assert 0.95 / 8 < reference.weight.abs().max() <= 1 / 8  # torch's own bound


def test_ensemble_members_have_different_initial_weights_in_a_networks_bounds():
    critics = init_weights(EnsembleMLP(2, (5, 32, 1)), 3)
    assert not torch.equal(*critics.weights[0])
    assert critics.weights[0].abs().max() <= 1 / math.sqrt(5)
    assert critics.biases[1].abs().max() <= 1 / math.sqrt(32)
    assert critics.weights[0].abs().max() > 0.9 / math.sqrt(5)


def test_init_weights_keeps_the_deviations_of_noisy_layers():
    net = init_weights(NoisyMLP((4, 16, 2), "relu", 0.5), 0)
    assert (net.layers[1].weight_sigma == 0.5 / math.sqrt(16)).all()
    assert net.layers[1].weight.abs().max() <= 1 / math.sqrt(16)


def test_weights_are_a_function_of_the_seed_and_of_nothing_drawn_before():
    torch.manual_seed(1)
    first = init_weights(mlp((4, 8, 2)), 7)
    torch.manual_seed(2)
    again, other = init_weights(mlp((4, 8, 2)), 7), init_weights(mlp((4, 8, 2)), 8)
    for a, b, c in zip(first.parameters(), again.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
        assert not torch.equal(a, c)


@pytest.mark.parametrize(
    ("algo", "env"),
    [("ppo", "CartPole-v1"), ("a2c", "Pendulum-v1"), ("dqn", "CartPole-v1"), ("sac", "Pendulum-v1"),
     ("td3", "Pendulum-v1")],
)  # fmt: skip
def test_torch_and_native_runs_have_the_same_initial_bits(algo, env):
    policies = [ALGORITHMS[algo](env, seed=5, backend=of).policy for of in ("torch", "native")]
    torch_, native = (dict(policy.named_parameters()) for policy in policies)
    assert torch_.keys() == native.keys()
    for name, parameter in torch_.items():
        assert torch.equal(parameter, native[name]), name


def test_only_linear_layers_get_initial_weights() -> None:
    class Norm(nn.Module):
        """A scale for each member and feature."""

        def __init__(self) -> None:
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.ones(2, 8)), nn.Parameter(torch.zeros(2, 8))

    others = {"norm": Norm(), "conv": nn.Conv2d(3, 4, 3), "words": nn.Embedding(5, 4)}
    net = nn.ModuleDict({"linear": nn.Linear(4, 2), **others, "critics": EnsembleMLP(2, (4, 3))})
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    init_weights(net, 0)
    changed = {name for name, tensor in net.state_dict().items() if not torch.equal(before[name], tensor)}
    assert changed == {"linear.weight", "linear.bias", "critics.weights.0", "critics.biases.0"}
