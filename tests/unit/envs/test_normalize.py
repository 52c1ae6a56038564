"""Tests running normalisation: moments of all data, scaling without units or as in Stable-Baselines3."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from helpers.envs import OddRewards, ScriptedVecEnv, random_script
from helpers.policies import KnownCritic
from numpy.typing import NDArray

from rlox.algorithms import PPO
from rlox.collectors import RolloutCollector
from rlox.configs import EnvConfig
from rlox.envs.normalize import (
    RELATIVE,
    SB3,
    ObservationNormalizer,
    RewardNormalizer,
    RunningMoments,
)

BOTH = EnvConfig(normalize_obs=True, normalize_reward=True)


def zero_value(obs: torch.Tensor) -> torch.Tensor:
    return torch.zeros(len(obs))


def test_merged_moments_equal_the_moments_of_all_data() -> None:
    rng = np.random.default_rng(0)
    data = rng.normal(50.0, [0.1, 3.0, 100.0], (3000, 3))
    moments, prior_less = RunningMoments((3,), SB3), RunningMoments((3,), RELATIVE)
    for part in np.split(data, np.sort(rng.choice(np.arange(1, 3000), 99, replace=False))):
        moments.update(part)
        prior_less.update(part)
    assert prior_less.count == 3000
    assert prior_less.mean == pytest.approx(data.mean(0), rel=1e-12)
    assert prior_less.var == pytest.approx(data.var(0), rel=1e-9)
    # the prior of Stable-Baselines3 has mean 0, variance 1 and the weight of 1e-4 rows
    weight = 3000 / (3000 + 1e-4)
    assert moments.count == pytest.approx(3000 + 1e-4)
    assert moments.mean == pytest.approx(data.mean(0) * weight, rel=1e-12)
    prior = (1 - weight) * (1 + weight * data.mean(0) ** 2)
    assert moments.var == pytest.approx(data.var(0) * weight + prior, rel=1e-9)


@pytest.mark.parametrize("shape", [(1,), (3,), (8,), (1, 1), (8, 4), (64, 17), (300, 5)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rule", [RELATIVE, SB3])
def test_a_merge_uses_numpys_mean_and_variance_bit_for_bit(
    shape: tuple[int, ...], dtype: type, rule: str
) -> None:
    rng = np.random.default_rng(sum(shape))
    ours, theirs = RunningMoments(shape[1:], rule), RunningMoments(shape[1:], rule)
    for _ in range(20):
        batch = rng.normal(30.0, 5.0, shape).astype(dtype)
        ours.update(batch)
        n, mean, var = shape[0], batch.mean(0, np.float64), batch.var(0, np.float64)
        delta, total = mean - theirs.mean, theirs.count + n
        spread = np.square(delta) * theirs.count * n / total
        theirs.var = (theirs.var * theirs.count + var * n + spread) / total
        theirs.mean, theirs.count = theirs.mean + delta * n / total, total
        assert np.array_equal(ours.mean, theirs.mean)
        assert np.array_equal(ours.var, theirs.var)


def test_collected_moments_are_numpys_over_every_observation_seen() -> None:
    script = random_script(np.random.default_rng(1), 50, 32)
    collector = RolloutCollector(config=BOTH, env=ScriptedVecEnv(*script))
    for length in (20, 30):
        collector.collect(KnownCritic(zero_value), length)
    assert collector.obs_normalizer is not None
    seen = script[0].astype(np.float64).reshape(-1, 2)
    moments = collector.obs_normalizer.moments
    assert moments.mean == pytest.approx(seen.mean(0), rel=1e-5, abs=1e-6)
    assert moments.var == pytest.approx(seen.var(0), rel=1e-5)


def test_observations_are_clipped_at_ten_deviations() -> None:
    normalizer = ObservationNormalizer(1)
    normalizer.update(np.array([[-1.0], [1.0]] * 500, np.float32))
    rows = np.array([[1e6], [-1e6], [0.5]], np.float32)
    normalizer.apply(rows)
    assert rows[:2, 0].tolist() == [10.0, -10.0]
    assert float(rows[2, 0]) == pytest.approx(0.5, abs=1e-4)


def standardised(rows: NDArray[np.float32], rule: str) -> NDArray[np.float32]:
    """Returns `rows` as a policy sees them that receives eight at a time."""
    normalizer, seen = ObservationNormalizer(rows.shape[1], rule), rows.copy()
    for part in np.split(seen, len(seen) // 8):
        normalizer.update(part)
        normalizer.apply(part)
    return seen


@pytest.mark.parametrize("exponent", [-60, -40, -20, 20, 60])
def test_observations_in_another_unit_are_standardised_to_the_same_bits(exponent: int) -> None:
    rows = np.random.default_rng(2).normal([0.0, 5.0, -300.0], 1.0, (64, 3)).astype(np.float32)
    unit = np.float32(2.0**exponent)
    assert np.array_equal(standardised(rows * unit, RELATIVE), standardised(rows, RELATIVE))


@pytest.mark.parametrize(
    ("offset", "unit"),
    [
        pytest.param(48.137, 5e-4, id="latitude"),
        pytest.param(0.0, 1e-6, id="microamperes"),
        pytest.param(0.0, 1e-12, id="picoamperes"),
        pytest.param(1e6, 1.0, id="far-from-0"),
    ],
)
def test_a_number_with_a_small_deviation_is_divided_by_that_deviation(offset: float, unit: float) -> None:
    bits = np.random.default_rng(3).integers(0, 2, (8000, 1))
    rows = (offset + unit * bits).astype(np.float32)
    last, plain = standardised(rows, RELATIVE)[-8:], standardised(bits.astype(np.float32), RELATIVE)
    assert last == pytest.approx(plain[-8:], abs=0.02)
    with_prior = standardised(rows, SB3)[-8:]
    assert np.ptp(with_prior) < 0.4, "Stable-Baselines3's prior hides it"


@pytest.mark.parametrize("constant", [0.0, 0.1, -48.137, 1e-12, 3e7])
def test_constants_are_centred_and_not_divided_until_two_rows_differ(constant: float) -> None:
    normalizer = ObservationNormalizer(1, RELATIVE)
    row = np.full((1, 1), constant, np.float32)
    for n in (1, 3, 7, 1000):
        normalizer.update(row.repeat(n, 0))
        seen = row.copy()
        normalizer.apply(seen)
        assert seen == pytest.approx(0.0, abs=1e-6 * abs(constant))
        assert normalizer.moments.std == 1.0
    normalizer.update(row + np.float32(1.0 + abs(constant)))
    assert normalizer.moments.std == np.sqrt(normalizer.moments.var) != 1.0


def test_rounding_in_the_last_digit_of_float32_counts_as_constant() -> None:
    rows = np.float32(0.5) + np.float32(2**-24) * np.arange(2, dtype=np.float32)[:, None]
    assert len(np.unique(rows)) == 2
    assert np.abs(standardised(rows.repeat(8, 0), RELATIVE)).max() < 1e-6


@pytest.mark.parametrize("unit", [2.0**-30, 2.0**30])
def test_rewards_in_another_unit_are_scaled_to_the_same_bits(unit: float) -> None:
    rng = np.random.default_rng(4)
    plain, other = (RewardNormalizer(2, gamma=0.9, rule=RELATIVE) for _ in range(2))
    for rewards in rng.normal(1.0, 2.0, (200, 2)):
        ended = rng.random(2) < 0.1
        scaled = plain.scale(rewards, ended)
        assert np.array_equal(other.scale(rewards * unit, ended), scaled)
        drawn = rewards.astype(np.float32), (rewards * unit).astype(np.float32)
        for normalizer, rows in zip((plain, other), drawn, strict=True):
            normalizer.apply(rows)
        assert np.array_equal(*drawn)


def test_a_restored_normalizer_uses_the_rule_of_its_state_or_sb3_for_old_states() -> None:
    rows = np.random.default_rng(5).normal(3.0, 1e-5, (40, 1)).astype(np.float32)
    for rule in (RELATIVE, SB3):
        first = ObservationNormalizer(1, rule)
        first.update(rows)
        other = ObservationNormalizer(1, SB3 if rule == RELATIVE else RELATIVE)
        other.restore(first.state())
        assert ("rule" in first.state()) == (rule == RELATIVE)
        seen, again = rows.copy(), rows.copy()
        first.apply(seen)
        other.apply(again)
        assert np.array_equal(seen, again)
        assert (np.std(seen) > 0.9) == (rule == RELATIVE)


def test_the_state_of_a_normalizer_records_that_it_does_not_clip() -> None:
    begun, again = ObservationNormalizer(1), ObservationNormalizer(1)
    assert "clips" not in begun.state()
    begun.restore({"count": 5, "mean": [0.0], "var": [1.0], "clips": False})
    again.restore(begun.state())
    rows = np.array([[40.0]], np.float32)
    again.apply(rows)
    assert float(rows[0, 0]) == pytest.approx(40.0)


def test_scaled_rewards_keep_their_sign_and_subtract_no_mean() -> None:
    normalizer = RewardNormalizer(1, gamma=0.0)
    scaled = [normalizer.scale(np.array([r]), np.array([False]))[0] for r in (5.0, 5.0, 6.0)]
    assert all(s > 0 for s in scaled)


def test_an_ended_episode_restarts_the_discounted_return_of_its_environment_only() -> None:
    normalizer = RewardNormalizer(2, gamma=0.5)
    normalizer.scale(np.array([1.0, 1.0]), np.array([True, False]))
    normalizer.scale(np.array([1.0, 1.0]), np.array([False, False]))
    assert normalizer.returns.tolist() == [1.0, 1.5]


class Tape(gym.Env[Any, Any]):
    """Plays one environment's column of a script."""

    def __init__(self, script: tuple[NDArray[Any], ...], column: int) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.script = tuple(part[:, column] for part in script)
        self.t = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.script[0][self.t], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, finals, rewards, terminated, truncated = self.script
        t, self.t = self.t, self.t + 1
        ended = bool(terminated[t] or truncated[t])
        seen = finals[t] if ended else obs[t + 1]
        return seen, float(rewards[t]), bool(terminated[t]), bool(truncated[t]), {}


