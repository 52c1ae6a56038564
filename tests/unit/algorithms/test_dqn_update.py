"""Tests that a DQN update equals torch's optimizer on the formulas of the loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from rlox.algorithms import DQN
from rlox.algorithms.assembly.off_policy import build_off_policy_run
from rlox.algorithms.dqn.common import scheduled_epsilon
from rlox.algorithms.dqn.learner import DQNLearner, build_torch
from rlox.configs.dqn import DQNConfig
from rlox.errors import NonFiniteError, UnsupportedSpaceError
from rlox.losses import td_loss, td_target
from rlox.networks import DuelingMLP
from rlox.policies.q_policy import EpsilonGreedy, QPolicy
from rlox.types import Clock, Transitions

OBS, ACTIONS = 3, 4


def batches(n: int, size: int = 12, weights: bool = False, seed: int = 0) -> Transitions:
    g = torch.Generator().manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, generator=g)  # noqa: E731
    ended = torch.rand(n, size, generator=g) < 0.3
    return Transitions(
        obs=draw(n, size, OBS),
        actions=torch.randint(ACTIONS, (n, size), generator=g),
        rewards=3 * draw(n, size),
        next_obs=draw(n, size, OBS),
        discounts=torch.where(ended, 0.0, 0.9),
        indices=np.arange(n * size, dtype=np.uint64).reshape(n, size),
        weights=torch.rand(n, size, generator=g) if weights else None,
    )


def policy(dueling: bool = False, seed: int = 0) -> QPolicy:
    torch.manual_seed(seed)
    return QPolicy(OBS, ACTIONS, (8, 6), dueling=dueling)


def learner(**settings: Any) -> DQNLearner:
    config = DQNConfig(**{"learning_rate": 0.01, "target_update_interval": 100, **settings})
    return DQNLearner(policy(config.dueling), policy(config.dueling, 1), config)


def by_torch(online: QPolicy, data: Transitions, double: bool, mse: bool, norm: float) -> Tensor:
    """Return the weights after the batches, with torch's optimizer and clipping and the loss as a formula."""
    target = policy()
    target.load_state_dict(online.state_dict())
    optimizer = torch.optim.Adam(online.parameters(), 0.01, eps=1e-8)
    for i in range(len(data)):
        total = torch.zeros(())
        size = data.obs.shape[1]
        for b in range(size):
            with torch.no_grad():
                after = target(data.next_obs[i, b])
                best = online(data.next_obs[i, b]) if double else after
                goal = data.rewards[i, b] + data.discounts[i, b] * after[int(best.argmax())]
            error = online(data.obs[i, b])[data.actions[i, b]] - goal
            size_of = error.abs()
            huber = 0.5 * error**2 if size_of <= 1 else size_of - 0.5
            weight = 1.0 if data.weights is None else data.weights[i, b]
            total = total + weight * (error**2 if mse else huber) / size
        optimizer.zero_grad()
        total.backward()
        nn.utils.clip_grad_norm_(online.parameters(), norm)
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in online.parameters()])


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize(("loss", "norm"), [("huber", 10.0), ("mse", 0.5)])
def test_a_dqn_update_equals_torchs_optimizer_on_the_loss_formula(
    double: bool, loss: str, norm: float, weights: bool
) -> None:
    data = batches(5, weights=weights)
    made = learner(double_dqn=double, loss=loss, max_grad_norm=norm)
    expected = by_torch(policy(), data, double, loss == "mse", norm)
    made.update(data, Clock(horizon=1000))
    found = torch.cat([p.detach().flatten() for p in made.policy.parameters()])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_priorities_are_absolute_errors_without_their_weights() -> None:
    data = batches(1, weights=True)
    made, online = learner(), policy()
    update = made.update(data, Clock(horizon=1000))
    with torch.no_grad():
        goal = data.rewards[0] + data.discounts[0] * online(data.next_obs[0]).amax(-1)
        errors = online(data.obs[0]).gather(-1, data.actions[0][:, None])[:, 0] - goal
    np.testing.assert_allclose(update.columns["priorities"], errors.abs(), rtol=1e-5)
    assert update.indices is not None
    assert update.indices.tolist() == list(range(12))
    assert not learner().update(batches(1), Clock(horizon=1000)).columns


def test_double_dqn_evaluates_the_online_choice_with_the_target_network() -> None:
    made = learner(double_dqn=True, learning_rate=1e-9)
    data = batches(1, size=64)
    online = policy(seed=5)
    made.policy.load_state_dict(online.state_dict())
    target = made.target
    with torch.no_grad():
        after = target(data.next_obs[0])
        chosen = after[torch.arange(64), online(data.next_obs[0]).argmax(-1)]
    assert (chosen < after.amax(-1)).any()
    priorities = made.update(replaced(data, weights=torch.ones(1, 64)), Clock(horizon=1))
    goal = data.rewards[0] + data.discounts[0] * chosen
    q = online(data.obs[0]).detach().gather(-1, data.actions[0][:, None])[:, 0]
    np.testing.assert_allclose(priorities.columns["priorities"], (q - goal).abs(), rtol=1e-4, atol=1e-5)


