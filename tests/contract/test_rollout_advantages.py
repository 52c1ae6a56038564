"""Tests that the advantages of collected rollouts equal their definition for all episode ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from helpers.envs import AlwaysTruncates, ScriptedVecEnv, random_script
from helpers.oracles import advantages_by_definition
from helpers.policies import KnownCritic
from numpy.typing import NDArray

from rlox import compute_gae, compute_gae_batched, compute_gae_time_major
from rlox.collectors import RolloutCollector
from rlox.configs import EnvConfig
from rlox.types import Rollout

Array = NDArray[Any]
N_ENVS = 256
DISCOUNTS = [(0.99, 0.95), (1.0, 1.0), (0.9, 0.0), (0.0, 0.95), (1.0, 0.5)]


def first_feature(obs: torch.Tensor) -> torch.Tensor:
    return obs[:, 0]


def grid(column: torch.Tensor) -> Array:
    """`[T*N]` -> `[T, N]`."""
    return column.numpy().reshape(-1, N_ENVS)


def next_values(script: tuple[Array, ...], rule: str = "right") -> Array:
    """Return V(s_{t+1}) under the right rule or one of two wrong rules."""
    obs, finals, _, terminated, truncated = script
    reset = obs[1:, :, 0]
    cut = np.where(terminated | truncated, finals[:, :, 0], reset)
    if rule == "bootstrap from the reset observation":
        return reset
    return np.where(truncated, 0.0, cut) if rule == "truncation is termination" else cut


def collect_all(script: tuple[Array, ...], gamma: float, lam: float, lengths: list[int]) -> list[Rollout]:
    env = ScriptedVecEnv(*script)
    collector = RolloutCollector(gamma=gamma, gae_lambda=lam, env=env)
    rollouts = []
    for length in lengths:
        rollout = collector.collect(KnownCritic(first_feature), length)
        rollouts.append(Rollout(**{f: _copy(getattr(rollout, f)) for f in Rollout.__slots__}))
    return rollouts


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


def definition(script: tuple[Array, ...], gamma: float, lam: float, rule: str = "right") -> Array:
    obs, _, rewards, terminated, truncated = script
    after = next_values(script, rule)
    return advantages_by_definition(rewards, obs[:-1, :, 0], after, terminated, truncated, gamma, lam)


@pytest.mark.parametrize(("gamma", "lam"), DISCOUNTS)
@pytest.mark.parametrize("n_steps", [1, 2, 7, 32, 64])
def test_collected_advantages_equal_the_definition_on_256_masks_a_rollout(
    n_steps: int, gamma: float, lam: float
) -> None:
    script = random_script(np.random.default_rng(n_steps), n_steps, N_ENVS)
    (rollout,) = collect_all(script, gamma, lam, [n_steps])
    expected = definition(script, gamma, lam)
    largest = np.abs(expected).max()
    assert np.abs(grid(rollout.advantages) - expected).max() <= 1e-6 * largest
    values = script[0][:-1, :, 0]
    assert np.abs(grid(rollout.returns) - (expected + values)).max() <= 2e-6 * largest
    assert np.array_equal(grid(rollout.terminated), script[3])
    assert np.array_equal(grid(rollout.truncated), script[4])


@pytest.mark.parametrize("rule", ["bootstrap from the reset observation", "truncation is termination"])
def test_wrong_truncation_rules_give_clearly_different_advantages(rule: str) -> None:
    script = random_script(np.random.default_rng(0), 32, N_ENVS)
    (rollout,) = collect_all(script, 0.99, 0.95, [32])
    wrong = definition(script, 0.99, 0.95, rule)
    assert np.abs(grid(rollout.advantages) - wrong).max() > 0.1 * np.abs(wrong).max()


def test_collected_advantages_bootstrap_at_truncation_and_cut_the_trace() -> None:
    rng = np.random.default_rng(1)
    obs, finals, rewards, terminated, truncated = random_script(rng, 3, N_ENVS)
    terminated[:], truncated[:], truncated[1] = False, False, True
    (rollout,) = collect_all((obs, finals, rewards, terminated, truncated), 0.9, 0.8, [3])
    bootstrapped = rewards[1] + 0.9 * finals[1, :, 0] - obs[1, :, 0]
    assert grid(rollout.advantages)[1] == pytest.approx(bootstrapped, abs=1e-5)


def test_termination_wins_where_an_episode_is_terminated_and_truncated_at_once() -> None:
    rng = np.random.default_rng(2)
    obs, finals, rewards, terminated, truncated = random_script(rng, 1, N_ENVS)
    terminated[:], truncated[:] = True, True
    (rollout,) = collect_all((obs, finals, rewards, terminated, truncated), 0.9, 0.8, [1])
    assert grid(rollout.advantages)[0] == pytest.approx(rewards[0] - obs[0, :, 0], abs=1e-5)


def test_episodes_go_on_across_rollouts_of_different_lengths() -> None:
    lengths = [5, 1, 9, 5]
    script = random_script(np.random.default_rng(3), sum(lengths), N_ENVS)
    start = 0
    for rollout, length in zip(collect_all(script, 0.97, 0.9, lengths), lengths, strict=True):
        part = tuple(a[start : start + length + (i == 0)] for i, a in enumerate(script))
        expected = definition(part, 0.97, 0.9)
        assert np.abs(grid(rollout.advantages) - expected).max() <= 1e-6 * np.abs(expected).max()
        assert np.array_equal(rollout.obs.numpy().reshape(length, N_ENVS, -1), part[0][:-1])
        start += length


def test_advantages_do_not_depend_on_the_order_of_the_environments() -> None:
    rng = np.random.default_rng(4)
    script = random_script(rng, 16, N_ENVS)
    order = rng.permutation(N_ENVS)
    (straight,) = collect_all(script, 0.99, 0.95, [16])
    (mixed,) = collect_all(tuple(a[:, order] for a in script), 0.99, 0.95, [16])
    assert np.array_equal(grid(straight.advantages)[:, order], grid(mixed.advantages))


def test_truncation_bootstraps_from_the_normalized_final_observation() -> None:
    """With normalised observations, the final observation is normalised before its value is computed."""
    rng = np.random.default_rng(5)
    obs, finals, rewards, terminated, truncated = random_script(rng, 1, N_ENVS)
    terminated[:], truncated[:] = False, True
    collector = RolloutCollector(
        gamma=1.0,
        config=EnvConfig(normalize_obs=True),
        env=ScriptedVecEnv(obs, finals, rewards, terminated, truncated),
    )
    rollout = collector.collect(KnownCritic(first_feature), 1)
    seen = np.concatenate([obs[0], obs[1]]).astype(np.float64)
    final = (finals[0] - seen.mean(0)) / seen.std(0)
    values = (obs[0] - obs[0].mean(0, np.float64)) / obs[0].std(0, dtype=np.float64)
    expected = rewards[0] + final[:, 0] - values[:, 0]
    assert grid(rollout.advantages)[0] == pytest.approx(expected, abs=1e-4)


def test_lambda_one_is_the_discounted_return_minus_the_value() -> None:
    script = random_script(np.random.default_rng(6), 20, N_ENVS)
    script[3][:], script[4][:] = False, False
    (rollout,) = collect_all(script, 0.9, 1.0, [20])
    total = script[0][20, :, 0].astype(np.float64)
    for t in reversed(range(20)):
        total = script[2][t] + 0.9 * total
        assert grid(rollout.returns)[t] == pytest.approx(total, abs=1e-4)


def test_advantages_with_lambda_zero_equal_the_one_step_td_error() -> None:
    script = random_script(np.random.default_rng(7), 20, N_ENVS)
    (rollout,) = collect_all(script, 0.9, 0.0, [20])
    obs, _, rewards, terminated, _ = script
    error = rewards + 0.9 * np.where(terminated, 0, next_values(script)) - obs[:-1, :, 0]
    assert grid(rollout.advantages) == pytest.approx(error, abs=1e-5)


def test_a_three_step_time_limit_contains_gamma_times_the_value() -> None:
    gamma, lam, c = 0.9, 0.8, 7.0
    collector = RolloutCollector(AlwaysTruncates, n_envs=2, gamma=gamma, gae_lambda=lam)
    rollout = collector.collect(KnownCritic(lambda obs: torch.full((len(obs),), c)), 6)
    delta = 1 + gamma * c - c
    episode = [delta * (1 + gamma * lam + (gamma * lam) ** 2), delta * (1 + gamma * lam), delta]
    assert rollout.advantages.reshape(6, 2)[:, 0].tolist() == pytest.approx(episode * 2, rel=1e-6)
    assert rollout.truncated.reshape(6, 2)[:, 0].tolist() == [False, False, True] * 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_time_major_and_batched_gae_kernels_equal_the_definition(
    dtype: type[np.floating[Any]],
) -> None:
    tolerance = 1e-6 if dtype is np.float32 else 1e-12
    for seed in range(4):
        script = random_script(np.random.default_rng(seed), 40, N_ENVS)
        obs, _, rewards, terminated, truncated = script
        values, after = obs[:-1, :, 0].astype(dtype), next_values(script).astype(dtype)
        paid = rewards.astype(dtype)
        expected = definition(script, 0.99, 0.95)
        got, _ = compute_gae_time_major(paid, values, after, terminated, truncated, 0.99, 0.95)
        assert got.dtype == dtype
        assert np.abs(got - expected).max() <= tolerance * np.abs(expected).max()
        flat = [np.ascontiguousarray(a.T).ravel() for a in (paid, values, terminated, truncated, after)]
        batched, _ = compute_gae_batched(
            flat[0], flat[1], n_steps=40, gamma=0.99, lam=0.95,
            terminated=flat[2], truncated=flat[3], next_values=flat[4],
        )  # fmt: skip
        # Layouts round in different places.
        close = tolerance * np.abs(expected).max()
        assert np.abs(np.asarray(batched).reshape(N_ENVS, 40).T - got).max() <= close
        single, _ = compute_gae(
            paid[:, 0], values[:, 0], gamma=0.99, lam=0.95,
            terminated=terminated[:, 0], truncated=truncated[:, 0], next_values=after[:, 0],
        )  # fmt: skip
        assert np.abs(single - got[:, 0]).max() <= close
