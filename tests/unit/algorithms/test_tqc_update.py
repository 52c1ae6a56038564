"""Tests that TQC's updates follow the equations of the paper, computed by hand on small numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from rlox.algorithms import TQC
from rlox.algorithms.tqc import TQCLearner
from rlox.configs import TQCConfig, make
from rlox.errors import ConfigError, UnsupportedSpaceError
from rlox.losses import quantile_critics_loss, truncate_quantiles
from rlox.networks import EnsembleMLP, SquashedGaussianPolicy
from rlox.policies.soft import QuantileSACPolicy
from rlox.rng import Streams
from rlox.training.learner import UpdateNoise
from rlox.types import Clock, Transitions

from .test_sac_update import ACT, OBS, batches, vector

CRITICS, QUANTILES = 3, 4


def quantile_policy(critics: int = CRITICS, quantiles: int = QUANTILES) -> QuantileSACPolicy:
    torch.manual_seed(0)
    critic = EnsembleMLP(critics, (OBS + ACT, 8, 6, quantiles), "relu")
    with torch.no_grad():
        critic.biases[-1].mul_(20.0)  # quantiles far apart
    return QuantileSACPolicy(SquashedGaussianPolicy(OBS, ACT, net_arch=(8, 6)), critic)


def learner(policy: QuantileSACPolicy | None = None, **settings: Any) -> TQCLearner:
    defaults = {"learning_rate": 0.01, "n_critics": CRITICS, "n_quantiles": QUANTILES}
    config = make(TQCConfig, {**defaults, "top_quantiles_to_drop_per_net": 1, **settings})
    return TQCLearner(policy or quantile_policy(), config, -float(ACT), UpdateNoise(Streams(3)))


def loop_loss(theta: Tensor, y: Tensor, weights: Tensor) -> float:
    """Return the critics' loss term by term: theta `[members, B, N]`, y `[B, K]`."""
    (members, rows, n), k = theta.shape, y.shape[-1]
    total = 0.0
    for i in range(members):
        for b in range(rows):
            for j in range(n):
                for at in range(k):
                    u = float(y[b, at]) - float(theta[i, b, j])
                    huber = 0.5 * u * u if abs(u) <= 1.0 else abs(u) - 0.5
                    tau = (j + 0.5) / n
                    total += float(weights[b]) * (1.0 - tau if u < 0.0 else tau) * huber
    return total / (members * rows * n * k)


def test_the_target_keeps_the_lowest_quantiles_of_all_critics_together() -> None:
    quantiles = torch.tensor([
        [[1.0, 9.0, 2.0], [0.0, 0.0, 0.0]],  # the first critic, in two states
        [[8.0, 7.0, 3.0], [5.0, -1.0, 4.0]],
    ])  # fmt: skip
    assert truncate_quantiles(quantiles, 0).tolist() == [[1, 2, 3, 7, 8, 9], [-1, 0, 0, 0, 4, 5]]
    assert truncate_quantiles(quantiles, 1).tolist() == [[1, 2, 3, 7], [-1, 0, 0, 0]]
    # one is left of each critic on average; in the first state both left are the first critic's
    assert truncate_quantiles(quantiles, 2).tolist() == [[1, 2], [-1, 0]]


def test_the_critics_loss_equals_a_loop_over_critics_rows_quantiles_and_atoms() -> None:
    generator = torch.Generator().manual_seed(1)
    theta = 2.0 * torch.randn(3, 5, 4, dtype=torch.float64, generator=generator)
    y = 2.0 * torch.randn(5, 7, dtype=torch.float64, generator=generator)
    weights = torch.rand(5, dtype=torch.float64, generator=generator)
    assert float(quantile_critics_loss(theta, y)) == pytest.approx(
        loop_loss(theta, y, torch.ones(5)), rel=1e-12
    )
    assert float(quantile_critics_loss(theta, y, weights)) == pytest.approx(
        loop_loss(theta, y, weights), rel=1e-12
    )


def atoms_by_hand(made: TQCLearner, data: Transitions, alpha: float, dropped: int) -> Tensor:
    """Return the atoms of the target, `[B, K]`, row by row, before the update."""
    noise = UpdateNoise(Streams(3))(0, (2, 12, ACT), torch.zeros(()))[1]
    action, log_prob = made.policy.draw(data.next_obs[0], noise)
    outputs = made.target.module(torch.cat([data.next_obs[0], action], -1))
    rows = []
    for b in range(12):
        pooled = sorted(float(z) for critic in outputs for z in critic[b])[: CRITICS * QUANTILES - dropped]
        soft = [z - alpha * float(log_prob[b]) for z in pooled]
        rows.append([float(data.rewards[0, b]) + float(data.discounts[0, b]) * z for z in soft])
    return torch.tensor(rows)


