"""Tests PPO updates through PPOLearner on rollouts that PPO collected."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from helpers.policies import UserMlp
from torch import Tensor, nn

from rlox.algorithms import PPO
from rlox.algorithms.ppo.learner import PPOLearner
from rlox.losses import standardize
from rlox.policies import ActorCritic
from rlox.rng import Streams
from rlox.types import Clock, Rollout, Update

KINDS: dict[str, dict[str, Any]] = {
    "discrete": {"env_id": "CartPole-v1"},
    "box": {"env_id": "Pendulum-v1"},
    "gsde": {"env_id": "Pendulum-v1", "use_sde": True, "sde_sample_freq": 4},
    "gsde kept": {"env_id": "Pendulum-v1", "use_sde": True},
    "normalised": {"env_id": "Pendulum-v1", "normalize_obs": True, "normalize_reward": True},
}


def ppo(kind: str = "discrete", **options: Any) -> PPO:
    made = {"n_envs": 4, "seed": 3, "n_steps": 20, "batch_size": 16, "backend": "torch"}
    return PPO(**{**made, **KINDS[kind], **options})


def rollout_of(algorithm: PPO) -> Rollout:
    return algorithm.collector.collect(algorithm.policy, algorithm.config.algo.n_steps)


def recorded(learner: PPOLearner) -> list[dict[str, Tensor]]:
    """Return a list that receives the arguments of every later call of the loss, by name."""
    calls: list[dict[str, Tensor]] = []
    names = (
        "log_probs", "entropy", "values", "old_log_probs", "advantages", "returns", "old_values",
    )  # fmt: skip
    original = learner.loss.terms

    def noted(*args: Tensor) -> Any:
        calls.append(dict(zip(names, (a.detach().clone() for a in args), strict=True)))
        return original(*args)

    learner.loss.terms = noted  # type: ignore[method-assign]
    return calls


def a2c_loss(policy: ActorCritic, rows: Any, vf_coef: float, ent_coef: float) -> Tensor:
    log_prob, entropy, values = policy.evaluate_actions(rows.obs, rows.actions)
    actor = -(standardize(rows.advantages) * log_prob).mean()
    critic = (values - rows.returns).square().mean()
    return actor + vf_coef * critic - ent_coef * entropy.mean()


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_minibatch_of_a_rollout_has_ratio_one_and_no_kl(kind: str) -> None:
    algorithm = ppo(kind)
    rollout = rollout_of(algorithm)
    calls = recorded(algorithm.learner)
    algorithm.learner.update(rollout, Clock())
    ratio = (calls[0]["log_probs"] - calls[0]["old_log_probs"]).exp()
    assert ratio == pytest.approx(torch.ones(16), abs=2e-6)
    later = (calls[-1]["log_probs"] - calls[-1]["old_log_probs"]).exp()
    assert float((later - 1).abs().max()) > 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_one_minibatch_and_one_epoch_report_no_kl_and_no_clipping(kind: str) -> None:
    algorithm = ppo(kind, n_epochs=1, batch_size=80)
    metrics = algorithm.learner.update(rollout_of(algorithm), Clock()).metrics
    assert metrics["policy/approx_kl"] == pytest.approx(0.0, abs=1e-7)
    assert metrics["policy/clip_fraction"] == 0.0


def test_a_users_policy_has_ratio_one_in_the_first_minibatch_too() -> None:
    algorithm = ppo(policy=UserMlp(4, 2))
    rollout = rollout_of(algorithm)
    calls = recorded(algorithm.learner)
    algorithm.learner.update(rollout, Clock())
    assert torch.allclose(calls[0]["log_probs"], calls[0]["old_log_probs"], atol=2e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_first_gradient_is_that_of_a2c(kind: str) -> None:
    algorithm = ppo(kind, ent_coef=0.02, vf_coef=0.3)
    rollout, policy = rollout_of(algorithm), algorithm.policy
    rows = next(rollout.sample_minibatches(16, shuffle=False))
    expected = torch.autograd.grad(a2c_loss(policy, rows, 0.3, 0.02), list(policy.parameters()))
    algorithm.learner.optimizer.backward(algorithm.learner._terms(rows).total, None)
    for ours, a2c in zip(policy.parameters(), expected, strict=True):
        assert torch.allclose(ours.grad, a2c, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_one_epoch_of_one_unclipped_minibatch_is_a_step_of_a2c(kind: str) -> None:
    """Also checks Adam's epsilon, the global limit of the gradient norm and the plain MSE."""
    algorithm = ppo(kind, n_epochs=1, batch_size=80, ent_coef=0.02)
    rollout, config = rollout_of(algorithm), replace(algorithm.config.algo, clip_eps=1e9)
    reference = copy.deepcopy(algorithm.policy)
    PPOLearner(algorithm.policy, config, Streams(0)).update(rollout, Clock())
    rows = next(rollout.sample_minibatches(80, shuffle=False))
    optimizer = torch.optim.Adam(reference.parameters(), lr=config.learning_rate, eps=1e-5)
    a2c_loss(reference, rows, config.vf_coef, config.ent_coef).backward()
    nn.utils.clip_grad_norm_(reference.parameters(), config.max_grad_norm)
    optimizer.step()
    for ours, theirs in zip(algorithm.policy.parameters(), reference.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=3e-6)


