"""Tests that a policy of a dataset learns on with `init_from`: in an environment, or from another dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from rlox import OfflineDatasetBuffer
from rlox.algorithms import BC, CQL, IQL, SAC, TD3, TD3BC
from rlox.errors import ConfigError

SMALL: dict[str, Any] = {"net_arch": (8,), "batch_size": 8}
ONLINE: dict[str, Any] = {**SMALL, "learning_starts": 20, "buffer_size": 1000, "backend": "torch"}


def trained(kind: Any, folder: Path, **options: Any) -> Any:
    """Trains on 200 steps of Pendulum, whose observations are far from standardised, and saves."""
    rng = np.random.default_rng(3)
    obs = rng.normal([0.3, -0.2, 4.0], [0.5, 0.1, 3.0], (201, 3)).astype(np.float32)
    no = np.zeros(200, bool)
    data = OfflineDatasetBuffer(
        obs[:-1], obs[1:], rng.uniform(-2, 2, (200, 1)).astype("f4"), rng.normal(size=200), no, no
    )
    algorithm = kind(data, env_id="Pendulum-v1", **SMALL, **options)
    algorithm.train(10)
    algorithm.save(folder)
    return algorithm


@pytest.mark.parametrize(("offline", "online"), [(TD3BC, TD3), (CQL, SAC)])
@pytest.mark.parametrize("standardize_obs", [True, False])
def test_an_online_run_takes_over_the_policy_and_critics_of_an_offline_run(
    offline: Any, online: Any, standardize_obs: bool, tmp_path: Path
) -> None:
    before = trained(offline, tmp_path / "a", standardize_obs=standardize_obs)
    after = online("Pendulum-v1", init_from=tmp_path / "a", normalize_obs=standardize_obs, **ONLINE)
    seen = np.array([[0.5, -0.4, 3.0], [-1.0, 0.0, -8.0]], np.float32)
    np.testing.assert_allclose(after.predict(seen), before.predict(seen), atol=1e-5)
    pairs = zip(before.policy.named_parameters(), after.policy.parameters(), strict=True)
    assert all(torch.equal(one, other) for (_, one), other in pairs)
    far = np.array([[0.0, 0.0, 60.0]], np.float32)  # about 17 standard deviations from the mean
    np.testing.assert_allclose(after.predict(far), before.predict(far), atol=1e-5)
    after.save(tmp_path / "b")
    again = online.from_checkpoint(tmp_path / "b")
    np.testing.assert_array_equal(again.predict(far), after.predict(far))
    if standardize_obs:
        moments = after.components.actor.normalizer.moments
        assert moments.count == 80  # the rows that the learner drew
        np.testing.assert_allclose(moments.mean, before.source.load().stats()["obs_mean"])
    after.train(40)
    assert after.clock.updates > 0


class NoReward(gym.RewardWrapper[Any, Any]):
    def reward(self, reward: Any) -> float:
        return 0.0


WRONG: dict[str, tuple[Any, dict[str, Any], Any, dict[str, Any], str]] = {
    "observations as they are": (
        TD3BC, {"standardize_obs": True}, TD3, {}, "set env.normalize_obs=true",
    ),
    "standardised ones": (
        CQL, {"standardize_obs": False}, SAC, {"normalize_obs": True}, "set env.normalize_obs=false",
    ),
    "other rewards": (
        CQL, {"standardize_obs": False, "scale_rewards": "0.5"}, SAC, {}, "set env.reward_scale=0.5",
    ),
    "rewards by returns": (
        TD3BC, {"standardize_obs": False, "scale_rewards": "returns"}, TD3, {},
        "train the loaded run with a number as algo.scale_rewards",
    ),
    "clipped rewards": (
        TD3BC, {"standardize_obs": False}, TD3, {"reward_clip": 1.0}, "env.reward_clip=1.0; leave it out",
    ),
    "normalised rewards": (
        CQL, {"standardize_obs": False}, SAC, {"normalize_reward": True}, "env.normalize_reward=true; l",
    ),
    "wrapped rewards": (
        TD3BC, {"standardize_obs": False}, TD3, {"reward_wrappers": (NoReward,)},
        "env.reward_wrappers=.*NoReward.*; leave it out",
    ),
    "another policy": (IQL, {"standardize_obs": False}, SAC, {}, "init_from loads a whole policy"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_online_training_refuses_an_offline_start_with_other_preprocessing(
    wrong: str, tmp_path: Path
) -> None:
    kind, options, online, more, said = WRONG[wrong]
    rng = np.random.default_rng(0)
    obs, ends = rng.normal(size=(9, 3)).astype("f4"), np.arange(8) % 4 == 3
    data = OfflineDatasetBuffer(
        obs[:-1], obs[1:], np.ones((8, 1), "f4"), rng.normal(size=8), np.zeros(8, bool), ends
    )
    algorithm = kind(data, env_id="Pendulum-v1", **SMALL, **options)
    algorithm.train(1)
    algorithm.save(tmp_path / "a")
    with pytest.raises(ConfigError, match=said):
        online("Pendulum-v1", init_from=tmp_path / "a", **ONLINE, **more)


def test_td3_continues_from_td3_bc_with_the_same_reward_scale(tmp_path: Path) -> None:
    trained(TD3BC, tmp_path / "a", standardize_obs=False, scale_rewards="0.1")
    online = TD3("Pendulum-v1", init_from=tmp_path / "a", reward_scale=0.1, **ONLINE)
    online.train(40)
    assert online.clock.updates > 0


def dataset(seed: int = 0, **options: Any) -> OfflineDatasetBuffer:
    """Makes two whole episodes of Pendulum's sizes; `seed` determines their returns and moments."""
    rng = np.random.default_rng(seed)
    obs, ends = rng.normal(seed, 1.0, (9, 3)).astype("f4"), np.arange(8) % 4 == 3
    actions = rng.uniform(-2, 2, (8, 1)).astype("f4")
    rewards, no = rng.normal(size=8), np.zeros(8, bool)
    return OfflineDatasetBuffer(obs[:-1], obs[1:], actions, rewards, no, ends, **options)