def test_scaled_rewards_are_clipped_at_10_and_n_step_sums_at_a_discounted_bound() -> None:
    normalizer = RewardNormalizer(2, gamma=0.5)
    for _ in range(500):
        normalizer.scale(np.array([1.0, -1.0]), np.ones(2, np.bool_))
    assert normalizer.moments.var == pytest.approx(1.0, rel=1e-3)
    lasts = np.array([False, False])
    scaled = normalizer.scale(np.array([60.0, -60.0]), lasts)
    assert scaled.tolist() == [10.0, -10.0]
    for n_step, most in ((1, 10.0), (3, 17.5)):
        drawn = RewardNormalizer(2, gamma=0.5, n_step=n_step)
        drawn.restore(
            {
                "moments": {**normalizer.moments.state(), "var": np.array(1.0)},
                "returns": np.zeros(2),
            }
        )
        rewards = np.array([[12.0, -40.0], [40.0, 2.0]], np.float32)
        drawn.apply(rewards)
        wanted = np.clip([[12.0, -40.0], [40.0, 2.0]], -most, most)
        np.testing.assert_allclose(rewards, wanted, rtol=1e-6)


def test_normalizers_of_the_rule_sb3_equal_stable_baselines3() -> None:
    peer = pytest.importorskip(
        "stable_baselines3.common.vec_env", reason="stable-baselines3 is an optional peer"
    )
    steps, n_envs, gamma = 120, 3, 0.97
    script = random_script(np.random.default_rng(2), steps, n_envs)
    script[0][:] = script[0] * [1.0, 30.0] + [5.0, 0.0]
    script[2][::17] *= 500.0  # large enough to be clipped
    theirs = peer.VecNormalize(
        peer.DummyVecEnv([lambda i=i: Tape(script, i) for i in range(n_envs)]), gamma=gamma
    )
    valued: list[torch.Tensor] = []

    def value(obs: torch.Tensor) -> torch.Tensor:
        valued.append(obs.clone())
        return torch.zeros(len(obs))

    config = replace(BOTH, normalize_rule=SB3)
    collector = RolloutCollector(gamma=gamma, config=config, env=ScriptedVecEnv(*script))
    obs, ends = theirs.reset(), 0
    for t in range(steps):
        rollout = collector.collect(KnownCritic(value), 1)
        assert rollout.obs.numpy() == pytest.approx(obs, abs=1e-6, rel=1e-6)
        obs, rewards, _, infos = theirs.step(np.zeros(n_envs, np.int64))
        assert rollout.rewards.numpy() == pytest.approx(rewards, abs=1e-6, rel=1e-6)
        cut = [i for i in range(n_envs) if script[4][t, i] and not script[3][t, i]]
        if cut:
            finals = np.stack([infos[i]["terminal_observation"] for i in cut])
            assert valued[-1].numpy() == pytest.approx(finals, abs=1e-6, rel=1e-6)
            ends += 1
    assert ends > 5