def test_the_update_does_not_depend_on_the_order_of_the_environments() -> None:
    algorithm = ppo("box", n_epochs=3, batch_size=80)
    rollout, weights = rollout_of(algorithm), []
    rows = torch.arange(80).reshape(20, 4)[:, [2, 0, 3, 1]].reshape(-1)
    names = ("obs", "actions", "log_probs", "values", "advantages", "returns")
    mixed = replace(rollout, **{name: getattr(rollout, name)[rows] for name in names})
    for batch in (rollout, mixed):
        policy = copy.deepcopy(algorithm.policy)
        PPOLearner(policy, algorithm.config.algo, Streams(0)).update(batch, Clock())
        weights.append(torch.cat([p.detach().flatten() for p in policy.parameters()]))
    assert torch.allclose(*weights, atol=2e-6)


@pytest.mark.parametrize(("batch_size", "sizes"), [(16, [16] * 5), (30, [30, 30, 20]), (79, [79, 1])])
def test_every_epoch_sees_every_row_once_and_keeps_the_remainder(batch_size: int, sizes: list[int]) -> None:
    algorithm = ppo("box", batch_size=batch_size, n_epochs=2)
    rollout = rollout_of(algorithm)
    calls = recorded(algorithm.learner)
    update = algorithm.learner.update(rollout, Clock())
    assert [len(c["returns"]) for c in calls] == sizes * 2
    for epoch in (calls[: len(sizes)], calls[len(sizes) :]):
        seen = torch.cat([c["returns"] for c in epoch])
        assert torch.equal(seen.sort().values, rollout.returns.sort().values)
        assert not torch.equal(seen, rollout.returns)
    assert not torch.equal(calls[0]["returns"], calls[len(sizes)]["returns"])
    assert (update.count, update.samples) == (1, 160)


