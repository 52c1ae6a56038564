"""Tests that DQN's learner with noisy layers and with distributions follows each part's definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from rlox.algorithms import DQN, Rainbow
from rlox.algorithms.dqn.learner import DQNLearner
from rlox.configs.dqn import DQNConfig
from rlox.losses import categorical_kl, project_atoms, quantile_huber
from rlox.networks.noisy import keyed_factorized_noise
from rlox.policies.q_policy import NoisyGreedy, QPolicy
from rlox.policies.value_distribution import CategoricalValue, QuantileValue, ValueDistribution
from rlox.types import Clock, Transitions

OBS, ACTIONS, SEED = 3, 4, 9
DISTRIBUTIONS: dict[str, ValueDistribution | None] = {
    "none": None,
    "categorical": CategoricalValue(7, -4.0, 5.0),
    "quantile": QuantileValue(6),
}
SIZES = {"n_atoms": 7, "v_min": -4.0, "v_max": 5.0, "n_quantiles": 6}


def batch(n: int = 1, size: int = 32, seed: int = 0) -> Transitions:
    g = torch.Generator().manual_seed(seed)
    ended = torch.rand(n, size, generator=g) < 0.3
    return Transitions(
        obs=torch.randn(n, size, OBS, generator=g),
        actions=torch.randint(ACTIONS, (n, size), generator=g),
        rewards=3 * torch.randn(n, size, generator=g),
        next_obs=torch.randn(n, size, OBS, generator=g),
        discounts=torch.where(ended, 0.0, 0.9),
        indices=np.arange(n * size, dtype=np.uint64).reshape(n, size),
        weights=torch.rand(n, size, generator=g),
    )


def policy(distribution: str, noisy: bool, seed: int, dueling: bool = False) -> QPolicy:
    torch.manual_seed(seed)
    returns, sigma = DISTRIBUTIONS[distribution], 0.5 if noisy else None
    return QPolicy(OBS, ACTIONS, (8, 6), dueling=dueling, value_distribution=returns, sigma=sigma)


def learner(distribution: str = "none", noisy: bool = False, **settings: Any) -> DQNLearner:
    """Return a learner whose online and target networks differ."""
    given = {"learning_rate": 0.01, "distribution": distribution, "noisy": noisy, **SIZES}
    config = DQNConfig(**{"target_update_interval": 100, **given, **settings})
    nets = (policy(distribution, noisy, seed, config.dueling) for seed in (0, 1))
    made = DQNLearner(*nets, config, SEED)
    made.target.load_state_dict(policy(distribution, noisy, 1, config.dueling).state_dict())
    return made


def wrong(made: DQNLearner, data: Transitions, number: int) -> Tensor:
    """Return the error of each row of the first batch by the formulas; `number` counts the run's batches."""
    config, size = made.config, made.policy.noise_size

    def noise(stream: str) -> Tensor | None:
        return keyed_factorized_noise(SEED, f"noise-{stream}", number, (size,)) if size else None

    rows = torch.arange(data.obs.shape[1])
    with torch.no_grad():
        said = made.policy.outputs(data.obs[0], noise("learning"))[rows, data.actions[0]]
        after = made.target.outputs(data.next_obs[0], noise("target"))
        if config.double_dqn:
            best = made.policy(data.next_obs[0], noise("choice")).argmax(-1)
        else:
            best = made.target(data.next_obs[0], noise("target")).argmax(-1)
        after, r, g = after[rows, best], data.rewards[0], data.discounts[0]
        if config.distribution == "categorical":
            goal = project_atoms(r, g, torch.softmax(after, -1), config.v_min, config.v_max)
            return categorical_kl(said, goal)
        if config.distribution == "quantile":
            return quantile_huber(said, r[:, None] + g[:, None] * after)
        return (said - (r + g * after)).abs()


@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_priorities_equal_row_errors_under_the_updates_noise_and_estimator(
    distribution: str, noisy: bool, double: bool, dueling: bool
) -> None:
    made = learner(distribution, noisy, double_dqn=double, dueling=dueling)
    expected = wrong(made, batch(), 41)
    update = made.update(batch(), Clock(updates=41, horizon=100))
    np.testing.assert_allclose(update.columns["priorities"], expected, rtol=1e-4, atol=1e-5)
    assert expected.std() > 0.01