def test_evaluation_and_prediction_do_not_change_the_moments() -> None:
    algorithm = PPO(OddRewards, n_envs=2, n_steps=16, normalize_obs=True, normalize_reward=True, n_epochs=1)
    algorithm.train(64)
    before = algorithm.collector.state()
    algorithm.evaluate(5)
    algorithm.predict(np.array([3.0, 4.0]))
    after = algorithm.collector.state()
    for name in ("obs_normalizer", "reward_normalizer"):
        assert str(before[name]) == str(after[name])


def test_prediction_standardises_as_training_does_without_touching_its_argument() -> None:
    algorithm = PPO("Pendulum-v1", n_envs=2, n_steps=64, normalize_obs=True, n_epochs=1)
    algorithm.train(128)
    obs = np.array([0.3, 0.9, 4.0], np.float32)
    batch = np.stack([obs, -obs])
    kept = obs.copy(), batch.copy()
    one, several = algorithm.predict(obs), algorithm.predict(batch)
    assert np.array_equal(obs, kept[0])
    assert np.array_equal(batch, kept[1])
    moments = algorithm.collector.obs_normalizer.moments  # type: ignore[union-attr]
    seen = np.clip((obs - moments.mean) / np.sqrt(moments.var), -10, 10)
    with torch.no_grad():
        mean = algorithm.policy.mode(torch.tensor(seen, dtype=torch.float32)[None])
    assert one == pytest.approx(mean[0].numpy(), abs=1e-6)
    assert several[0] == pytest.approx(one, abs=1e-6)