def test_minibatches_keep_the_columns_of_a_row_together() -> None:
    rows = torch.arange(10, dtype=torch.float32)
    rollout = Rollout(
        obs=rows[:, None], actions=rows, log_probs=rows, values=rows, rewards=rows,
        terminated=rows > 5, truncated=rows > 7, next_values=rows, advantages=rows, returns=rows,
        last_obs=rows[:1, None], last_values=rows[:1], n_envs=1,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    seen = []
    for minibatch in rollout.sample_minibatches(4, True, generator):
        assert all(torch.equal(column.flatten(), minibatch.returns) for column in minibatch[:-1])
        seen += minibatch.returns.tolist()
    assert sorted(seen) == rows.tolist()
    assert seen != rows.tolist()


def test_advantages_are_standardised_within_each_minibatch() -> None:
    algorithm = ppo("box", n_epochs=1)
    rollout = rollout_of(algorithm)
    calls = recorded(algorithm.learner)
    algorithm.learner.update(rollout, Clock())
    for call in calls:
        assert float(call["advantages"].mean()) == pytest.approx(0, abs=1e-5)
        assert float(call["advantages"].std()) == pytest.approx(1, abs=1e-5)


def test_a_minibatch_of_one_keeps_its_advantage() -> None:
    algorithm = ppo("box", n_epochs=1, batch_size=79)
    rollout = rollout_of(algorithm)
    calls = recorded(algorithm.learner)
    metrics = algorithm.learner.update(rollout, Clock()).metrics
    row = int((rollout.returns == calls[1]["returns"]).nonzero()[0])
    assert torch.equal(calls[1]["advantages"], rollout.advantages[row : row + 1])
    assert all(v == v for v in metrics.values())


def test_advantages_stay_raw_when_normalisation_is_off() -> None:
    algorithm = ppo("box", n_epochs=1, normalize_advantages=False)
    rollout = rollout_of(algorithm)
    calls = recorded(algorithm.learner)
    algorithm.learner.update(rollout, Clock())
    seen = torch.cat([c["advantages"] for c in calls])
    assert torch.equal(seen.sort().values, rollout.advantages.sort().values)


def test_the_gradient_norm_is_limited_globally_and_reported_before_clipping() -> None:
    algorithm = ppo("box", n_epochs=1, batch_size=80, max_grad_norm=0.01)
    rollout = rollout_of(algorithm)
    metrics = algorithm.learner.update(rollout, Clock()).metrics
    assert float(algorithm.learner.optimizer.gradient.norm()) == pytest.approx(0.01, rel=1e-3)
    assert metrics["train/grad_norm"] > 0.1


def test_a_small_gradient_is_not_scaled_up() -> None:
    algorithm = ppo("box", n_epochs=1, batch_size=80, max_grad_norm=1e6)
    metrics = algorithm.learner.update(rollout_of(algorithm), Clock()).metrics
    norm = float(algorithm.learner.optimizer.gradient.norm())
    assert norm == pytest.approx(metrics["train/grad_norm"])


def test_adam_has_the_epsilon_of_the_published_implementation() -> None:
    optimizer = ppo().learner.optimizer
    assert (optimizer.eps, optimizer.betas) == (1e-5, (0.9, 0.999))


@pytest.mark.parametrize(("steps", "remaining"), [(0, 1.0), (250, 0.75), (999, 0.001), (2000, 0.0)])
def test_schedules_are_linear_to_zero_in_environment_steps(steps: int, remaining: float) -> None:
    algorithm = ppo(anneal_lr=True, anneal_clip=True, n_epochs=2)
    metrics = algorithm.learner.update(rollout_of(algorithm), Clock(env_steps=steps, horizon=1000)).metrics
    assert metrics["train/learning_rate"] == pytest.approx(3e-4 * remaining)
    assert metrics["train/clip_eps"] == pytest.approx(0.2 * remaining)


def test_schedules_are_read_once_a_rollout_and_used() -> None:
    algorithm = ppo(anneal_lr=True, anneal_clip=True)
    seen: list[tuple[float, float]] = []
    learner = algorithm.learner
    original = learner.loss.terms

    def noted(*args: Tensor) -> Any:
        seen.append((learner.optimizer.lr, learner.loss.clip_eps))
        return original(*args)

    learner.loss.terms = noted  # type: ignore[method-assign]
    algorithm.train(4 * 80)
    per_rollout = 10 * 5
    expected = [(3e-4 * r, 0.2 * r) for r in (1.0, 0.75, 0.5, 0.25)]
    for i, (rate, clip) in enumerate(expected):
        part = seen[i * per_rollout : (i + 1) * per_rollout]
        assert len(set(part)) == 1
        assert part[0] == pytest.approx((rate, clip))


def test_constant_schedules_stay_constant() -> None:
    algorithm = ppo()
    metrics = algorithm.learner.update(rollout_of(algorithm), Clock(env_steps=90_000)).metrics
    assert (metrics["train/learning_rate"], metrics["train/clip_eps"]) == (3e-4, 0.2)


def test_ppo_stops_its_epochs_before_a_step_beyond_target_kl() -> None:
    algorithm = ppo("box", learning_rate=0.02, target_kl=0.01, n_epochs=10)
    rollout = rollout_of(algorithm)
    calls = recorded(algorithm.learner)
    update = algorithm.learner.update(rollout, Clock())
    kls = [
        float(((c["log_probs"] - c["old_log_probs"]).exp() - 1 - c["log_probs"] + c["old_log_probs"]).mean())
        for c in calls
    ]
    assert kls[-1] > 0.015
    assert all(kl <= 0.015 + 1e-6 for kl in kls[:-1])
    assert update.samples == 16 * (len(calls) - 1) < 800
    assert update.metrics["train/epochs"] == (len(calls) - 1) // 5
    assert algorithm.learner.optimizer.steps == len(calls) - 1


def test_without_target_kl_every_epoch_runs() -> None:
    algorithm = ppo("box", learning_rate=0.02)
    update = algorithm.learner.update(rollout_of(algorithm), Clock())
    assert (update.samples, update.metrics["train/epochs"]) == (800, 10)


def test_clip_vloss_changes_the_value_loss_of_ppo() -> None:
    totals = []
    for clip in (False, True):
        algorithm = ppo("box", clip_vloss=clip, learning_rate=0.02)
        totals.append(algorithm.learner.update(rollout_of(algorithm), Clock()).metrics["loss/value"])
    assert totals[0] != totals[1]


def test_explained_variance_is_one_minus_the_unexplained_share() -> None:
    algorithm = ppo("box")
    rollout = rollout_of(algorithm)
    exact = replace(rollout, values=rollout.returns + 3.0)
    half = replace(rollout, values=rollout.returns * 0.5)
    metrics = [algorithm.learner.update(r, Clock()).metrics for r in (exact, half)]
    assert metrics[0]["value/explained_variance"] == pytest.approx(1.0, abs=1e-4)
    assert metrics[1]["value/explained_variance"] == pytest.approx(0.75, abs=1e-4)


def test_the_same_rollout_and_streams_give_the_same_update() -> None:
    algorithm = ppo("box")
    rollout, results = rollout_of(algorithm), []
    for seed in (0, 0, 1):
        policy = copy.deepcopy(algorithm.policy)
        learner = PPOLearner(policy, algorithm.config.algo, Streams(seed))
        results.append((learner.update(rollout, Clock()), policy.state_dict()["log_std"]))
    first, again, other = results
    assert isinstance(first[0], Update)
    assert first[0] == again[0]
    assert torch.equal(first[1], again[1])
    assert not torch.equal(first[1], other[1])
