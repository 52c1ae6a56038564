"""Tests offline datasets: statistics, stretches of episodes, normalisation."""

from __future__ import annotations

import numpy as np
import pytest

import rlox
from rlox.errors import CheckpointError, ConfigError, NonFiniteError, ShapeError

N, OBS, ACT = 60, 3, 2


def dataset(dtype=np.float32):
    """Makes arrays with episodes of 7, 20 and 18 rows, and 15 rows of an unfinished one."""
    rng = np.random.default_rng(0)
    obs = rng.normal(5, 3, (N, OBS)).astype(dtype)
    next_obs = np.concatenate([obs[1:], rng.normal(size=(1, OBS)).astype(dtype)])
    terminated, truncated = np.zeros(N, np.uint8), np.zeros(N, np.uint8)
    terminated[6], truncated[26], terminated[44] = 1, 1, 1
    next_obs[[6, 26, 44]] += 100
    return obs, next_obs, rng.normal(size=(N, ACT)), rng.normal(size=N), terminated, truncated


EPISODES = [slice(0, 7), slice(7, 27), slice(27, 45), slice(45, 60)]


def test_a_batch_holds_rows_of_the_dataset():
    obs, next_obs, actions, rewards, terminated, truncated = dataset()
    buf = rlox.OfflineDatasetBuffer(obs, next_obs, actions, rewards, terminated, truncated)
    batch = buf.sample(500, seed=1)
    rows = batch["indices"].astype(int)
    assert set(rows) == set(range(N))
    for key, column in [
        ("obs", obs), ("next_obs", next_obs), ("actions", actions), ("rewards", rewards),
        ("terminated", terminated.astype(bool)), ("truncated", truncated.astype(bool)),
    ]:  # fmt: skip
        assert batch[key].dtype == column.dtype
        np.testing.assert_array_equal(batch[key], column[rows])
    again = buf.sample(500, seed=1)
    assert all(np.array_equal(batch[key], again[key]) for key in batch)


def test_offline_dataset_statistics_equal_those_of_numpy():
    obs, next_obs, actions, rewards, terminated, truncated = dataset()
    stats = rlox.OfflineDatasetBuffer(obs, next_obs, actions, rewards, terminated, truncated).stats()
    returns = [rewards[episode].sum() for episode in EPISODES]
    assert stats["n_episodes"] == 4 and stats["n_complete_episodes"] == 3
    assert (stats["obs_dim"], stats["act_dim"], stats["mean_episode_length"]) == (OBS, ACT, 15.0)
    for key, expected in [
        ("mean_return", np.mean(returns)), ("std_return", np.std(returns)),
        ("min_return", min(returns)), ("max_return", max(returns)),
        ("obs_mean", obs.astype(float).mean(0)), ("obs_std", obs.astype(float).std(0)),
    ]:  # fmt: skip
        np.testing.assert_allclose(stats[key], expected, rtol=1e-12, err_msg=key)


def test_stretches_stay_within_an_episode_and_are_padded_with_zeros():
    obs, next_obs, actions, rewards, terminated, truncated = dataset()
    buf = rlox.OfflineDatasetBuffer(obs, next_obs, actions, rewards, terminated, truncated)
    traj = buf.sample_trajectories(400, 10, seed=0)
    starts = []
    for b in range(400):
        length = int(traj["mask"][b].sum())
        start = int(np.flatnonzero((obs == traj["obs"][b, 0]).all(1))[0])
        episode = next(e for e in EPISODES if e.start <= start < e.stop)
        rows = slice(start, min(start + 10, episode.stop))
        starts.append(start)
        assert length == rows.stop - rows.start and traj["mask"][b, :length].all()
        to_go = [rewards[t : episode.stop].sum() for t in range(rows.start, rows.stop)]
        np.testing.assert_array_equal(traj["obs"][b, :length], obs[rows])
        np.testing.assert_array_equal(traj["actions"][b, :length], actions[rows])
        np.testing.assert_array_equal(traj["rewards"][b, :length], rewards[rows])
        np.testing.assert_allclose(traj["returns_to_go"][b, :length], to_go, rtol=1e-12, atol=1e-12)
        steps = np.arange(rows.start, rows.stop) - episode.start
        np.testing.assert_array_equal(traj["timesteps"][b, :length], steps)
        for key in ("obs", "actions", "rewards", "returns_to_go", "timesteps"):
            assert not traj[key][b, length:].any()
    assert set(starts) == set(range(N))
    assert traj["timesteps"].dtype == np.int64


