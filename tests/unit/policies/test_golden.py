"""Tests the reference numbers of the native engine's self-test against autograd in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from rlox.errors import ConfigError
from rlox.native.policy import NativePolicy
from rlox.optim import FlatParameters
from rlox.parameters import self_test
from rlox.parameters.self_test import EXPECTED, OBS_DIM, ROWS, SIZES, compute_results, sine_values
from rlox.policies import DiscretePolicy
from rlox.policies.q_policy import QPolicy


def wide(rate: float, *shape: int) -> Tensor:
    return torch.from_numpy(sine_values(rate, *shape)).double()


def begun(policy: torch.nn.Module) -> FlatParameters:
    """Sets the parameters, in float64, to the initial values of the engine and returns them."""
    flat = FlatParameters(policy.double().requires_grad_(True))
    with torch.no_grad():
        flat.vector.copy_(torch.from_numpy(np.float32(0.3) * sine_values(0.8, len(flat.vector))))
    return flat


def learned(
    policy: torch.nn.Module, flat: FlatParameters, loss: Callable[[int], Tensor]
) -> tuple[float, ...]:
    """Takes two Adam steps on `loss` and returns the three numbers of the self-test."""
    adam, norms = torch.optim.Adam(policy.parameters(), 0.01, eps=1e-3), []
    for i in range(2):
        adam.zero_grad()
        loss(i).backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(policy.parameters(), float("inf"))))
        adam.step()
    moments = flat.views(torch.zeros_like(flat.vector))
    for parameter, moment in zip(policy.parameters(), moments.values(), strict=True):
        moment.copy_(adam.state[parameter]["exp_avg"])
    first = next(iter(moments.values()))
    vectors = (flat.vector, first.as_strided(flat.vector.shape, (1,), 0))
    along = torch.cos(torch.arange(len(flat.vector)).double())
    return *(float(along @ vector.detach()) for vector in vectors), float(np.mean(norms))


def ppo() -> tuple[float, ...]:
    policy = DiscretePolicy(OBS_DIM, 2, net_arch=SIZES)
    flat = begun(policy)
    obs, choices = wide(0.7, ROWS, OBS_DIM), torch.arange(ROWS) % 2
    before = torch.from_numpy(sine_values(0.9, ROWS) * np.float32(0.1) - np.float32(0.7)).double()
    advantages, returns = wide(1.3, ROWS), wide(1.7, ROWS)
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)

    def loss(_: int) -> Tensor:
        said = torch.log_softmax(policy.actor(obs), 1)
        ratio = (said.gather(1, choices[:, None])[:, 0] - before).exp()
        surrogate = torch.minimum(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
        entropy = -(said.exp() * said).sum(1)
        errors = policy.critic(obs)[:, 0] - returns
        return -surrogate.mean() + 0.5 * (errors**2).mean() - 0.01 * entropy.mean()

    return learned(policy, flat, loss)


def dqn() -> tuple[float, ...]:
    policy = QPolicy(OBS_DIM, 4, list(SIZES), "relu")
    flat = begun(policy)
    other = QPolicy(OBS_DIM, 4, list(SIZES), "relu").double()
    target = FlatParameters(other)
    with torch.no_grad():
        target.vector.copy_(torch.from_numpy(np.float32(0.3) * sine_values(0.5, len(target.vector))))
    obs, after = (wide(rate, 2, ROWS, OBS_DIM) for rate in (0.7, 1.1))
    choices, rewards = (torch.arange(2 * ROWS) % 4).view(2, ROWS), 2.0 * wide(0.9, 2, ROWS)

    def loss(i: int) -> Tensor:
        with torch.no_grad():
            best = policy.q(after[i]).argmax(1, keepdim=True)
            discount = float(np.float32(0.9))
            goals = rewards[i] + discount * other.q(after[i]).gather(1, best)[:, 0]
        q = policy.q(obs[i]).gather(1, choices[i][:, None])[:, 0]
        return torch.nn.functional.smooth_l1_loss(q, goals)

    return learned(policy, flat, loss)


@pytest.mark.parametrize(("name", "by_torch"), [("ppo", ppo), ("dqn", dqn)])
def test_the_native_self_test_agrees_with_autograd(
    name: str, by_torch: Callable[[], tuple[float, ...]]
) -> None:
    assert EXPECTED[name] == pytest.approx(by_torch(), rel=1e-6)
    assert compute_results(name) == pytest.approx(EXPECTED[name], rel=1e-5)


def test_an_engine_that_fails_its_self_test_is_refused_before_it_learns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, *others = EXPECTED["dqn"]
    monkeypatch.setitem(EXPECTED, "dqn", (first * 1.001, *others))
    self_test.self_test_mismatch.cache_clear()
    policy = DiscretePolicy(3, 2)
    try:
        with pytest.raises(ConfigError, match=r"dqn gives -?\d.*, expected -?\d.*algo.backend=torch"):
            NativePolicy(policy, FlatParameters(policy))
    finally:
        self_test.self_test_mismatch.cache_clear()
