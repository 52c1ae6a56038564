"""Tests how offline algorithms prepare observations, actions and rewards, and what they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlox import OfflineDatasetBuffer
from rlox.algorithms import ALGORITHMS, BC, CQL, IQL, TD3BC
from rlox.envs.actions import ActionCodec
from rlox.errors import CheckpointError, ConfigError, ShapeError, UnsupportedSpaceError
from rlox.runs.checkpoint import write_checkpoint
from rlox.sources.preparation import reward_factor
from rlox.types import Clock

DATA = Path(__file__).parents[2] / "golden" / "datasets"
CARTPOLE, PENDULUM = str(DATA / "CartPole-v1"), str(DATA / "Pendulum-v1")
SIZES: dict[str, Any] = {"obs_dim": 3, "act_dim": 2, "hidden": 4, "batch_size": 32}
OFFLINE = [TD3BC, IQL, CQL]


def columns(n: int = 60) -> dict[str, Any]:
    """Return two episodes with returns 20 and 40, the second truncated, and an incomplete one."""
    rng = np.random.default_rng(0)
    ends = np.isin(np.arange(n), (19, 39))
    return {
        "obs": rng.normal([100, 0, 5], [10, 0.1, 0], (n, 3)).astype(np.float32),
        "next_obs": rng.normal([100, 0, 5], [10, 0.1, 0], (n, 3)).astype(np.float32),
        "actions": rng.uniform(-3, 3, (n, 2)).astype(np.float32),
        "rewards": np.repeat([1.0, 2.0, 0.0], n // 3).astype(np.float32),
        "terminated": ends & (np.arange(n) == 19),
        "truncated": ends & (np.arange(n) == 39),
    }


def batch_of(algorithm: Any) -> tuple[Any, Any]:
    batch, _ = algorithm.source.next(Clock(unit="updates"))
    return batch, batch.indices.astype(int)


def test_td3_bc_standardises_observations_with_epsilon_1e_3_in_training_and_play(
    tmp_path: Path,
) -> None:
    given = columns()
    algorithm = TD3BC(OfflineDatasetBuffer(**given), act_high=3.0, **SIZES)
    batch, rows = batch_of(algorithm)
    mean, std = given["obs"].mean(0), given["obs"].astype(np.float64).std(0)
    for name, column in (("obs", batch.obs), ("next_obs", batch.next_obs)):
        expected = (given[name][rows] - mean) / (std + 1e-3)
        np.testing.assert_allclose(column.numpy(), expected, rtol=1e-4, atol=1e-4)
    algorithm.train(16)
    seen = (given["obs"] - mean) / (std + 1e-3)
    algorithm.save(tmp_path / "saved")
    alone = TD3BC.from_checkpoint(tmp_path / "saved", replay=False)
    for one in (algorithm, alone):
        acted = one.policy.mode(one.components.actor.policy_input(given["obs"]))
        np.testing.assert_allclose(one.components.actor.normalize(given["obs"]), seen, atol=1e-4)
        np.testing.assert_allclose(one.predict(given["obs"]), 3.0 * acted.detach(), atol=1e-5)


def test_only_td3_bc_standardises_observations_by_default() -> None:
    data = OfflineDatasetBuffer(**columns())
    for kind in (BC, *OFFLINE):
        algorithm = kind(data, **SIZES, **({} if kind is BC else {"act_high": 3.0}))
        assert (algorithm.components.actor.normalizer.moments is not None) is (kind is TD3BC)
    batch, rows = batch_of(BC(data, **SIZES, standardize_obs=True))
    own = columns()["obs"][rows]
    assert abs(float(batch.obs.mean())) < 0.5 < abs(float(own.mean()))


def test_a_dataset_that_standardises_by_itself_is_not_standardised_again() -> None:
    data = OfflineDatasetBuffer(**columns(), normalize=True)
    batch, rows = batch_of(TD3BC(data, act_high=3.0, **SIZES))
    np.testing.assert_array_equal(batch.obs, data.normalize(columns()["obs"])[rows])


@pytest.mark.parametrize("kind", OFFLINE)
def test_actions_are_learned_in_units_of_their_bounds(kind: Any) -> None:
    given = columns()
    batch, rows = batch_of(kind(OfflineDatasetBuffer(**given), act_high=3.0, **SIZES))
    np.testing.assert_allclose(batch.actions, given["actions"][rows] / 3.0, rtol=1e-5, atol=1e-6)


def test_the_unit_codec_scales_each_number_by_its_own_bounds() -> None:
    import gymnasium as gym

    low, high = np.array([-2.0, 0.0, 1.0]), np.array([2.0, 10.0, 1.0])
    box = gym.spaces.Box(low, high, dtype=np.float64)
    codec = ActionCodec.of(box).unit_codec("a test", "td3_bc")
    rows = np.array([[-2.0, 2.5, 1.0], [1.0, 10.0, 1.0]])
    found = codec.to_unit(rows)
    np.testing.assert_allclose(found, [[-1.0, -0.5, 0.0], [0.5, 1.0, 0.0]])
    np.testing.assert_allclose(codec.to_bounds(found), rows)


@pytest.mark.parametrize("kind", OFFLINE)
def test_actions_beyond_their_bounds_are_refused_by_number(kind: Any) -> None:
    given = columns()
    given["actions"][7, 1] = 3.5
    with pytest.raises(
        ShapeError,
        match=r"has 3\.5 as number 1 of action 7, expected a number from -3 to 3; set act_high",
    ):
        kind(OfflineDatasetBuffer(**given), act_high=3.0, **SIZES)
    given["actions"][7, 1] = 3.0 * (1 + 1e-7)  # beyond the bound by rounding only
    kind(OfflineDatasetBuffer(**given), act_high=3.0, **SIZES)


def test_an_environment_says_itself_what_bounds_its_actions() -> None:
    with pytest.raises(ConfigError, match=r"act_high=3: .* actions have other bounds.* -2 to 2;"):
        TD3BC(PENDULUM, env_id="Pendulum-v1", act_high=3.0)
    for agreeing in (None, 2.0):
        batch, _ = batch_of(TD3BC(PENDULUM, env_id="Pendulum-v1", act_high=agreeing))
        assert 0.5 < float(batch.actions.abs().max()) <= 1.0  # torques go up to 2


@pytest.mark.parametrize("kind", OFFLINE)
def test_a_policy_refuses_an_environment_with_other_action_bounds(kind: Any, tmp_path: Path) -> None:
    given = columns()
    data = OfflineDatasetBuffer(**{**given, "actions": given["actions"][:, :1] / 3})
    plain: dict[str, Any] = {"hidden": 4, "standardize_obs": False}
    sizes = {**SIZES, "act_dim": 1, **plain}
    for high, folder in ((None, tmp_path / "1"), (2.0, tmp_path / "2")):
        kind(data, act_high=high, **sizes).save(folder)
    alone, right = kind.from_checkpoint(tmp_path / "2", replay=False), {"env_id": "Pendulum-v1"}
    played = kind.from_checkpoint(tmp_path / "2", replay=False, **right)
    assert played.predict(given["obs"][0]) == alone.predict(given["obs"][0])
    with pytest.raises(CheckpointError, match=r"learned actions from -1 to 1, .* are from -2 to 2"):
        kind.from_checkpoint(tmp_path / "1", replay=False, **right)
    with pytest.raises(ConfigError, match=r"init_from=.*learned actions from -1 to 1, .* -2 to 2"):
        kind(PENDULUM, init_from=tmp_path / "1", **plain, **right)
    kind(PENDULUM, init_from=tmp_path / "2", **plain, **right)


def test_a_checkpoint_without_action_bounds_still_loads(tmp_path: Path) -> None:
    algorithm = IQL(OfflineDatasetBuffer(**columns()), act_high=3.0, **SIZES)
    saved = algorithm.checkpoint()
    for name in ("act_low", "act_high"):
        del saved.state["source"][name]
    algorithm.restore(saved)
    write_checkpoint(tmp_path / "saved", saved)
    IQL(OfflineDatasetBuffer(**columns()), act_high=4.0, init_from=tmp_path / "saved", **SIZES)


def test_scale_rewards_applies_a_number_or_the_range_of_returns() -> None:
    given = columns()
    data = OfflineDatasetBuffer(**given)
    for scale, factor in (("0.1", 0.1), (0.1, 0.1), ("returns", 1000.0 / 20.0)):
        batch, rows = batch_of(IQL(data, act_high=3.0, scale_rewards=scale, **SIZES))
        np.testing.assert_allclose(batch.rewards, factor * given["rewards"][rows], rtol=1e-6)


def test_returns_that_are_all_alike_cannot_scale() -> None:
    given = columns()
    for rewards in (np.zeros(60, np.float32), np.ones(60, np.float32)):
        with pytest.raises(ConfigError, match=r"2 complete episodes without two different returns"):
            reward_factor({**given, "rewards": rewards})
    ends = np.arange(20_000) % 20 == 19
    alike = np.where(ends, 100.0, 1e-5).astype(np.float32)  # a running sum over a long file rounds
    with pytest.raises(ConfigError, match=r"1000 complete episodes without two different returns"):
        reward_factor({"rewards": alike, "terminated": ends, "truncated": np.zeros_like(ends)})
    no = np.zeros(60, bool)
    with pytest.raises(ConfigError, match=r"0 complete episodes"):
        reward_factor({**given, "terminated": no, "truncated": no})


@pytest.mark.parametrize("wrong", ["often", "-1", "0", "nan", "inf"])
def test_a_scale_that_is_no_positive_number_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match=rf"algo\.scale_rewards={wrong}: expected returns or a p"):
        IQL(OfflineDatasetBuffer(**columns()), scale_rewards=wrong, **SIZES)


def test_td3_bc_refuses_to_standardise_whole_number_observations() -> None:
    given = columns()
    given["obs"] = given["next_obs"] = np.arange(180).reshape(60, 3)
    with pytest.raises(ConfigError, match=r"observations are whole numbers.*standardize_obs=false"):
        TD3BC(OfflineDatasetBuffer(**given), act_high=3.0, **SIZES)
    TD3BC(OfflineDatasetBuffer(**given), act_high=3.0, standardize_obs=False, **SIZES)


@pytest.mark.parametrize("name", ["td3_bc", "iql"])
def test_td3_bc_and_iql_refuse_discrete_actions_by_name(name: str) -> None:
    kind: Any = ALGORITHMS[name]
    with pytest.raises(
        UnsupportedSpaceError,
        match=rf"{name} needs Box actions, CartPole-v1 .*; use algo=bc, cql or dec",
    ):
        kind(CARTPOLE, env_id="CartPole-v1")
    with pytest.raises(UnsupportedSpaceError, match=f"{name} needs Box actions"):
        kind(CARTPOLE, obs_dim=4, act_dim=2, continuous=False)


def test_settings_of_environments_name_what_is_meant_of_a_dataset() -> None:
    remedy = r"env\.normalize_obs=true.*for the dataset set algo\.standardize_obs"
    with pytest.raises(ConfigError, match=remedy):
        TD3BC(PENDULUM, env_id="Pendulum-v1", env_backend="auto", normalize_obs=True)
