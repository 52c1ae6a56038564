"""Tests noisy layers: noise is an argument, its size is learned, and without it the layer has none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from rlox.networks import DuelingMLP, NoisyLinear, NoisyMLP
from rlox.networks.noisy import factorized_noise, keyed_factorized_noise, noise_size
from rlox.policies.q_policy import EpsilonGreedy, NoisyGreedy, QPolicy
from rlox.policies.value_distribution import CategoricalValue, QuantileValue

OBS, ACTIONS = 3, 4
CPU = torch.device("cpu")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows(n: int = 5) -> torch.Tensor:
    return torch.randn(n, OBS, generator=generator())


def policy(sigma: float | None = 0.5, **options: Any) -> QPolicy:
    torch.manual_seed(0)
    return QPolicy(OBS, ACTIONS, (8, 6), sigma=sigma, **options)


def test_a_noisy_layer_equals_its_published_equation() -> None:
    torch.manual_seed(1)
    layer, x = NoisyLinear(3, 2, 0.5), rows()
    e_in, e_out = torch.tensor([0.25, -4.0, 0.0]), torch.tensor([-1.0, 9.0])
    f = lambda e: e.sign() * e.abs().sqrt()  # noqa: E731
    weight = layer.weight + layer.weight_sigma * torch.outer(f(e_out), f(e_in))
    bias = layer.bias + layer.bias_sigma * f(e_out)
    found = layer(x, torch.cat([f(e_in), f(e_out)]))
    torch.testing.assert_close(found, functional.linear(x, weight, bias))


def test_a_layer_begins_as_the_paper_has_it() -> None:
    torch.manual_seed(1)
    layer = NoisyLinear(400, 300, 0.5)
    bound = 1 / 20  # 1 / sqrt(400)
    for mean in (layer.weight, layer.bias):
        assert mean.abs().max() <= bound
        # a uniform distribution has deviation bound / sqrt 3
        assert float(mean.detach().std()) == pytest.approx(bound / 3**0.5, rel=0.1)
    for deviation in (layer.weight_sigma, layer.bias_sigma):
        assert torch.all(deviation == 0.5 * bound)


def test_factors_are_roots_of_normal_numbers_with_their_signs() -> None:
    found = factorized_noise((100_000,), generator())
    e = found * found.abs()  # the inverse of f
    assert float(e.mean()) == pytest.approx(0, abs=0.02)
    assert float(e.var()) == pytest.approx(1, abs=0.03)
    assert float((e**4).mean()) == pytest.approx(3, abs=0.2)


@pytest.mark.parametrize("dueling", [False, True])
def test_without_deviation_noise_changes_nothing(dueling: bool) -> None:
    made, x = policy(0.0, dueling=dueling), rows()
    noise = factorized_noise((made.noise_size,), generator())
    assert torch.equal(made(x, noise), made(x))
    loud = policy(0.5, dueling=dueling)
    assert not torch.allclose(loud(x, noise), loud(x))


def test_without_deviation_a_noisy_network_is_the_plain_one() -> None:
    noisy, plain = policy(0.0), policy(None)
    for layer, linear in zip(noisy.q.layers, list(plain.q)[::2], strict=True):
        linear.load_state_dict({"weight": layer.weight, "bias": layer.bias})
    noise = factorized_noise((noisy.noise_size,), generator())
    torch.testing.assert_close(noisy(rows(), noise), plain(rows()))


def test_noise_does_not_change_the_mean_output_of_a_linear_network() -> None:
    torch.manual_seed(2)
    net, x = NoisyMLP((OBS, 2), "relu", 0.5), rows(2)
    n = 20_000
    with torch.no_grad():
        each = torch.stack([net(x, noise) for noise in factorized_noise((n, noise_size(net)), generator())])
        spread = each.std(0)
        assert (spread > 0.1).all()
        # five standard errors
        assert ((each.mean(0) - net(x)).abs() < 5 * spread / n**0.5).all()


def test_every_linear_layer_is_noisy_and_has_factors_of_its_own() -> None:
    for dueling, count in ((False, 3), (True, 5)):
        made, x = policy(dueling=dueling), rows()
        layers = [m for m in made.modules() if isinstance(m, NoisyLinear)]
        assert len(layers) == count
        assert not any(type(m) is torch.nn.Linear for m in made.modules())
        assert made.noise_size == sum(m.inputs + m.outputs for m in layers)
        noise, silent = factorized_noise((made.noise_size,), generator()), made(x)
        at = 0
        for layer in layers:
            end = at + layer.inputs + layer.outputs
            one = torch.zeros_like(noise)
            one[at:end] = noise[at:end]
            assert not torch.allclose(made(x, one), silent)
            at = end


def test_mode_uses_no_noise_and_sample_draws_noise_from_the_generator() -> None:
    made, x = policy(), rows(200)
    assert torch.equal(made.mode(x), made(x).argmax(-1))
    assert torch.equal(made.mode(x), made.mode(x))
    noise = factorized_noise((made.noise_size,), generator(3))
    assert torch.equal(made.sample(x, generator(3)), made(x, noise).argmax(-1))
    assert not torch.equal(made.sample(x, generator(3)), made.sample(x, generator(4)))


def test_noise_depends_on_seed_and_step_and_differs_between_steps() -> None:
    made = policy()
    obs = np.random.default_rng(0).normal(size=(50, OBS)).astype(np.float32)
    explore = NoisyGreedy(made, 50, 7, CPU)
    with torch.inference_mode():
        taken = {step: explore.act(obs, step, 0.5) for step in (0, 1, 2, 5000)}
        for step in (5000, 1):  # in any order
            assert NoisyGreedy(made, 50, 7, CPU).act(obs, step, 0.0).tolist() == taken[step].tolist()
        assert len({tuple(a) for a in taken.values()}) == 4
        other = NoisyGreedy(made, 50, 8, CPU)
        assert [other.act(obs, s, 0.5).tolist() for s in taken] != [a.tolist() for a in taken.values()]


def test_noisy_exploration_draws_the_random_actions_of_epsilon_greedy() -> None:
    made = policy()
    greedy, obs = EpsilonGreedy(made, 6, lambda t: 0.5, 7, CPU), np.zeros((6, 3), np.float32)
    noisy = NoisyGreedy(made, greedy, 7, CPU)
    drawn = [noisy.random_actions(t, obs).tolist() for t in range(9)]
    again = EpsilonGreedy(made, 6, lambda t: 0.5, 7, CPU)
    assert drawn == [again.random_actions(t, obs).tolist() for t in range(9)]


def test_streams_of_noise_are_told_apart_by_seed_name_and_number() -> None:
    keys = [(1, "a", 0), (1, "a", 1), (1, "b", 0), (2, "a", 0)]
    found = [keyed_factorized_noise(*key, (4,)).tolist() for key in keys]
    assert found == [keyed_factorized_noise(*key, (4,)).tolist() for key in keys]
    assert len({tuple(f) for f in found}) == 4


@pytest.mark.parametrize("sigma", [None, 0.5])
@pytest.mark.parametrize("dueling", [False, True])
def test_q_values_are_expectations_of_the_value_distribution(dueling: bool, sigma: float | None) -> None:
    x = rows()
    atoms = policy(sigma, dueling=dueling, value_distribution=CategoricalValue(3, -1.0, 5.0))
    said = atoms.outputs(x)
    assert said.shape == (5, ACTIONS, 3)
    p = said.softmax(-1)
    torch.testing.assert_close(atoms(x), -p[..., 0] + 2 * p[..., 1] + 5 * p[..., 2])
    quantiles = policy(sigma, dueling=dueling, value_distribution=QuantileValue(7))
    assert quantiles.outputs(x).shape == (5, ACTIONS, 7)
    torch.testing.assert_close(quantiles(x), quantiles.outputs(x).sum(-1) / 7)


def test_a_dueling_network_combines_value_and_advantage_for_each_atom() -> None:
    torch.manual_seed(0)
    net, x = DuelingMLP(OBS, ACTIONS, (8, 6), "relu", atoms=3), rows()
    found = net(x).view(5, ACTIONS, 3)
    torch.testing.assert_close(found.mean(1), net.value(net.shared(x)))
    advantage = net.advantage(net.shared(x)).view(5, ACTIONS, 3)
    torch.testing.assert_close(found - found[:, :1], advantage - advantage[:, :1])
