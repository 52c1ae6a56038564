"""Tests how a batch of transitions changes the networks of TD3 and DDPG."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rlox.algorithms import DDPG, TD3
from rlox.algorithms.td3.learner import TD3Learner
from rlox.configs import DDPGConfig, TD3Config, make
from rlox.errors import UnsupportedSpaceError
from rlox.networks import q_values
from rlox.policies.deterministic import DeterministicPolicy
from rlox.types import Clock, Transitions

from .test_sac_update import ACT, OBS, batches, vector

SIZE = 12


def policy(members: int = 2) -> DeterministicPolicy:
    torch.manual_seed(0)
    return DeterministicPolicy(OBS, ACT, members, (8, 6), (8, 6), "relu")


def given(update: int, shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Return noise that is large enough to exceed its limit."""
    return 5.0 * torch.randn(shape, generator=torch.Generator().manual_seed(update))


def learner(**settings: Any) -> TD3Learner:
    config = make(TD3Config, {"learning_rate": 0.01, **settings})
    return TD3Learner(policy(config.n_critics), config, given)


def test_actor_and_targets_move_at_every_second_update_only() -> None:
    made = learner(tau=0.5)
    parts = {
        "actor": made.policy.actor,
        "target actor": made.target_actor.module,
        "target critic": made.target_critic.module,
    }
    for update in range(4):
        before = {name: vector(part) for name, part in parts.items()}
        critics = vector(made.policy.critic)
        row = made.update(batches(1), Clock(updates=update, horizon=100)).metrics
        moved = {name for name, part in parts.items() if not torch.equal(vector(part), before[name])}
        assert moved == (set(parts) if update % 2 else set())
        assert ("loss/actor" in row) is (update > 0)  # the latest loss, once there is one
        assert not torch.equal(vector(made.policy.critic), critics)


def test_the_targets_noise_is_limited_before_it_is_added_and_the_action_after() -> None:
    made, data = learner(target_noise=0.2, noise_clip=0.3), batches(1, SIZE, weights=True)
    with torch.no_grad():
        noise = (0.2 * given(0, (SIZE, ACT), torch.zeros(()))).clamp(-0.3, 0.3)
        assert (noise.abs() == 0.3).any()
        action = (made.target_actor.module(data.next_obs[0]).tanh() + noise).clamp(-1, 1)
        after = q_values(made.target_critic.module, data.next_obs[0], action).amin(0)
        goal = data.rewards[0] + data.discounts[0] * after
        q = q_values(made.policy.critic, data.obs[0], data.actions[0])
    update = made.update(data, Clock(horizon=100))
    np.testing.assert_allclose(update.columns["priorities"], (q - goal).abs().mean(0), rtol=1e-4)
    loss = sum((data.weights[0] * (q[i] - goal) ** 2).mean() for i in (0, 1))
    assert update.metrics["loss/critic"] == pytest.approx(float(loss), rel=1e-4)


def test_an_action_of_the_target_stays_within_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    made = learner(noise_clip=0.5)
    torch.nn.init.constant_(made.target_actor.module[-1].bias, 10.0)  # its actions are 1
    seen: list[Tensor] = []

    def asked(critics: Any, obs: Tensor, actions: Tensor, members: int | None = None) -> Tensor:
        if critics is made.target_critic.module:
            seen.append(actions.clone())
        return q_values(critics, obs, actions, members)

    monkeypatch.setattr("rlox.algorithms.td3.learner.q_values", asked)
    made.update(batches(1), Clock(horizon=100))
    assert float(seen[0].max()) == 1.0
    assert float(seen[0].min()) == 0.5


def test_the_actor_is_improved_by_the_first_critic_alone() -> None:
    moved = []
    for shift in (0.0, -1000.0):
        made = learner(policy_delay=1, learning_rate=0.001)
        with torch.no_grad():  # the second critic gives lower values and other gradients
            made.policy.critic.biases[-1][1] += shift
            made.policy.critic.weights[0][1] *= 1.0 + shift
        data = batches(1)
        data.discounts.zero_()
        made.update(data, Clock(horizon=100))
        moved.append(vector(made.policy.actor))
    assert torch.equal(*moved)
    assert not torch.equal(moved[0], vector(policy().actor))


def test_td3_without_delay_noise_and_second_critic_equals_ddpg() -> None:
    same: dict[str, Any] = {"learning_starts": 20, "batch_size": 8, "net_arch": (8,), "seed": 3}
    one = TD3("Pendulum-v1", n_critics=1, policy_delay=1, target_noise=0.0, **same)
    other = DDPG("Pendulum-v1", **same)
    for algorithm in (one, other):
        algorithm.train(60)
    assert torch.equal(vector(one.policy), vector(other.policy))
    plain = TD3("Pendulum-v1", n_critics=1, policy_delay=1, **same)
    plain.train(60)
    assert not torch.equal(vector(plain.policy), vector(other.policy))


def test_ddpg_has_one_critic_and_no_keys_of_td3() -> None:
    assert DDPGConfig().n_critics == 1
    with pytest.raises(Exception, match="unknown argument 'policy_delay' for ddpg"):
        DDPG("Pendulum-v1", policy_delay=2)


def test_td3_explores_with_bounded_noise_and_plays_without_noise() -> None:
    algorithm = TD3("Pendulum-v1", n_envs=3, seed=4, net_arch=(8,), exploration_noise=0.2)
    explore, obs = algorithm.source.exploration, np.ones((3, 3), np.float32)
    with torch.inference_mode():
        drawn = np.stack([explore.act(obs, step, 0.0) for step in range(3000)])
        best = algorithm.policy.mode(torch.from_numpy(obs)).numpy()
        sampled = algorithm.policy.sample(torch.from_numpy(obs)).numpy()
    assert (drawn - best).std() == pytest.approx(0.2, rel=0.05)
    assert (drawn - best).mean() == pytest.approx(0.0, abs=0.02)
    assert np.abs(drawn).max() <= 1.0
    assert (sampled == best).all()


def test_td3_learns_the_same_weights_however_batches_are_grouped() -> None:
    data, results = batches(4), []
    for parts in ([slice(0, 4)], [slice(0, 1), slice(1, 3), slice(3, 4)]):
        made = learner()
        for part in parts:
            names = ("obs", "actions", "rewards", "next_obs", "discounts", "indices")
            some = Transitions(**{name: getattr(data, name)[part] for name in names})
            made.update(some, Clock(updates=part.start, horizon=100))
        results.append(vector(made.policy))
    assert torch.equal(*results)


@pytest.mark.parametrize("facade", [TD3, DDPG])
def test_td3_and_ddpg_refuse_discrete_actions_by_name(facade: Any) -> None:
    told = (
        rf"^{facade.name} needs Box actions, CartPole-v1 has Discrete\(2\); use algo=ppo, "
        "recurrent_ppo, a2c, pqn, dqn, rainbow or sac$"
    )
    with pytest.raises(UnsupportedSpaceError, match=told):
        facade("CartPole-v1")
