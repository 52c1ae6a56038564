"""Prioritized replay from Python: the documented snippets, the distribution, the weights, updates."""

from __future__ import annotations

import numpy as np
import pytest

import rlox
from rlox.errors import CheckpointError, ConfigError, NonFiniteError, ShapeError


def filled(n=100, capacity=None, priorities=None, **settings):
    """A buffer of n rows whose obs is their number."""
    buffer = rlox.PrioritizedReplayBuffer(capacity or n, 1, 1, **settings)
    obs = np.arange(n, dtype=np.float32)[:, None]
    zeros = np.zeros(n, np.float32)
    flags = np.zeros(n, bool)
    buffer.push_batch(obs, zeros[:, None], zeros, flags, flags, obs + 0.5, priorities=priorities)
    return buffer


def test_the_snippet_of_the_buffers_page_runs():
    obs, next_obs = np.zeros(4, np.float32), np.ones(4, np.float32)
    pbuf = rlox.PrioritizedReplayBuffer(capacity=100_000, obs_dim=4, act_dim=1, alpha=0.6, beta=0.4)
    pbuf.push(obs, 0.5, 1.0, False, False, next_obs, priority=1.0)
    batch = pbuf.sample(batch_size=256, seed=42)
    new_td_errors = np.linspace(0.1, 2.0, 256)
    pbuf.update_priorities(batch["indices"], new_td_errors)
    pbuf.set_beta(0.7)
    assert batch["weights"].shape == (256,) and batch["weights"].dtype == np.float32
    assert batch["indices"].dtype == np.uint64 and (batch["weights"] == 1).all()
    assert pbuf.beta == 0.7 and pbuf.max_priority == 2.0


def test_the_snippet_of_the_guide_runs():
    buffer = rlox.PrioritizedReplayBuffer(
        capacity=100_000, obs_dim=3, act_dim=1, alpha=0.6, beta=0.4
    )
    obs = np.zeros(3, dtype=np.float32)
    buffer.push(obs, action=0.5, reward=1.0, terminated=False, truncated=False, priority=1.0)
    batch = buffer.sample(batch_size=32, seed=0)
    indices = batch["indices"]
    new_priorities = np.abs(np.full(32, -0.3)) + 1e-6
    gone = buffer.update_priorities(indices.astype(np.uint64), new_priorities.astype(np.float64))
    buffer.set_beta(0.4 + 0.5 * 0.6)
    assert gone == 0 and buffer.beta == pytest.approx(0.7)


@pytest.mark.parametrize("stratified", [True, False])
def test_rows_are_drawn_in_proportion_to_priority_to_the_alpha(stratified):
    priorities = np.random.default_rng(0).uniform(0.01, 3.0, 40)
    buffer = filled(40, priorities=priorities, alpha=0.7, stratified=stratified)
    drawn = np.concatenate([buffer.sample(500, seed=s)["indices"] for s in range(100)])
    expected = priorities**0.7 / (priorities**0.7).sum() * drawn.size
    counts = np.bincount(drawn.astype(int), minlength=40)
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < 72.1  # 39 degrees of freedom: exceeded once in 1,000
    assert stratified or chi_square > 15


def test_a_stratified_draw_is_the_inverse_of_numpys_cumulative_sum():
    priorities = np.random.default_rng(1).integers(1, 9, 300).astype(float)
    buffer = filled(300, priorities=priorities, alpha=1.0)
    indices = buffer.sample(64, seed=5)["indices"]
    points = (np.arange(64) + rlox.Stream(5, "replay", 0).uniform(64)) / 64 * priorities.sum()
    np.testing.assert_array_equal(indices, np.searchsorted(priorities.cumsum(), points, "right"))


def test_weights_are_those_of_the_paper_over_their_maximum_in_the_buffer():
    priorities = np.random.default_rng(2).uniform(0.01, 3.0, 200)
    buffer = filled(200, priorities=priorities, alpha=0.6, beta=0.5)
    batch = buffer.sample(100, seed=0)
    probability = priorities**0.6 / (priorities**0.6).sum()
    weights = (200 * probability) ** -0.5
    expected = weights[batch["indices"].astype(int)] / weights.max()
    np.testing.assert_allclose(batch["weights"], expected, rtol=1e-6)


