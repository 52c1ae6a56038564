"""Tests that densities, entropies and samples of the built-in policies agree with their references."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Categorical, Normal

from rlox.errors import ConfigError
from rlox.policies import ContinuousPolicy, DiscretePolicy, SDEPolicy, UserPolicy

DRAWS = 40_000
# the chi-square quantile at 1 - 1e-6 for 4 degrees of freedom
CHI2_4 = 33.4


def spread(policy: nn.Module, scale: float = 0.5) -> None:
    """Sets weights far from their initial ones, so that nothing is near zero by construction."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in policy.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) * scale)


def observations(n: int, dim: int = 3) -> Tensor:
    return torch.randn(n, dim, generator=torch.Generator().manual_seed(1))


def test_discrete_log_probabilities_and_entropies_equal_torchs_categorical() -> None:
    policy, obs = DiscretePolicy(3, 5), observations(64)
    spread(policy)
    actions = torch.arange(64) % 5
    reference = Categorical(logits=policy.actor(obs))
    log_prob, entropy, value = policy.evaluate_actions(obs, actions)
    assert torch.allclose(log_prob, reference.log_prob(actions), atol=1e-6)
    assert torch.allclose(entropy, reference.entropy(), atol=1e-6)
    assert torch.equal(value, policy.critic(obs)[:, 0])
    assert torch.equal(policy.mode(obs), reference.probs.argmax(-1))


def test_gaussian_log_probabilities_and_entropies_equal_torchs_normal() -> None:
    policy, obs = ContinuousPolicy(3, 2), observations(64)
    spread(policy)
    actions = torch.randn(64, 2, generator=torch.Generator().manual_seed(2))
    reference = Normal(policy.actor(obs), policy.log_std.exp())
    log_prob, entropy, value = policy.evaluate_actions(obs, actions)
    assert torch.allclose(log_prob, reference.log_prob(actions).sum(-1), atol=1e-5)
    assert torch.allclose(entropy, reference.entropy().sum(-1), atol=1e-6)
    assert torch.equal(value, policy.critic(obs)[:, 0])
    assert torch.equal(policy.mode(obs), policy.actor(obs))