def begun(kind: Any, data: Any, **options: Any) -> Any:
    return kind(data, env_id="Pendulum-v1", **SMALL, **options)


SEEN = np.array([[0.5, -0.4, 3.0], [-1.0, 0.0, -8.0]], np.float32)


@pytest.mark.parametrize("kind", [TD3BC, IQL])
def test_init_from_keeps_the_policys_moments_on_another_dataset(kind: Any, tmp_path: Path) -> None:
    before = begun(kind, dataset(), standardize_obs=True)
    before.save(tmp_path / "a")
    after = begun(kind, dataset(5), standardize_obs=True, init_from=tmp_path / "a")
    np.testing.assert_array_equal(after.predict(SEEN), before.predict(SEEN))
    batch, _ = after.source.next(after.clock)
    rows = after.source.last_batch()["obs"][: len(batch)]
    np.testing.assert_array_equal(batch.obs[0], before.components.actor.normalize(rows[0]))


def test_a_resumed_run_keeps_the_moments_from_init_from_bit_for_bit(tmp_path: Path) -> None:
    begun(TD3BC, dataset()).save(tmp_path / "a")
    whole = begun(TD3BC, dataset(5), init_from=tmp_path / "a")
    half = begun(TD3BC, dataset(5), init_from=tmp_path / "a")
    half.train(8)
    half.save(tmp_path / "half")
    whole.train(32)
    for replay in (True, False):
        given = {"replay": replay, "dataset": dataset(5)}
        again = TD3BC.from_checkpoint(tmp_path / "half", **given)
        again.train(32)
        np.testing.assert_array_equal(again.predict(SEEN), whole.predict(SEEN))


APART: dict[str, tuple[Any, dict[str, Any], Any, dict[str, Any], str]] = {
    "as they are, then standardised": (
        TD3BC, {"standardize_obs": False}, TD3BC, {}, "set algo.standardize_obs=false",
    ),
    "standardised, then as they are": (
        IQL, {"standardize_obs": True}, IQL, {}, "set algo.standardize_obs=true",
    ),
    "rewards by returns, then as they are": (
        IQL, {"scale_rewards": "returns"}, IQL, {}, "set algo.scale_rewards=returns",
    ),
    "scaled rewards, then as they are": (
        CQL, {"scale_rewards": "0.5"}, CQL, {}, "rewards times 0.5; set algo.scale_rewards=0.5",
    ),
    "by the returns of another dataset": (
        IQL, {"scale_rewards": "returns"}, IQL, {"scale_rewards": "returns", "seed": 5},
        "other rewards for this dataset",
    ),
}  # fmt: skip