def test_a_row_without_a_priority_gets_the_largest_so_far_and_takes_it_along_when_it_leaves():
    buffer = filled(4, capacity=4, alpha=1.0)
    assert buffer.update_priorities([1], [50.0]) == 0
    zeros = np.zeros(1, np.float32)
    for k in range(3):
        buffer.push(zeros + 10 + k, 0.0, 0.0, False, False, zeros)
    assert buffer.update_priorities([0, 1, 2, 3], [9.0, 9.0, 9.0, 1.0]) == 3
    drawn = np.bincount(buffer.sample(15_100, seed=0)["indices"].astype(int), minlength=7)
    np.testing.assert_allclose(drawn[3:], [100, 5_000, 5_000, 5_000], atol=2)
    assert drawn[:3].sum() == 0


def test_what_is_no_priority_is_refused_and_changes_nothing():
    buffer = filled(10)
    before = buffer.sample(50, seed=1)
    for bad, error in [(-1.0, ConfigError), (1e101, ConfigError), (np.nan, NonFiniteError)]:
        with pytest.raises(error, match=r"priority|priorities"):
            buffer.update_priorities([1, 2], [5.0, bad])
        with pytest.raises(error, match=r"priority|priorities"):
            buffer.push([0.0], 0.0, 0.0, False, False, [0.0], priority=bad)
    for indices, priorities in [([1, 2], [1.0]), ([[1]], [1.0]), ([1], [[1.0]])]:
        with pytest.raises(ShapeError):
            buffer.update_priorities(indices, priorities)
    for beta in (-0.1, 1.1, np.nan):
        with pytest.raises(ConfigError, match="beta"):
            buffer.set_beta(beta)
    assert len(buffer) == 10
    after = buffer.sample(50, seed=1)
    assert all(np.array_equal(before[key], after[key]) for key in before)


def test_a_buffer_of_zero_priorities_cannot_be_sampled():
    buffer = filled(3, priorities=np.zeros(3))
    with pytest.raises(ConfigError, match="positive priority"):
        buffer.sample(1, seed=0)
    with pytest.raises(ConfigError, match="empty"):
        rlox.PrioritizedReplayBuffer(3, 1, 1).sample(1)


def test_several_batches_and_a_batch_into_ones_own_arrays_equal_single_ones():
    buffer = filled(50, priorities=np.linspace(0.1, 1, 50), seed=3)
    other = filled(50, priorities=np.linspace(0.1, 1, 50), seed=3)
    several = buffer.sample(8, n_batches=3)
    out = other.sample(8)
    singles = [out["weights"].copy()]
    for _ in range(2):
        assert other.sample(8, out=out) is out
        singles.append(out["weights"].copy())
    np.testing.assert_array_equal(several["weights"], singles)
    with pytest.raises(ShapeError, match="weights"):
        other.sample(8, out={k: v for k, v in out.items() if k != "weights"})


@pytest.mark.parametrize("way", ["state", "folder"])
def test_a_restored_buffer_draws_the_same_rows_with_the_same_weights(way, tmp_path):
    left = filled(70, capacity=50, priorities=np.linspace(0.1, 5, 70))
    left.update_priorities(np.arange(30, 60), np.linspace(3, 0, 30))
    left.set_beta(0.9)
    left.sample(4)
    right = rlox.PrioritizedReplayBuffer(50, 1, 1)
    if way == "state":
        right.restore(left.state())
    else:
        assert left.save(tmp_path / "replay") > 0
        assert left.save(tmp_path / "replay") == 0
        right.load(tmp_path / "replay")
    for _ in range(3):
        for buffer in (left, right):
            buffer.push([1.0], 0.0, 0.0, False, False, [2.0])
        a, b = left.sample(64), right.sample(64)
        assert all(np.array_equal(a[key], b[key]) for key in a)
    with pytest.raises(CheckpointError, match="alpha"):
        rlox.PrioritizedReplayBuffer(50, 1, 1, alpha=0.5).restore(left.state())


def test_several_environments_have_a_priority_each():
    buffer = rlox.PrioritizedReplayBuffer(40, 1, 1, n_envs=4, alpha=1.0)
    obs = np.arange(4, dtype=np.float32)[:, None]
    flags = np.zeros(4, bool)
    for _ in range(3):
        buffer.push(obs, flags, flags, flags, flags, obs, priority=[0.0, 0.0, 1.0, 3.0])
    seen = np.bincount(buffer.sample(1_200, seed=0)["obs"][:, 0].astype(int), minlength=4)
    np.testing.assert_allclose(seen, [0, 0, 300, 900], atol=4)
