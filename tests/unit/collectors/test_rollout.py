"""Tests the arguments of a `RolloutCollector`: sizes, discounts, devices, policies."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

from rlox.collectors import RolloutCollector
from rlox.errors import ConfigError, ShapeError
from rlox.policies import DiscretePolicy


def make_policy(obs_dim: int = 4) -> DiscretePolicy:
    return DiscretePolicy(obs_dim, 2, net_arch=(4,))


@pytest.mark.parametrize("n_steps", [-1, 0, "16", 16.0, None, True])
def test_a_collector_refuses_n_steps_that_are_no_positive_whole_number(n_steps: Any) -> None:
    collector = RolloutCollector("CartPole-v1")
    with pytest.raises(ConfigError, match=f"^n_steps={re.escape(repr(n_steps))}: expected a whole"):
        collector.collect(make_policy(), n_steps=n_steps)
    assert len(collector.collect(make_policy(), 3)) == 3


@pytest.mark.parametrize("batch_size", [0, "8", 8.0, None, True])
def test_a_rollout_refuses_a_size_of_minibatches_that_is_no_whole_number(batch_size: Any) -> None:
    rollout = RolloutCollector("CartPole-v1").collect(make_policy(), 4)
    told = f"^batch_size={re.escape(repr(batch_size))}: expected a whole number of at least 1"
    with pytest.raises(ShapeError, match=told):
        next(rollout.sample_minibatches(batch_size))


@pytest.mark.parametrize("name", ["gamma", "gae_lambda"])
@pytest.mark.parametrize("value", [float("nan"), -1, 1.5, "0.9", True, None])
def test_a_collector_refuses_a_discount_that_is_no_number_from_0_to_1(name: str, value: Any) -> None:
    told = f"^{name}={re.escape(repr(value))}: expected a number from 0 to 1"
    with pytest.raises(ConfigError, match=told):
        RolloutCollector("CartPole-v1", **{name: value})


@pytest.mark.parametrize("name", ["n_envs", "seed"])
@pytest.mark.parametrize("value", [True, "2", None, 1.5, -1])
def test_a_collector_refuses_n_envs_or_a_seed_that_is_no_whole_number(name: str, value: Any) -> None:
    told = f"^RolloutCollector.{name}={re.escape(repr(value))}: expected "
    with pytest.raises(ConfigError, match=told):
        RolloutCollector("CartPole-v1", **{name: value})


def test_a_collector_takes_whole_numbers_of_any_kind() -> None:
    collector = RolloutCollector("CartPole-v1", n_envs=2.0, seed=np.int64(3))  # type: ignore[arg-type]
    assert collector.n_envs == 2
    twin = RolloutCollector("CartPole-v1", n_envs=2, seed=3)
    assert torch.equal(collector.collect(make_policy(), 4).obs, twin.collect(make_policy(), 4).obs)


@pytest.mark.parametrize("device", ["gpu", 1.5])
def test_a_collector_refuses_a_device_that_is_none(device: Any) -> None:
    with pytest.raises(ConfigError, match=f"device={device!r}: expected cpu, cuda, cuda:N or mps"):
        RolloutCollector("CartPole-v1", device=device)


def test_a_collector_names_a_policy_for_other_observations() -> None:
    told = r"policy DiscretePolicy fails on observations of CartPole-v1, \[B, 4\] float32"
    with pytest.raises(ConfigError, match=told):
        RolloutCollector("CartPole-v1").collect(make_policy(obs_dim=3), 4)


def test_a_rollout_is_written_over_by_the_next_one_and_a_copy_of_it_is_not() -> None:
    collector = RolloutCollector("CartPole-v1", n_envs=2)
    first = collector.collect(make_policy(), 8)
    kept = first.obs.clone()
    second = collector.collect(make_policy(), 8)
    assert torch.equal(first.obs, second.obs)  # as the docstring says
    assert not torch.equal(kept, second.obs)