def test_the_double_estimate_avoids_the_overestimation_of_the_maximum() -> None:
    """Two untrained networks are two independent estimates of 0 (van Hasselt et al. 2016, section 3)."""
    next_obs = batches(1, size=16).next_obs[0]
    found: dict[bool, list[float]] = {False: [], True: []}
    for seed in range(300):
        for double, values in found.items():
            made = learner(double_dqn=double)
            made.policy.load_state_dict(policy(seed=seed).state_dict())
            made.target.load_state_dict(policy(seed=1000 + seed).state_dict())
            with torch.no_grad():
                values.append(float(made._next_outputs(next_obs, 0).mean()))
    error = np.std(found[True]) / 300**0.5
    assert abs(np.mean(found[True])) < 3.0 * error
    assert np.mean(found[False]) > 10.0 * error


def replaced(data: Transitions, **changes: Any) -> Transitions:
    kept = {name: getattr(data, name) for name in Transitions.__slots__}
    return Transitions(**{**kept, **changes})


@pytest.mark.parametrize("tau", [1.0, 0.25])
def test_the_dqn_target_updates_only_after_its_interval_of_environment_steps(
    tau: float,
) -> None:
    made = learner(tau=tau)
    first = [p.detach().clone() for p in made.target.parameters()]
    made.update(replaced(batches(3), env_steps=99), Clock(horizon=1000))
    before = [p.detach().clone() for p in made.policy.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(first, made.target.parameters(), strict=True))
    made.update(replaced(batches(3), env_steps=250), Clock(horizon=1000))  # two updates of the target at once
    for old, online, now in zip(first, before, made.target.parameters(), strict=True):
        once = (1 - tau) * old + tau * online
        torch.testing.assert_close(now, (1 - tau) * once + tau * online)
    moved = [p.detach().clone() for p in made.target.parameters()]
    made.update(replaced(batches(3), env_steps=299), Clock(horizon=1000))
    assert all(torch.equal(a, b) for a, b in zip(moved, made.target.parameters(), strict=True))


def test_no_gradient_reaches_the_target_network() -> None:
    made = learner()
    made.update(batches(2), Clock(horizon=1000))
    assert not any(p.requires_grad or p.grad is not None for p in made.target.parameters())


def test_td_target_and_td_loss_equal_numbers_computed_by_hand() -> None:
    target = td_target(torch.tensor([1.0, 1.0]), torch.tensor([0.81, 0.0]), torch.tensor([2.0, 5.0]))
    torch.testing.assert_close(target, torch.tensor([2.62, 1.0]))
    q, goal = torch.tensor([0.5, 3.0]), torch.zeros(2)
    assert float(td_loss(q, goal, "huber")) == pytest.approx((0.125 + 2.5) / 2)
    assert float(td_loss(q, goal, "mse")) == pytest.approx((0.25 + 9.0) / 2)
    weighted = td_loss(q, goal, "mse", torch.tensor([1.0, 0.1]))
    assert float(weighted) == pytest.approx((0.25 + 0.9) / 2)


def test_a_dueling_networks_advantages_have_no_mean() -> None:
    torch.manual_seed(0)
    net, obs = DuelingMLP(OBS, ACTIONS, (8, 6), "relu"), torch.randn(7, OBS)
    torch.testing.assert_close(net(obs).mean(-1), net.value(net.shared(obs)).squeeze(-1))
    advantage = net.advantage(net.shared(obs))
    spread = net(obs) - net(obs)[:, :1]
    torch.testing.assert_close(spread, advantage - advantage[:, :1])
    assert DuelingMLP(OBS, ACTIONS, (5,), "tanh")(obs).shape == (7, ACTIONS)