@pytest.mark.parametrize("distribution", ["categorical", "quantile"])
def test_the_loss_is_the_weighted_mean_of_the_priorities(distribution: str) -> None:
    made, data = learner(distribution), batch()
    rows = wrong(made, data, 0)
    online = policy(distribution, False, 0)
    optimizer = torch.optim.Adam(online.parameters(), 0.01, eps=1e-4)
    update = learner(distribution, adam_eps=1e-4)
    metrics = update.update(data, Clock(horizon=100)).metrics
    assert data.weights is not None
    assert metrics["loss/q"] == pytest.approx(float((data.weights[0] * rows).mean()), rel=1e-4)

    # the optimizer steps along the gradient of that loss, whose target is constant
    frozen = made.target
    index = torch.arange(data.obs.shape[1])
    with torch.no_grad():
        after = frozen.outputs(data.next_obs[0])[index, frozen.mode(data.next_obs[0])]
    said = online.outputs(data.obs[0])[index, data.actions[0]]
    r, g = data.rewards[0], data.discounts[0]
    if distribution == "categorical":
        goal = project_atoms(r, g, torch.softmax(after, -1), -4.0, 5.0)
        each = -(goal * said.log_softmax(-1)).sum(-1)
    else:
        each = quantile_huber(said, r[:, None] + g[:, None] * after)
    (data.weights[0] * each).mean().backward()
    nn.utils.clip_grad_norm_(online.parameters(), 10.0)
    optimizer.step()
    for mine, theirs in zip(update.policy.parameters(), online.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


def test_every_batch_draws_new_noise_for_each_of_three_networks() -> None:
    made = learner(noisy=True)
    streams = ("noise-learning", "noise-choice", "noise-target")
    found = [made.noise(stream, number) for stream in streams for number in (0, 1, 2)]
    assert len({tuple(n.tolist()) for n in found if n is not None}) == 9
    again = [made.noise(stream, number) for stream in streams for number in (0, 1, 2)]
    assert all(torch.equal(a, b) for a, b in zip(found, again, strict=True) if b is not None)
    assert learner().noise("noise-learning", 0) is None


def test_batches_of_one_update_have_the_noise_of_their_numbers() -> None:
    """One update of two batches gives the same weights as two updates of one batch."""
    both, single = learner("categorical", True), learner("categorical", True)
    data = batch(2)
    both.update(data, Clock(updates=5, horizon=100))
    for i in range(2):
        one = {name: getattr(data, name) for name in Transitions.__slots__}
        one = {k: v[i : i + 1] if k != "env_steps" else v for k, v in one.items()}
        single.update(Transitions(**one), Clock(updates=5 + i, horizon=100))
    for a, b in zip(both.policy.parameters(), single.policy.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_dqn_update_changes_the_sigmas_of_all_noisy_layers() -> None:
    made = learner(noisy=True)
    before = {n: p.detach().clone() for n, p in made.policy.named_parameters() if "sigma" in n}
    assert len(before) == 6
    made.update(batch(3), Clock(horizon=100))
    after = dict(made.policy.named_parameters())
    assert all(not torch.equal(after[name], p) for name, p in before.items())


def chain(n: int, gamma: float, count: int) -> Transitions:
    """Return a chain of `n` states; moving right from the last state pays 1."""
    states = torch.arange(n).repeat_interleave(2)
    actions = torch.tensor([0, 1]).repeat(n)
    after = (states + 2 * actions - 1).clamp(min=0)
    done = after == n
    one_hot = functional.one_hot(torch.arange(n + 1), n + 1).float()
    columns = {
        "obs": one_hot[states],
        "actions": actions,
        "rewards": done.float(),
        "next_obs": one_hot[after],
        "discounts": gamma * ~done,
    }
    wide = {name: column[None].expand(count, *column.shape) for name, column in columns.items()}
    return Transitions(**wide, indices=np.zeros((count, 2 * n), np.uint64))


@pytest.mark.parametrize("distribution", ["categorical", "quantile"])
def test_expectations_of_a_chain_are_those_of_dynamic_programming(distribution: str) -> None:
    n, gamma = 5, 0.9
    torch.manual_seed(0)
    # the atoms reach beyond the true values; clipping could otherwise keep the values correct
    returns = {"categorical": CategoricalValue(31, -1.0, 2.0), "quantile": QuantileValue(5)}[distribution]
    online, target = (QPolicy(n + 1, 2, (32,), value_distribution=returns) for _ in range(2))
    config = DQNConfig(
        learning_rate=0.01, target_update_interval=1, double_dqn=True, distribution=distribution,
        n_atoms=31, v_min=-1.0, v_max=2.0, n_quantiles=5,
    )  # fmt: skip
    made, data = DQNLearner(online, target, config), chain(n, gamma, 150)
    for step in range(12):
        columns = {name: getattr(data, name) for name in Transitions.__slots__}
        made.update(Transitions(**{**columns, "env_steps": step}), Clock(horizon=100))
    q = online(torch.eye(n + 1)[:n]).detach()
    right = torch.tensor([gamma ** (n - 1 - s) for s in range(n)])
    left = torch.tensor([gamma * right[max(s - 1, 0)] for s in range(n)])
    torch.testing.assert_close(q, torch.stack([left, right], 1), atol=0.03, rtol=0)


def test_rainbow_is_dqn_with_its_parts() -> None:
    small = {"learning_starts": 60, "buffer_size": 200, "net_arch": (8, 8), "v_min": 0.0, "seed": 3}
    rainbow = Rainbow("CartPole-v1", **small)
    dqn = DQN(
        "CartPole-v1",
        **{**small, "double_dqn": True, "dueling": True, "n_step": 3, "noisy": True},
        distribution="categorical",
        prioritized=True,
        alpha=0.5,
        learning_rate=6.25e-5,
        adam_eps=1.5e-4,
        target_update_interval=8_000,
    )
    assert isinstance(rainbow.source.exploration, NoisyGreedy)
    assert rainbow.train(300) == dqn.train(300)
    pairs = zip(rainbow.policy.parameters(), dqn.policy.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert "policy/epsilon" not in rainbow.train(400)