@pytest.mark.parametrize("per_net", [0, 1, 3])
def test_loss_and_priorities_are_those_of_the_soft_truncated_target(per_net: int) -> None:
    made, data = learner(ent_coef=0.3, top_quantiles_to_drop_per_net=per_net), batches(1, weights=True)
    with torch.no_grad():
        y = atoms_by_hand(made, data, 0.3, CRITICS * per_net)
        theta = made.policy.critic(torch.cat([data.obs[0], data.actions[0]], -1))
    update = made.update(data, Clock(horizon=100))
    assert update.metrics["loss/critic"] == pytest.approx(loop_loss(theta, y, data.weights[0]), rel=1e-4)
    assert update.metrics["value/q_mean"] == pytest.approx(float(theta.mean()), rel=1e-4)
    errors = [(y[b] - theta[:, b].reshape(-1, 1)).abs().mean() for b in range(12)]
    np.testing.assert_allclose(update.columns["priorities"], errors, rtol=1e-4)


def test_the_actor_maximises_the_mean_of_all_quantiles_of_all_critics() -> None:
    made, data = learner(ent_coef=0.3, learning_rate=1e-12), batches(1)  # the critics stay
    with torch.no_grad():
        noise = UpdateNoise(Streams(3))(0, (2, 12, ACT), torch.zeros(()))[0]
        action, log_prob = made.policy.draw(data.obs[0], noise)
        outputs = made.policy.critic(torch.cat([data.obs[0], action], -1))
    value = [
        sum(float(z) for critic in outputs for z in critic[b]) / (CRITICS * QUANTILES) for b in range(12)
    ]
    by_hand = np.mean([0.3 * float(log_prob[b]) - value[b] for b in range(12)])
    assert made.update(data, Clock(horizon=100)).metrics["loss/actor"] == pytest.approx(by_hand, rel=1e-4)


def test_one_critic_with_one_quantile_learns() -> None:
    settings = {"n_critics": 1, "n_quantiles": 1, "top_quantiles_to_drop_per_net": 0}
    made = learner(quantile_policy(1, 1), **settings)
    before = vector(made.policy)
    metrics = made.update(batches(2), Clock(horizon=100)).metrics
    assert math.isfinite(metrics["loss/critic"])
    assert not torch.equal(before, vector(made.policy))


def test_tqc_learns_the_same_weights_however_batches_are_grouped() -> None:
    data, results = batches(4), []
    for parts in ([slice(0, 4)], [slice(0, 1), slice(1, 3), slice(3, 4)]):
        made = learner()
        for part in parts:
            names = ("obs", "actions", "rewards", "next_obs", "discounts", "indices")
            some = Transitions(**{name: getattr(data, name)[part] for name in names})
            made.update(some, Clock(updates=part.start, horizon=100))
        results.append(vector(made.policy))
    assert torch.equal(*results)


def test_dropping_more_quantiles_lowers_the_values_that_are_learned() -> None:
    means = []
    for per_net in (0, 3):
        made, data = learner(top_quantiles_to_drop_per_net=per_net, tau=1.0), batches(8)
        for update in range(20):
            metrics = made.update(data, Clock(updates=8 * update, horizon=1000)).metrics
        means.append(metrics["value/q_mean"])
    assert means[1] < means[0] - 1.0


def test_dropping_every_quantile_is_refused() -> None:
    with pytest.raises(
        ConfigError,
        match=r"algo\.top_quantiles_to_drop_per_net=5 and algo\.n_quantiles=5: no quantile .* at most 4$",
    ):
        TQC("Pendulum-v1", n_quantiles=5, top_quantiles_to_drop_per_net=5)


def test_tqc_refuses_discrete_actions_by_name() -> None:
    with pytest.raises(UnsupportedSpaceError, match=r"^tqc needs Box actions, CartPole-v1 has Discrete\(2\)"):
        TQC("CartPole-v1")


@pytest.mark.parametrize("given", [{"log_std_init": -1.0}, {"sde_sample_freq": 8}])
def test_tqc_refuses_gsde_settings_without_use_sde(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"algo\.{next(iter(given))}=.* without algo\.use_sde"):
        TQC("Pendulum-v1", **given)


def test_tqc_has_no_native_engine() -> None:
    with pytest.raises(ConfigError, match=r"algo\.backend='?native"):
        TQC("Pendulum-v1", backend="native")