@pytest.mark.parametrize("apart", APART)
def test_offline_training_refuses_a_start_with_other_dataset_scaling(apart: str, tmp_path: Path) -> None:
    kind, options, here, more, said = APART[apart]
    begun(kind, dataset(), **options).save(tmp_path / "a")
    with pytest.raises(ConfigError, match=said):
        begun(here, dataset(more.get("seed", 0)), init_from=tmp_path / "a", **more)
    begun(here, dataset(), init_from=tmp_path / "a", **options)


def test_a_normalized_dataset_must_have_the_moments_of_the_initial_policy(
    tmp_path: Path,
) -> None:
    begun(BC, dataset(normalize=True)).save(tmp_path / "a")
    begun(BC, dataset(normalize=True), init_from=tmp_path / "a")
    with pytest.raises(ConfigError, match="other moments than this dataset has"):
        begun(BC, dataset(5, normalize=True), init_from=tmp_path / "a")
    with pytest.raises(ConfigError, match=r"set algo\.standardize_obs=true"):
        begun(BC, dataset(), init_from=tmp_path / "a")


def test_offline_training_refuses_running_moments_and_other_reward_settings(tmp_path: Path) -> None:
    TD3("Pendulum-v1", normalize_obs=True, **ONLINE).save(tmp_path / "a")
    with pytest.raises(ConfigError, match=r"train the loaded run with env\.normalize_obs=false"):
        begun(TD3BC, dataset(), init_from=tmp_path / "a")
    TD3("Pendulum-v1", reward_scale=0.5, **ONLINE).save(tmp_path / "b")
    plain = {"init_from": tmp_path / "b", "standardize_obs": False}
    with pytest.raises(ConfigError, match=r"set algo\.scale_rewards=0\.5"):
        begun(TD3BC, dataset(), **plain)
    begun(TD3BC, dataset(), scale_rewards="0.5", **plain)
    TD3("Pendulum-v1", reward_clip=0.5, **ONLINE).save(tmp_path / "c")
    with pytest.raises(ConfigError, match=r"learned with env\.reward_clip=0\.5.*run without it"):
        begun(TD3BC, dataset(), standardize_obs=False, init_from=tmp_path / "c")


def test_a_run_with_init_from_may_have_another_discount(tmp_path: Path) -> None:
    begun(TD3BC, dataset(), standardize_obs=False, gamma=0.9).save(tmp_path / "a")
    assert TD3("Pendulum-v1", init_from=tmp_path / "a", gamma=0.95, **ONLINE).config.algo.gamma == 0.95


@pytest.mark.parametrize("backend", ["torch", "native"])
def test_the_initial_policy_acts_until_learning_starts(backend: str, tmp_path: Path) -> None:
    trained(TD3BC, tmp_path / "a", standardize_obs=False)
    options = {**ONLINE, "backend": backend, "exploration_noise": 0.0}
    online = TD3("Pendulum-v1", init_from=tmp_path / "a", **options)
    online.train(20)
    assert online.clock.updates == 0
    steps = online.source.last_batch()
    acted = online.policy.mode(torch.from_numpy(steps["steps_obs"]).reshape(20, 3)).detach()
    np.testing.assert_allclose(steps["steps_actions"].reshape(20, 1), acted, atol=1e-5)
    assert np.ptp(steps["steps_actions"]) > 0


@pytest.mark.parametrize("backend", ["torch", "native"])
def test_a_run_that_is_stopped_before_learning_starts_goes_on_bit_for_bit(
    backend: str, tmp_path: Path
) -> None:
    trained(CQL, tmp_path / "a", standardize_obs=False)
    options = {**ONLINE, "backend": backend, "init_from": tmp_path / "a"}
    whole, half = SAC("Pendulum-v1", **options), SAC("Pendulum-v1", **options)
    half.train(10)
    half.save(tmp_path / "half")
    again = SAC.from_checkpoint(tmp_path / "half")
    whole.train(40)
    again.train(40)
    for one, other in zip(whole.policy.parameters(), again.policy.parameters(), strict=True):
        assert torch.equal(one, other)