def test_normalised_observations_have_mean_0_and_deviation_1_and_come_back():
    obs, next_obs, actions, rewards, terminated, truncated = dataset(np.float64)
    obs[:, 1] = next_obs[:, 1] = 4.0
    buf = rlox.OfflineDatasetBuffer(obs, next_obs, actions, rewards, terminated, truncated, normalize=True)
    batch = buf.sample(2_000, seed=0)
    rows = batch["indices"].astype(int)
    std = np.where(obs.std(0) < 1e-6, 1, obs.std(0))
    np.testing.assert_allclose(batch["obs"], ((obs - obs.mean(0)) / std)[rows], atol=1e-12)
    np.testing.assert_allclose(batch["next_obs"], ((next_obs - obs.mean(0)) / std)[rows], atol=1e-12)
    np.testing.assert_allclose(buf.normalize(obs)[rows], batch["obs"], atol=1e-12)
    np.testing.assert_allclose(buf.denormalize(batch["obs"]), obs[rows], rtol=1e-12)
    assert buf.normalized and buf.normalize(obs.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(buf.stats()["obs_mean"], obs.mean(0))


def test_images_stay_bytes_and_are_not_normalised():
    images = np.random.default_rng(0).integers(0, 256, (20, 2, 4, 4), np.uint8)
    flags = np.zeros(20, bool)
    arrays = (images, images, np.arange(20), np.zeros(20), flags, flags)
    buf = rlox.OfflineDatasetBuffer(*arrays)
    batch = buf.sample(50, seed=0)
    np.testing.assert_array_equal(batch["obs"], images[batch["indices"].astype(int)])
    assert batch["actions"].dtype == np.int64 and batch["actions"].shape == (50, 1)
    with pytest.raises(ConfigError, match="float32 or float64"):
        rlox.OfflineDatasetBuffer(*arrays, normalize=True)
    with pytest.raises(ConfigError, match="float"):
        buf.normalize(images)


def test_an_offline_dataset_refuses_wrong_shapes_sizes_and_nonfinite_columns():
    arrays = list(dataset())
    for at, bad, error in [
        (0, arrays[0][:-1], ShapeError), (1, arrays[1][:, :2], ShapeError),
        (3, arrays[3][:, None], ShapeError), (4, arrays[4][:-1], ShapeError),
        (3, np.zeros(0), ShapeError), (0, np.full((N, OBS), np.nan), NonFiniteError),
        (3, np.full(N, np.inf), NonFiniteError),
    ]:  # fmt: skip
        with pytest.raises(error):
            rlox.OfflineDatasetBuffer(*[bad if k == at else array for k, array in enumerate(arrays)])
    huge = [array.astype(np.float64) * 1e200 for array in dataset(np.float64)[:2]]
    with pytest.raises(NonFiniteError, match="standard deviation of obs is inf"):
        rlox.OfflineDatasetBuffer(*huge, *arrays[2:])
    buf = rlox.OfflineDatasetBuffer(*arrays)
    for batch_size, seq_len in [(0, 5), (5, 0), (2**20, 2**20), (-1, 3)]:
        with pytest.raises(ConfigError):
            buf.sample_trajectories(batch_size, seq_len, seed=0)


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_saved_dataset_is_written_once_and_samples_the_same_rows(tmp_path, normalize, dtype):
    arrays = dataset(dtype)
    buf = rlox.OfflineDatasetBuffer(*arrays, normalize=normalize, seed=4)
    buf.sample(5)
    assert buf.save(tmp_path, "step-1") > N * OBS * 4
    assert buf.save(tmp_path, "step-2") == 0
    # the same shapes, other numbers: everything comes from the folder
    others = [array[::-1].copy() if array.dtype.kind == "f" else array for array in arrays]
    again = rlox.OfflineDatasetBuffer(*others, normalize=normalize)
    again.load(tmp_path, "step-2")
    assert again.save(tmp_path, "step-3") == 0
    samples = (lambda b: b.sample(200), lambda b: b.sample_trajectories(50, 9), lambda b: b.stats())
    for sample in samples:
        left, right = sample(buf), sample(again)
        assert left.keys() == right.keys()
        for key in left:
            np.testing.assert_array_equal(left[key], right[key], err_msg=key)
    np.testing.assert_array_equal(buf.denormalize(arrays[0]), again.denormalize(arrays[0]))
    assert again.n_episodes() == 4 and len(again) == N


def test_an_offline_dataset_refuses_foreign_snapshots_and_stays_unchanged(tmp_path):
    arrays = dataset()
    plain = rlox.OfflineDatasetBuffer(*arrays)
    plain.save(tmp_path, "plain")
    scaled = rlox.OfflineDatasetBuffer(*arrays, normalize=True)
    before = scaled.sample(50, seed=0)
    ring = rlox.ReplayBuffer(N, OBS, ACT, action_dtype="float64", reward_dtype="float64")
    flags = np.zeros(N, bool)
    ring.push_batch(arrays[0], arrays[2], arrays[3], flags, flags, arrays[1])
    ring.save(tmp_path, "ring")
    shorter = rlox.OfflineDatasetBuffer(*(array[:-1] for array in arrays))
    for buf, name, told in [
        (scaled, "plain", "normalize"), (scaled, "none", "there is plain, ring"),
        (scaled, "ring", "normalized is missing"), (shorter, "plain", "capacity"),
    ]:  # fmt: skip
        with pytest.raises(CheckpointError, match=told):
            buf.load(tmp_path, name)
    after = scaled.sample(50, seed=0)
    assert all(np.array_equal(before[key], after[key]) for key in before)