def test_gsde_agrees_with_stable_baselines3_in_density_entropy_and_gradient() -> None:
    peer = pytest.importorskip(
        "stable_baselines3.common.distributions", reason="stable-baselines3 is an optional peer"
    )
    policy, obs = SDEPolicy(3, 2, log_std_init=-0.5), observations(64)
    spread(policy)
    actions = torch.randn(64, 2, generator=torch.Generator().manual_seed(2))
    log_prob, entropy, _ = policy.evaluate_actions(obs, actions)
    (log_prob.sum() + entropy.sum()).backward()
    ours = [p.grad.clone() for p in (policy.log_std, *policy.actor.parameters()) if p.grad is not None]
    policy.zero_grad()
    features = policy.actor[:-1](obs)
    distribution = peer.StateDependentNoiseDistribution(2, learn_features=False)
    distribution.latent_sde_dim = 64
    distribution.proba_distribution(policy.actor[-1](features), policy.log_std, features)
    reference = distribution.log_prob(actions)
    (reference.sum() + distribution.entropy().sum()).backward()
    theirs = [p.grad for p in (policy.log_std, *policy.actor.parameters())]
    assert torch.allclose(log_prob, reference, atol=1e-4)
    assert torch.allclose(entropy, distribution.entropy(), atol=1e-5)
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("way", ["sampler", "get_action_and_logprob"])
def test_discrete_samples_follow_the_softmax(way: str) -> None:
    policy, obs = DiscretePolicy(3, 5), observations(1)
    spread(policy, 0.2)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        expected = torch.softmax(policy.actor(obs), -1)[0] * DRAWS
        if way == "sampler":
            sample = policy.sampler(40, DRAWS // 40, generator)
            drawn = torch.cat([sample(obs.expand(DRAWS // 40, 3), t) for t in range(40)])
        else:
            drawn, _ = policy.get_action_and_logprob(obs.expand(DRAWS, 3), generator)
    counts = Counter(drawn.tolist())
    chi2 = sum((counts[k] - float(expected[k])) ** 2 / float(expected[k]) for k in range(5))
    assert float(expected.min()) > 50
    assert chi2 < CHI2_4


@pytest.mark.parametrize("way", ["sampler", "get_action_and_logprob"])
def test_gaussian_samples_have_the_policys_mean_and_deviation(way: str) -> None:
    policy, obs = ContinuousPolicy(3, 2), observations(1)
    spread(policy)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        if way == "sampler":
            sample = policy.sampler(40, DRAWS // 40, generator)
            drawn = torch.cat([sample(obs.expand(DRAWS // 40, 3), t) for t in range(40)])
        else:
            drawn, _ = policy.get_action_and_logprob(obs.expand(DRAWS, 3), generator)
        mean, std = policy.actor(obs)[0], policy.log_std.exp()
    assert ((drawn.mean(0) - mean).abs() < 5 * std / math.sqrt(DRAWS)).all()
    assert ((drawn.std(0) / std - 1).abs() < 5 / math.sqrt(2 * DRAWS)).all()
    assert float(torch.corrcoef(drawn.T)[0, 1].abs()) < 5 / math.sqrt(DRAWS)


def test_samples_of_successive_steps_and_environments_are_independent() -> None:
    policy, obs = ContinuousPolicy(3, 1), observations(1).expand(200, 3)
    with torch.no_grad():
        sample = policy.sampler(200, 200, torch.Generator().manual_seed(4))
        drawn = torch.stack([sample(obs, t)[:, 0] for t in range(200)])
    drawn -= drawn.mean()
    variance = float(drawn.var())
    assert abs(float((drawn[1:] * drawn[:-1]).mean())) < 0.03 * variance
    assert abs(float((drawn[:, 1:] * drawn[:, :-1]).mean())) < 0.03 * variance


def test_a_long_rollouts_noise_does_not_repeat_at_the_edge_of_a_block() -> None:
    policy, n_envs = ContinuousPolicy(3, 2), 1 << 17
    obs = observations(1).expand(n_envs, 3)
    with torch.no_grad():
        sample = policy.sampler(6, n_envs, torch.Generator().manual_seed(5))
        first = [sample(obs, t)[0].tolist() for t in range(6)]
    assert len({tuple(a) for a in first}) == 6


@pytest.mark.parametrize(("frequency", "changes"), [(4, [4, 8]), (1, list(range(1, 10))), (-1, [])])
def test_gsde_noise_changes_only_every_sample_freq_steps(frequency: int, changes: list[int]) -> None:
    policy, obs = SDEPolicy(3, 2, sample_freq=frequency), observations(7)
    spread(policy)
    with torch.no_grad():
        sample = policy.sampler(10, 7, torch.Generator().manual_seed(6))
        drawn = [sample(obs, t).clone() for t in range(10)]
    assert [t for t in range(1, 10) if not torch.equal(drawn[t], drawn[t - 1])] == changes


@pytest.mark.parametrize("way", ["sampler", "get_action_and_logprob"])
def test_gsde_actions_have_the_stated_deviation(way: str) -> None:
    policy, obs = SDEPolicy(3, 2, log_std_init=-0.5, sample_freq=1), observations(1)
    generator = torch.Generator().manual_seed(7)
    n = DRAWS // 10
    with torch.no_grad():
        if way == "sampler":
            sample = policy.sampler(10, n, generator)
            drawn = torch.cat([sample(obs.expand(n, 3), t) for t in range(10)])
        else:
            drawn, _ = policy.get_action_and_logprob(obs.expand(DRAWS, 3), generator)
        features = policy.actor[:-1](obs)
        std = (features.square() @ policy.log_std.exp().square()).sqrt()[0]
    assert ((drawn.std(0) / std - 1).abs() < 5 / math.sqrt(2 * DRAWS)).all()
    assert ((drawn.mean(0) - policy.mode(obs)[0]).abs() < 5 * std / math.sqrt(DRAWS)).all()


def test_gsde_noise_is_linear_in_the_features_within_a_sample() -> None:
    """Each environment has its own noise matrix; equal observations in one environment get equal noise."""
    policy, obs = SDEPolicy(3, 1), observations(1)
    with torch.no_grad():
        sample = policy.sampler(3, 5, torch.Generator().manual_seed(8))
        a, b = sample(obs.expand(5, 3), 0).clone(), sample(obs.expand(5, 3), 1).clone()
    assert torch.equal(a, b)
    assert len(set(a[:, 0].tolist())) == 5


@pytest.mark.parametrize("make", [DiscretePolicy, ContinuousPolicy, SDEPolicy])
def test_the_log_probability_of_a_sample_is_that_of_evaluating_it(make: type) -> None:
    policy, obs = make(3, 2), observations(32)
    spread(policy)
    actions, log_prob = policy.get_action_and_logprob(obs, torch.Generator().manual_seed(9))
    again, _ = policy.get_logprob_and_entropy(obs, actions)
    assert torch.allclose(log_prob, again, atol=1e-6)
    action, log_prob, value = policy.get_action_value(obs, torch.Generator().manual_seed(9))
    assert torch.equal(action, actions)
    assert torch.equal(value, policy.get_value(obs))


@pytest.mark.parametrize("make", [DiscretePolicy, ContinuousPolicy, SDEPolicy])
def test_orthogonal_initialisation_has_the_published_gains(make: type) -> None:
    policy = make(6, 3, net_arch=(32, 16))
    for net, head in ((policy.actor, 0.01), (policy.critic, 1.0)):
        layers = [m for m in net if isinstance(m, nn.Linear)]
        for layer, gain in zip(layers, (math.sqrt(2), math.sqrt(2), head), strict=True):
            singular = torch.linalg.svdvals(layer.weight.detach())
            assert singular == pytest.approx(torch.full_like(singular, gain), rel=1e-4)
            assert not layer.bias.any()


def test_without_orthogonal_initialisation_torchs_own_is_kept() -> None:
    layer = DiscretePolicy(6, 3, ortho_init=False).critic[0]
    assert layer.bias.any()


@pytest.mark.parametrize("make", [ContinuousPolicy, SDEPolicy])
def test_the_initial_deviation_is_the_configured_one(make: type) -> None:
    assert (make(3, 2, log_std_init=-1.5).log_std == -1.5).all()


def test_actor_and_critic_share_no_parameters() -> None:
    policy = ContinuousPolicy(3, 2)
    actor = {id(p) for p in policy.actor.parameters()}
    assert not actor & {id(p) for p in policy.critic.parameters()}


@pytest.mark.parametrize(
    ("activation", "layer"),
    [("tanh", nn.Tanh), ("relu", nn.ReLU), ("elu", nn.ELU), ("silu", nn.SiLU)],
)
def test_the_architecture_follows_its_arguments(activation: str, layer: type[nn.Module]) -> None:
    policy = DiscretePolicy(4, 2, net_arch=(8, 16, 32), activation=activation)
    shapes = [tuple(m.weight.shape) for m in policy.actor if isinstance(m, nn.Linear)]
    assert shapes == [(8, 4), (16, 8), (32, 16), (2, 32)]
    assert [type(m) for m in policy.actor][1::2] == [layer] * 3


def test_the_error_for_an_incomplete_user_module_lists_its_missing_methods() -> None:
    with pytest.raises(ConfigError, match="Linear lacks get_action_and_logprob, get_value"):
        UserPolicy(nn.Linear(2, 2))


@pytest.mark.parametrize("kind", [DiscretePolicy, ContinuousPolicy, SDEPolicy])
def test_actor_and_critic_may_have_widths_of_their_own(kind: Any) -> None:
    policy = kind(3, 2, net_arch=(5,), critic_net_arch=(7, 6))
    widths = [
        [layer.out_features for layer in net if isinstance(layer, nn.Linear)]
        for net in (policy.actor, policy.critic)
    ]
    assert widths == [[5, 2], [7, 6, 1]]
    action, log_prob = policy.get_action_and_logprob(torch.zeros(4, 3))
    assert len(action) == len(log_prob) == 4
