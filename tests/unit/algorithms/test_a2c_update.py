"""Tests that an A2C update is one gradient step on the whole rollout."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rlox.algorithms import A2C, PPO
from rlox.algorithms.a2c.learner import A2CLearner
from rlox.types import Clock, Rollout

KINDS: dict[str, dict[str, Any]] = {
    "discrete": {"env_id": "CartPole-v1"},
    "box": {"env_id": "Pendulum-v1"},
    "gsde": {"env_id": "Pendulum-v1", "use_sde": True},
}
SMALL: dict[str, Any] = {"n_envs": 4, "seed": 3, "net_arch": [16], "backend": "torch"}


def a2c(kind: str = "discrete", **options: Any) -> A2C:
    return A2C(**{**SMALL, **KINDS[kind], **options})


def rollout_of(algorithm: A2C | PPO) -> Rollout:
    return algorithm.collector.collect(algorithm.policy, algorithm.config.algo.n_steps)


def weights(policy: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten().clone() for p in policy.parameters()])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("normalize", [False, True])
def test_an_a2c_update_equals_torchs_rmsprop_on_the_papers_loss(kind: str, normalize: bool) -> None:
    algorithm = a2c(kind, normalize_advantages=normalize, ent_coef=0.02, max_grad_norm=0.3)
    policy = copy.deepcopy(algorithm.policy)
    reference = torch.optim.RMSprop(policy.parameters(), lr=7e-4, alpha=0.99, eps=1e-5)
    for _ in range(3):
        rollout = rollout_of(algorithm)
        found = algorithm.learner.update(rollout, Clock()).metrics
        advantages = rollout.advantages
        if normalize:
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        log_probs, entropy, values = policy.evaluate_actions(rollout.obs, rollout.actions)
        actor = -(advantages * log_probs).mean()
        critic = (rollout.returns - values).square().mean()
        reference.zero_grad()
        (actor + 0.5 * critic - 0.02 * entropy.mean()).backward()
        norm = nn.utils.clip_grad_norm_(policy.parameters(), 0.3)
        reference.step()
        assert torch.allclose(weights(algorithm.policy), weights(policy), atol=2e-6)
        assert found["loss/policy"] == pytest.approx(float(actor.detach()), abs=1e-5)
        assert found["loss/value"] == pytest.approx(float(critic.detach()), rel=1e-5)
        assert found["policy/entropy"] == pytest.approx(float(entropy.detach().mean()), rel=1e-5)
        assert found["train/grad_norm"] == pytest.approx(float(norm), rel=1e-4)


@pytest.mark.parametrize("kind", ["discrete", "box"])
def test_a2c_equals_ppo_with_one_epoch_one_minibatch_and_the_same_optimizer(kind: str) -> None:
    shared: dict[str, Any] = {**SMALL, **KINDS[kind], "n_steps": 8, "learning_rate": 1e-3}
    ours = A2C(**shared, use_rms_prop=False, gae_lambda=0.9)
    ppo = PPO(
        **shared,
        gae_lambda=0.9,
        n_epochs=1,
        batch_size=32,
        normalize_advantages=False,
        ent_coef=0.0,
    )
    for _ in range(5):
        for algorithm in (ours, ppo):
            algorithm.learner.update(rollout_of(algorithm), Clock())
        # The two sum in different orders; Adam can make the rounding error large where a gradient is 0.
        assert torch.allclose(weights(ours.policy), weights(ppo.policy), atol=1e-5)


def test_a2c_returns_sum_n_steps_and_bootstrap_the_last_value() -> None:
    algorithm = a2c(n_steps=5, gamma=0.9)
    rollout = rollout_of(algorithm)
    assert algorithm.config.algo.gae_lambda == 1.0
    rewards = rollout.rewards.reshape(5, 4)
    going = ~rollout.dones.reshape(5, 4)
    assert going.all()  # no pole falls within five steps
    with torch.no_grad():
        after = algorithm.policy.get_value(torch.from_numpy(algorithm.collector._obs))
    expected = after
    for t in range(4, -1, -1):
        expected = rewards[t] + 0.9 * expected
        assert torch.allclose(rollout.returns.reshape(5, 4)[t], expected, atol=1e-5)


def test_the_learning_rate_falls_with_what_remains() -> None:
    algorithm = a2c(anneal_lr=True)
    rates = [
        algorithm.learner.update(rollout_of(algorithm), Clock(env_steps=at, horizon=1000)).metrics
        for at in (0, 250, 1000)
    ]
    assert [row["train/learning_rate"] for row in rates] == pytest.approx([7e-4, 5.25e-4, 0.0])


def test_tensorflows_rmsprop_takes_smaller_first_steps() -> None:
    moved = []
    for tf_like in (False, True):
        algorithm = a2c(rms_prop_tf_like=tf_like)
        before = weights(algorithm.policy)
        algorithm.learner.update(rollout_of(algorithm), Clock())
        moved.append(float((weights(algorithm.policy) - before).abs().max()))
    assert 0 < moved[1] < moved[0] / 5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", ["torch", "native"])
def test_a_saved_run_goes_on_with_the_same_bytes(kind: str, backend: str, tmp_path: Path) -> None:
    whole = a2c(kind, backend=backend)
    whole.train(200)
    part = a2c(kind, backend=backend)
    part.train(100)
    part.save(tmp_path / "saved")
    resumed = A2C.from_checkpoint(tmp_path / "saved")
    resumed.train(200)
    assert torch.equal(weights(whole.policy), weights(resumed.policy))
    one, other = whole.learner.state()["optimizer"], resumed.learner.state()["optimizer"]
    assert one["steps"] == other["steps"] == 10
    for name, moments in one["moments"].items():
        kept = (torch.as_tensor(of["square_avg"]) for of in (moments, other["moments"][name]))
        assert torch.equal(*kept)


def test_one_rollout_is_one_update_over_all_of_its_samples() -> None:
    algorithm = a2c(n_steps=7)
    update = algorithm.learner.update(rollout_of(algorithm), Clock())
    assert (update.count, update.samples) == (1, 28)
    assert isinstance(algorithm.learner, A2CLearner)
