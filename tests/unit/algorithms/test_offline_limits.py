"""Tests limits in which TD3+BC, IQL and CQL equal other methods, and tasks that cloning cannot solve."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rlox import OfflineDatasetBuffer
from rlox.algorithms import BC, CQL, IQL, TD3, TD3BC
from rlox.algorithms.cql.learner import CQLLearner, LearnedPenaltyWeight, PenaltyNoise
from rlox.algorithms.iql.learner import IQLLearner
from rlox.algorithms.td3.learner import TD3Learner
from rlox.algorithms.td3_bc.learner import TD3BCLearner
from rlox.configs import CQLConfig, IQLConfig, TD3BCConfig, TD3Config, make
from rlox.errors import ConfigError
from rlox.losses import expectile_loss
from rlox.networks import (
    BoundedGaussianPolicy,
    EnsembleMLP,
    SquashedGaussianPolicy,
    q_values,
)
from rlox.policies.deterministic import DeterministicPolicy
from rlox.policies.implicit import IQLPolicy
from rlox.policies.soft import SquashedSACPolicy
from rlox.types import Clock, Transitions

from .test_sac_update import ACT, OBS, batches, vector

SIZES = (OBS, ACT, 2, (8, 6), (8, 6), "relu")


def no_noise(update: int, shape: tuple[int, ...], like: Tensor) -> Tensor:
    return torch.zeros(shape)


def deterministic(critic_gain: float = 1.0) -> DeterministicPolicy:
    torch.manual_seed(0)
    policy = DeterministicPolicy(*SIZES)
    with torch.no_grad():
        for weight in policy.critic.weights:
            weight.mul_(critic_gain)
    return policy


def td3_bc(alpha: float, **settings: Any) -> TD3BCLearner:
    config = make(TD3BCConfig, {"alpha": alpha, "learning_rate": 0.01, **settings})
    return TD3BCLearner(deterministic(), config, no_noise)


def test_td3_bc_with_a_huge_alpha_takes_the_step_of_td3() -> None:
    held = td3_bc(1e9, policy_delay=1)
    free = TD3Learner(deterministic(), make(TD3Config, {"learning_rate": 0.01, "policy_delay": 1}), no_noise)
    for learner in (held, free):
        learner.update(batches(1), Clock(horizon=100))
    torch.testing.assert_close(vector(held.policy.actor), vector(free.policy.actor))
    torch.testing.assert_close(vector(held.policy.critic), vector(free.policy.critic))
    near = td3_bc(1.0, policy_delay=1)
    near.update(batches(1), Clock(horizon=100))
    assert not torch.allclose(vector(near.policy.actor), vector(free.policy.actor))


def test_td3_bc_with_alpha_0_clones_by_squared_error() -> None:
    cloned = deterministic().actor
    optimizer = torch.optim.Adam(cloned.parameters(), 0.01)
    data = batches(6)
    for i in range(6):
        loss = (cloned(data.obs[i]).tanh() - data.actions[i]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for gain in (1.0, 3.0):
        config = make(TD3BCConfig, {"alpha": 0.0, "learning_rate": 0.01, "policy_delay": 1})
        learner = TD3BCLearner(deterministic(gain), config, no_noise)
        learner.update(data, Clock(horizon=100))
        torch.testing.assert_close(vector(learner.policy.actor), vector(cloned))


def test_an_expectile_of_a_half_is_the_mean_and_others_lie_where_they_should() -> None:
    values, targets = torch.zeros(4), torch.tensor([1.0, -1.0, 2.0, -3.0])
    half = 0.5 * (values - targets).square().mean()
    assert float(expectile_loss(values, targets, 0.5)) == pytest.approx(float(half))
    assert float(expectile_loss(values, targets, 0.9)) == pytest.approx(
        (0.9 * 1 + 0.1 * 1 + 0.9 * 4 + 0.1 * 9) / 4
    )
    # the expectile of 0 and 1 in equal parts is tau
    v, pair = torch.tensor([0.9, 0.9], requires_grad=True), torch.tensor([0.0, 1.0])
    (slope,) = torch.autograd.grad(expectile_loss(v, pair, 0.9), v)
    assert float(slope.sum()) == pytest.approx(0.0, abs=1e-7)


def test_iql_with_expectile_one_half_fits_values_by_squared_error() -> None:
    torch.manual_seed(0)
    learner = IQLLearner(IQLPolicy(*SIZES), make(IQLConfig, {"expectile": 0.5, "learning_rate": 0.01}))
    regressed, data = copy.deepcopy(learner.policy.value), batches(1)
    optimizer = torch.optim.Adam(regressed.parameters(), 0.01)
    for _ in range(6):
        lowest = q_values(learner.target.module, data.obs[0], data.actions[0]).detach().amin(0)
        loss = 0.5 * torch.nn.functional.mse_loss(regressed(data.obs[0]).squeeze(-1), lowest)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        learner.update(data, Clock(horizon=100))
        torch.testing.assert_close(vector(learner.policy.value), vector(regressed))


def test_iql_evaluates_only_actions_of_the_dataset(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[Tensor, Tensor]] = []

    def asked(critics: Any, obs: Tensor, actions: Tensor, members: int | None = None) -> Tensor:
        seen.append((obs, actions))
        return q_values(critics, obs, actions, members)

    monkeypatch.setattr("rlox.algorithms.iql.learner.q_values", asked)
    torch.manual_seed(0)
    learner, data = IQLLearner(IQLPolicy(*SIZES), IQLConfig()), batches(3)
    learner.update(data, Clock(horizon=100))
    assert len(seen) == 6
    for i, (obs, actions) in enumerate(seen):
        assert torch.equal(obs, data.obs[i // 2])
        assert torch.equal(actions, data.actions[i // 2])


def conservative(samples: int, act_dim: int = 1, **settings: Any) -> CQLLearner:
    torch.manual_seed(0)
    actor = SquashedGaussianPolicy(OBS, act_dim, net_arch=(8,))
    critic = EnsembleMLP(2, (OBS + act_dim, 16, 1), "tanh")
    with torch.no_grad():
        for weight in critic.weights:
            weight.mul_(3.0)
    config = make(CQLConfig, {"n_random_actions": samples, **settings})
    policy = SquashedSACPolicy(actor, critic)
    return CQLLearner(policy, config, -1.0, no_noise, PenaltyNoise(3))


def one_number(rows: int = 8) -> Transitions:
    g = torch.Generator().manual_seed(1)
    obs, after = torch.randn(2, 1, rows, OBS, generator=g)
    taken = torch.rand(1, rows, 1, generator=g) * 2 - 1
    rewards = torch.randn(1, rows, generator=g)
    discounts = torch.full((1, rows), 0.9)
    return Transitions(obs, taken, rewards, after, discounts, np.zeros((1, rows), np.uint64))


def test_the_cql_penalty_is_the_log_integral_of_exp_q_minus_the_dataset_value() -> None:
    learner, data = conservative(4_000), one_number()
    grid = torch.linspace(-1, 1, 4_001)
    with torch.no_grad():
        obs = data.obs[0].repeat_interleave(len(grid), 0)
        q = q_values(learner.policy.critic, obs, grid.repeat(8).unsqueeze(-1)).view(2, 8, -1)
        integral = torch.trapezoid(q.double().exp(), grid.double(), dim=-1).log()
        exact = integral - q_values(learner.policy.critic, data.obs[0], data.actions[0])
    found = learner.update(data, Clock(horizon=100)).metrics["loss/conservative"]
    assert found == pytest.approx(float(exact.mean()), abs=0.01)


@pytest.mark.parametrize(("weight", "rises"), [(5.0, True), (0.0, False)])
def test_values_of_the_datasets_actions_rise_over_those_of_others(weight: float, rises: bool) -> None:
    learner, data = conservative(4, cql_alpha=weight, learning_rate=3e-3), one_number()

    def gap() -> float:
        g = torch.Generator().manual_seed(5)
        others = torch.rand(64, 8, 1, generator=g) * 2 - 1
        with torch.no_grad():
            critic = learner.policy.critic
            known = q_values(critic, data.obs[0], data.actions[0]).mean()
            random = torch.stack([q_values(critic, data.obs[0], a) for a in others]).mean()
        return float(known - random)

    begun = gap()
    for update in range(200):
        learner.update(data, Clock(updates=update, horizon=200))
    assert (gap() > begun + 1.0) is rises


def test_the_weight_of_the_penalty_rises_while_it_is_above_its_target_and_falls_below() -> None:
    for target, grows in ((1e-3, True), (50.0, False)):
        learner = conservative(4, auto_alpha=True, cql_target_value=target)
        before = float(learner.weight.alpha)
        learner.update(one_number(), Clock(horizon=100))
        assert (float(learner.weight.alpha) > before) is grows


def test_a_learned_weight_at_its_limit_comes_back_and_a_weight_of_0_is_refused() -> None:
    like = torch.zeros(())
    weight = LearnedPenaltyWeight(9e5, 1.0, 0.5, like)
    for _ in range(20):
        weight.learn(torch.tensor(3.0), 0.5)
    assert float(weight.alpha) == pytest.approx(1e6, rel=1e-5)
    for _ in range(40):
        weight.learn(torch.tensor(-3.0), 0.5)
    assert float(weight.alpha) < 1e4
    settings: dict[str, Any] = {"cql_target_value": 1.0, "cql_alpha": 0.0}
    with pytest.raises(ConfigError, match=r"algo\.auto_alpha=true and algo\.cql_alpha=0"):
        CQL(bandit(), act_high=2.0, auto_alpha=True, **settings, **SMALL)


@pytest.mark.parametrize("settings", [{}, {"cql_target_value": 0.0}])
def test_a_target_that_the_penalty_is_always_above_is_taken_with_a_warning(
    settings: dict[str, Any],
) -> None:
    with pytest.warns(UserWarning, match=r"never below 0, so that its weight grows to its limit"):
        algorithm = CQL(bandit(), act_high=2.0, auto_alpha=True, **settings, **SMALL)
    before = float(algorithm.learner.weight.alpha)
    algorithm.train(5)
    assert float(algorithm.learner.weight.alpha) > before


def test_the_penalty_is_drawn_anew_at_each_update() -> None:
    draws, like = PenaltyNoise(3), torch.zeros(())
    (one, even), (same, _), (other, odd) = (draws(k, (4, 2, 1), like) for k in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert not torch.equal(even, odd)
    assert float(even.abs().max()) <= 1.0


def test_cql_learns_the_same_weights_for_any_size_of_chunks_of_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = []
    for rows in (1, 40, 10_000):
        monkeypatch.setattr("rlox.algorithms.cql.learner.MAX_ROWS", rows)
        learner = conservative(4)
        for update in range(5):
            learner.update(one_number(), Clock(updates=update, horizon=100))
        found.append(vector(learner.policy))
    torch.testing.assert_close(found[0], found[1])
    torch.testing.assert_close(found[0], found[2])


def bandit(choices: bool = False) -> OfflineDatasetBuffer:
    """Return one-step episodes whose best action is the state; the behaviour takes random actions."""
    rng = np.random.default_rng(0)
    obs = rng.uniform(-1, 1, (2_000, 1)).astype(np.float32)
    yes, no = np.ones(2_000, bool), np.zeros(2_000, bool)
    if choices:
        taken = rng.integers(0, 2, 2_000)
        rewards = taken == (obs[:, 0] > 0)
        return OfflineDatasetBuffer(obs, obs, taken, rewards.astype(np.float32), yes, no)
    taken = rng.uniform(-2, 2, (2_000, 1)).astype(np.float32)
    rewards = -((taken - obs)[:, 0] ** 2)
    return OfflineDatasetBuffer(obs, obs, taken, rewards, yes, no)


STATES = np.linspace(-0.9, 0.9, 19, dtype=np.float32)[:, None]
SMALL: dict[str, Any] = {"obs_dim": 1, "act_dim": 1, "hidden": 32, "batch_size": 64, "seed": 1}


def error(algorithm: Any, updates: int) -> float:
    """Train, and return the mean distance of the actions from the best ones over all states."""
    algorithm.train(updates)
    return float(np.abs(algorithm.predict(STATES) - STATES).mean())


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (TD3BC, {"alpha": 10.0, "standardize_obs": False}),
        (IQL, {"temperature": 10.0, "expectile": 0.9}),
        (CQL, {"cql_alpha": 0.1, "n_random_actions": 2, "actor_learning_rate": 1e-3}),
    ],
)
def test_td3_bc_iql_and_cql_find_the_best_actions_where_cloning_finds_the_mean(
    kind: Any, settings: dict[str, Any]
) -> None:
    data = bandit()
    cloned = error(BC(data, learning_rate=1e-3, loss="mse", **SMALL), 600)
    assert cloned > 0.4  # the actions are near 0 in states from -0.9 to 0.9
    more = {"act_high": 2.0, "learning_rate": 1e-3, **settings}
    assert error(kind(data, **SMALL, **more), 1_000) < 0.2


def test_cql_finds_the_better_choice_where_the_behaviour_takes_any() -> None:
    more = {**SMALL, "act_dim": 2, "continuous": False, "learning_rate": 1e-3}
    algorithm = CQL(bandit(choices=True), cql_alpha=0.1, **more)
    algorithm.train(600)
    assert (algorithm.predict(STATES) == (STATES[:, 0] > 0)).mean() > 0.9


CELLS = 6


def walk() -> OfflineDatasetBuffer:
    """Return random steps along cells; only a step right from the last cell pays, and it ends an episode."""
    rng = np.random.default_rng(0)
    cell, taken = rng.integers(0, CELLS, 1_200), rng.integers(0, 2, 1_200)
    after = (cell + 2 * taken - 1).clip(0)
    out = after == CELLS
    seen = np.eye(CELLS + 1, dtype=np.float32)
    return OfflineDatasetBuffer(
        seen[cell], seen[after], taken, out.astype(np.float32), out, np.zeros_like(out)
    )


@pytest.mark.parametrize("updates", [3, 600])
def test_cql_finds_a_way_that_no_episode_went(updates: int) -> None:
    """Rows are single steps, so only bootstrapping shows that right is the better step in the first cell."""
    more = {"obs_dim": CELLS + 1, "act_dim": 2, "continuous": False, "learning_rate": 3e-3}
    algorithm = CQL(walk(), cql_alpha=0.1, gamma=0.9, hidden=32, batch_size=64, seed=1, **more)
    algorithm.train(updates)
    right = algorithm.predict(np.eye(CELLS + 1, dtype=np.float32)[:CELLS]) == 1
    assert right.all() == (updates == 600), right


def test_td3_takes_no_dataset_and_td3_bc_needs_one() -> None:
    with pytest.raises(Exception, match="unknown argument 'dataset' for td3"):
        TD3("Pendulum-v1", dataset=None)
    with pytest.raises(ConfigError, match=r"missing key 'buffer.path': td3_bc learns from a data"):
        TD3BC(obs_dim=3, act_dim=1)


def test_settings_of_vectors_are_refused_where_actions_are_choices() -> None:
    more = {**SMALL, "act_dim": 2, "continuous": False}
    for name, value in {
        "n_random_actions": 4,
        "auto_entropy": False,
        "act_high": 2.0,
        "critic_net_arch": (4,),
    }.items():
        with pytest.raises(ConfigError, match=rf"algo\.{name}=.* these (actions )?are choices"):
            CQL(bandit(choices=True), **more, **{name: value})


def test_settings_of_what_is_not_learned_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"algo\.cql_target_value=2\.0 without algo\.auto_alpha"):
        CQL(bandit(), act_high=2.0, cql_target_value=2.0, **SMALL)


def test_a_restored_cql_learner_makes_the_same_next_update() -> None:
    learner = conservative(4, auto_alpha=True, cql_target_value=1.0)
    learner.update(one_number(), Clock(horizon=100))
    state = copy.deepcopy(learner.state())
    other = conservative(4, auto_alpha=True, cql_target_value=1.0)
    other.restore(state)
    for one in (learner, other):
        one.update(one_number(), Clock(updates=1, horizon=100))
    assert torch.equal(vector(learner.policy), vector(other.policy))
    assert torch.equal(learner.weight.alpha, other.weight.alpha)


def test_deviations_beyond_the_limits_of_a_bounded_gaussian_count_as_the_limits_and_are_not_learned() -> None:
    torch.manual_seed(0)
    actor = BoundedGaussianPolicy(OBS, 3, (8,), "relu")
    with torch.no_grad():
        actor.log_std.copy_(torch.tensor([-0.5, -7.0, 3.0]))  # the second and third are beyond the limits
    obs, actions = torch.randn(6, OBS), torch.rand(6, 3) * 2 - 1
    mean, std = actor.net(obs).tanh(), torch.tensor([-0.5, -5.0, 2.0]).exp()
    log_prob = actor.log_prob(obs, actions)
    torch.testing.assert_close(log_prob, torch.distributions.Normal(mean, std).log_prob(actions).sum(-1))
    (slope,) = torch.autograd.grad(log_prob.sum(), actor.log_std)
    assert slope[0] != 0.0
    assert slope.tolist()[1:] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("settings", "rate"),
    [
        ({}, 1e-4),
        ({"anneal_lr": True}, 0.25e-4),
        ({"actor_learning_rate": "lin_1e-3"}, 0.25e-3),
        ({"actor_learning_rate": "lin_1e-3", "anneal_lr": True}, 0.25e-3),
    ],
)
def test_cql_anneals_the_actor_learning_rate_only_once(settings: dict[str, Any], rate: float) -> None:
    learner = conservative(4, **settings)
    metrics = learner.update(one_number(), Clock(updates=75, unit="updates", horizon=100)).metrics
    assert metrics["train/actor_learning_rate"] == pytest.approx(rate)


def test_a_cosine_over_the_total_is_a_schedule() -> None:
    assert IQLConfig().has_schedule
    assert not make(IQLConfig, {"cosine_actor": False}).has_schedule