def test_epsilon_falls_linearly_over_its_part_of_the_run() -> None:
    config = DQNConfig(exploration_fraction=0.5, exploration_initial_eps=0.8, exploration_final_eps=0.2)
    found = [scheduled_epsilon(config, elapsed) for elapsed in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert found == pytest.approx([0.8, 0.5, 0.2, 0.2, 0.2])


def test_epsilon_greedy_takes_random_actions_with_probability_epsilon() -> None:
    q = policy()
    explore = EpsilonGreedy(q, 5, lambda elapsed: 0.3, seed=1, device=torch.device("cpu"))
    obs = np.random.default_rng(0).normal(size=(5, OBS)).astype(np.float32)
    with torch.inference_mode():
        best = q.mode(torch.from_numpy(obs)).numpy()
        taken = np.stack([explore.act(obs, step, 0.0) for step in range(3000)])
        again = EpsilonGreedy(q, 5, lambda elapsed: 0.3, seed=1, device=torch.device("cpu"))
        assert again.act(obs, 2999, 0.0).tolist() == taken[2999].tolist()  # without earlier steps
    # 0.7 + 0.3 / 4 of 15,000 draws are the best action: four standard deviations are 0.014
    assert (taken == best).mean() == pytest.approx(0.775, abs=0.014)
    others = np.bincount(explore.random_actions(0, obs), minlength=ACTIONS)
    assert others.sum() == 5
    rest = [np.bincount(taken[:, n], minlength=ACTIONS)[np.arange(ACTIONS) != best[n]] for n in range(5)]
    assert np.ptp(np.sum(rest, 0)) < 6 * np.sqrt(3000 * 5 * 0.075)


def test_dqn_stops_at_an_infinite_loss_and_names_the_minibatch() -> None:
    data = batches(2)
    data.rewards[1, 3] = torch.inf
    with pytest.raises(NonFiniteError, match="loss/q is inf in minibatch 1"):
        learner(loss="mse").update(data, Clock(horizon=1000))


def test_without_a_limit_no_gradient_is_clipped() -> None:
    weights = []
    for limit in (None, 1e9, 1e-3):
        made = learner(max_grad_norm=limit, adam_eps=1.0)  # so that the size of a gradient matters
        made.update(batches(3), Clock(horizon=1000))
        weights.append(torch.cat([p.detach().flatten() for p in made.policy.parameters()]))
    assert torch.equal(weights[0], weights[1])
    assert not torch.allclose(weights[0], weights[2], rtol=0.0, atol=1e-3)
    assert DQN(max_grad_norm=None).config.algo.max_grad_norm is None


def test_dqn_refuses_box_actions_and_names_algorithms_that_take_them() -> None:
    told = (
        r"^dqn needs Discrete actions, Pendulum-v1 has Box\(-2\.0, 2\.0, \(1,\), float32\); use "
        r"algo=ppo, recurrent_ppo, a2c, sac, tqc, td3 or ddpg$"
    )
    with pytest.raises(UnsupportedSpaceError, match=told):
        DQN("Pendulum-v1")


def test_values_of_a_chain_are_those_of_dynamic_programming() -> None:
    """In a chain of five states, moving right from the last pays 1: Q*(s, right) = 0.9^(4 - s)."""
    n, gamma = 5, 0.9
    states = torch.arange(n).repeat_interleave(2)
    actions = torch.tensor([0, 1]).repeat(n)
    after = (states + 2 * actions - 1).clamp(min=0)
    done = after == n
    one_hot = functional.one_hot(torch.arange(n + 1), n + 1).float()
    data = Transitions(
        obs=one_hot[states][None].expand(200, -1, -1),
        actions=actions[None].expand(200, -1),
        rewards=done.float()[None].expand(200, -1),
        next_obs=one_hot[after][None].expand(200, -1, -1),
        discounts=(gamma * ~done)[None].expand(200, -1),
        indices=np.zeros((200, 2 * n), np.uint64),
    )
    torch.manual_seed(0)
    online, target = (QPolicy(n + 1, 2, (32,)) for _ in range(2))
    config = DQNConfig(learning_rate=0.01, target_update_interval=1, double_dqn=True)
    made = DQNLearner(online, target, config)
    for step in range(12):
        made.update(replaced(data, env_steps=step), Clock(horizon=100))
    q = online(one_hot[:n]).detach()
    best = torch.tensor([gamma ** (n - 1 - s) for s in range(n)])
    torch.testing.assert_close(q[:, 1], best, atol=0.03, rtol=0)
    left = torch.tensor([gamma * best[max(s - 1, 0)] for s in range(n)])
    torch.testing.assert_close(q[:, 0], left, atol=0.03, rtol=0)


def test_a_plugin_gives_dqn_another_network_and_learner() -> None:
    class OwnLearner(DQNLearner):
        pass

    def build_policy(algo: Any, env: Any, encoder_spec: Any) -> QPolicy:
        return QPolicy(encoder_spec.features, env.actions.size, algo.net_arch, layer_norm=True)

    class LayerNormDQN(DQN):
        @staticmethod
        def make(config: Any, context: Any) -> Any:
            def build_learner(env: Any, encoder_spec: Any, selector: Any) -> Any:
                return build_torch(config, context, env, encoder_spec, build_policy, OwnLearner)

            return build_off_policy_run(config, context, build_learner)

    run = LayerNormDQN("CartPole-v1", net_arch=[8], learning_starts=16)
    run.train(64)
    assert type(run.learner) is OwnLearner
    for network in (run.policy, run.learner.target):
        assert sum(isinstance(module, nn.LayerNorm) for module in network.modules()) == 1
