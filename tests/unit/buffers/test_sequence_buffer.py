"""Tests SequenceReplayBuffer: windows within episodes, uniform positions, padding."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.transitions import KEYS, check_batch, push_batch, row

from rlox import SequenceReplayBuffer
from rlox.errors import CheckpointError, ConfigError


def filled(lengths, capacity=1_000, n_envs=1, **settings):
    """Fills a buffer with episodes of these lengths, the last one unfinished; returns their bounds too."""
    n = sum(lengths)
    ends = np.cumsum(lengths)
    batch = {
        "obs": np.arange(n, dtype=np.float32)[:, None],
        "next_obs": np.arange(n, dtype=np.float32)[:, None] + 0.5,
        "actions": np.arange(n, dtype=np.float32)[:, None],
        "rewards": np.arange(n, dtype=np.float32),
        "terminated": np.isin(np.arange(1, n + 1), ends[:-1]),
        "truncated": np.zeros(n, bool),
    }
    buffer = SequenceReplayBuffer(capacity, 1, 1, n_envs=n_envs, **settings)
    push_batch(buffer, batch)
    return buffer, batch, ends


@pytest.mark.parametrize("capacity", [1_000, 31, 30, 29, 12])
def test_windows_are_consecutive_rows_of_one_episode(capacity):
    lengths = [4, 1, 9, 5, 12, 7]
    buffer, batch, ends = filled(lengths, capacity)
    starts = np.concatenate([[0], ends])
    out = buffer.sample(300, 5, seed=1)
    assert out["obs"].shape == (300, 5, 1)
    for b in range(300):
        valid = out["mask"][b]
        index = out["indices"][b][valid].astype(int)
        assert (np.diff(index) == 1).all() and (valid[: len(index)]).all()
        episode = np.searchsorted(ends, index, side="right")
        assert (episode == episode[0]).all()
        if not valid.all():
            assert index[0] in (*starts, sum(lengths) - capacity)
            assert index[-1] + 1 == ends[episode[0]]
            assert all((out[key][b][~valid] == 0).all() for key in KEYS)
            assert (out["indices"][b][~valid] == 2**64 - 1).all()
        np.testing.assert_array_equal(out["is_first"][b][valid], np.isin(index, starts))
    flat = {key: out[key][out["mask"]] for key in (*KEYS, "indices")}
    check_batch(flat, [row(batch, i) for i in range(sum(lengths))])


def test_every_place_of_a_window_is_equally_likely():
    lengths = [4, 1, 9, 5, 12, 7]
    buffer, _, ends = filled(lengths)
    starts = np.concatenate([[0], ends[:-1]])
    places = np.concatenate(
        [np.arange(s, s + max(1, length - 4)) for s, length in zip(starts, lengths, strict=True)]
    )
    first = buffer.sample(20_000, 5, seed=2)["indices"][:, 0].astype(int)
    drawn, counts = np.unique(first, return_counts=True)
    np.testing.assert_array_equal(drawn, places)
    expected = 20_000 / len(places)
    chi2 = ((counts - expected) ** 2 / expected).sum()
    assert chi2 < len(places) - 1 + 4.5 * np.sqrt(2 * len(places))


def test_windows_cross_ends_only_if_asked_and_say_where():
    buffer, _, _ends = filled([4, 1, 9], cross_episodes=True)
    out = buffer.sample(200, 6, seed=0)
    assert out["mask"].all()
    index = out["indices"].astype(int)
    assert (np.diff(index, axis=1) == 1).all()
    np.testing.assert_array_equal(out["is_first"], np.isin(index, [0, 4, 5]))
    assert (index[:, 0].min(), index[:, 0].max()) == (0, 8)


def test_cut_episode_starts_a_new_episode_in_a_sequence_buffer():
    buffer, batch, _ = filled([6])
    buffer.cut_episode()
    push_batch(buffer, batch)
    out = buffer.sample(100, 6, seed=0)
    assert out["mask"].all()
    assert set(out["indices"][:, 0].tolist()) == {0, 6}


def test_the_same_seed_and_a_restored_state_give_the_same_windows():
    buffer, _, _ = filled([4, 1, 9, 5], 17, seed=3)
    buffer.sample(3, 2)
    other = SequenceReplayBuffer(17, 1, 1)
    other.restore(buffer.state())
    np.testing.assert_array_equal(buffer.sample(8, 3, 1)["obs"], buffer.sample(8, 3, 1)["obs"])
    left, right = buffer.sample(8, 3, n_batches=2), other.sample(8, 3, n_batches=2)
    for key in left:
        np.testing.assert_array_equal(left[key], right[key])
    assert buffer.update("rewards", left["indices"].ravel(), np.zeros(48)) == (~left["mask"]).sum()


def test_a_saved_buffer_samples_the_same_windows_and_shares_segments(tmp_path):
    buffer, batch, _ = filled([4, 1, 9, 5], 17, seed=3)
    buffer.sample(3, 2)
    assert buffer.save(tmp_path) > 0
    assert buffer.save(tmp_path, "again") == 0
    other = SequenceReplayBuffer(17, 1, 1)
    other.load(tmp_path, "again")
    push_batch(buffer, batch)
    push_batch(other, batch)
    left, right = buffer.sample(50, 3), other.sample(50, 3)
    for key in left:
        np.testing.assert_array_equal(left[key], right[key])
    with pytest.raises(CheckpointError, match="layout"):
        SequenceReplayBuffer(18, 1, 1).load(tmp_path)


def test_a_sequence_buffer_refuses_sample_sizes_out_of_range():
    empty = SequenceReplayBuffer(10, 1, 1)
    with pytest.raises(ConfigError, match="empty"):
        empty.sample(1, 1)
    buffer, _, _ = filled([3])
    for batch_size, seq_len in ((0, 1), (1, 0), (1, 2**17), (2**20, 2**16)):
        with pytest.raises(ConfigError):
            buffer.sample(batch_size, seq_len)
