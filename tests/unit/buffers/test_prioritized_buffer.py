"""PrioritizedReplayBuffer: frequencies, weights, priorities by index, states."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.transitions import check_batch, episodes, push_batch, row

from rlox import PrioritizedReplayBuffer
from rlox.errors import CheckpointError, ConfigError, NonFiniteError, ShapeError


def filled(n=100, capacity=64, priorities=None, **settings):
    buffer = PrioritizedReplayBuffer(capacity, 3, 1, **settings)
    batch = episodes(n, np.random.default_rng(0))
    push_batch(buffer, batch, priorities=priorities)
    return buffer, [row(batch, i) for i in range(n)]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("stratified", [True, False])
def test_rows_are_drawn_in_proportion_to_priority_to_the_alpha(alpha, stratified):
    priorities = np.random.default_rng(1).uniform(0.1, 3.0, 64)
    buffer, rows = filled(64, 64, priorities, alpha=alpha, stratified=stratified)
    batch = buffer.sample(200, seed=5, n_batches=500)
    check_batch({key: array[0] for key, array in batch.items()}, rows)
    counts = np.bincount(batch["indices"].ravel().astype(int), minlength=64)
    expected = 100_000 * priorities**alpha / (priorities**alpha).sum()
    chi2 = ((counts - expected) ** 2 / expected).sum()
    assert chi2 < 104  # 63 degrees of freedom, p = 0.001; stratified draws vary less
    if not stratified:
        assert chi2 > 33


def test_weights_undo_the_priorities_at_beta_1():
    priorities = np.random.default_rng(2).uniform(0.1, 3.0, 64)
    buffer, _ = filled(64, 64, priorities, beta=1.0)
    batch = buffer.sample(100, seed=1, n_batches=1_000)
    index, weights = batch["indices"].astype(int), batch["weights"].astype(np.float64)
    p = priorities**0.6
    np.testing.assert_allclose(weights, (p.min() / p)[index], rtol=1e-6)
    assert batch["weights"].dtype == np.float32
    values = np.random.default_rng(3).normal(size=64)
    weighted = (weights * values[index]).sum() / weights.sum()
    assert weighted == pytest.approx(values.mean(), abs=0.02)
    buffer.set_beta(0.5)
    assert buffer.beta == 0.5
    batch = buffer.sample(100)
    np.testing.assert_allclose(
        batch["weights"], np.sqrt(p.min() / p)[batch["indices"].astype(int)], rtol=1e-6
    )


def test_priorities_are_set_by_index_and_those_of_overwritten_rows_passed_over():
    buffer, _ = filled(100, 64, alpha=1.0)
    assert buffer.update_priorities(np.arange(100, dtype=np.uint64), np.zeros(100)) == 36
    assert buffer.update_priorities([70, 80, 3], [1.0, 3.0, 100.0]) == 1
    counts = np.bincount(buffer.sample(4_000, 0)["indices"].astype(int), minlength=100)
    assert set(np.flatnonzero(counts)) == {70, 80}
    assert counts[70] == pytest.approx(1_000, abs=2)


def test_a_new_row_gets_the_largest_priority_so_far_or_its_own():
    buffer, _ = filled(3, 64, alpha=1.0)
    buffer.update_priorities([0, 1, 2], [1.0, 8.0, 1.0])
    step = np.zeros(3, np.float32)
    buffer.push(step, 0, 0, False, False)
    buffer.push(step, 0, 0, False, False, step, priority=2.0)
    counts = np.bincount(buffer.sample(20_000, 1)["indices"].astype(int))
    np.testing.assert_allclose(counts, np.array([1, 8, 1, 8, 2]) * 1_000, atol=3)


def test_a_restored_buffer_draws_the_same_wherever_its_rows_stood_in_the_ring():
    buffer, _ = filled(100, 64, np.linspace(0, 2, 100))
    buffer.sample(3)
    other = PrioritizedReplayBuffer(64, 3, 1, beta=0.9)
    other.restore(buffer.state())
    assert other.beta == 0.4
    more = episodes(30, np.random.default_rng(4))
    for each in (buffer, other):
        push_batch(each, more)
        each.update_priorities([100, 101], [0.3, 0.1])
    left, right = buffer.sample(64), other.sample(64)
    for key in left:
        np.testing.assert_array_equal(left[key], right[key])
    with pytest.raises(CheckpointError, match="alpha"):
        PrioritizedReplayBuffer(64, 3, 1, alpha=0.5).restore(buffer.state())


def test_n_step_windows_come_with_discounts_and_weights():
    buffer, _rows = filled(64, 64)
    batch = buffer.sample(50, 0, n_step=3, gamma=0.9)
    again = buffer.sample(50, 0)
    np.testing.assert_array_equal(batch["weights"], again["weights"])
    last = batch["discounts"] == 0
    np.testing.assert_array_equal(last, batch["terminated"])
    assert buffer.sample(50, 0, out=again)["weights"] is again["weights"]


def test_what_is_no_priority_is_refused_and_changes_nothing():
    buffer, _ = filled(10, 64)
    before = buffer.sample(30, 0)["indices"]
    for wrong, error in ((-1.0, ConfigError), (np.nan, NonFiniteError), (1e200, ConfigError)):
        with pytest.raises(error):
            buffer.update_priorities([1, 2], [1.0, wrong])
        with pytest.raises(error):
            buffer.push(np.zeros(3), 0, 0, False, False, priority=wrong)
    with pytest.raises(ShapeError):
        buffer.update_priorities([1, 2], [1.0])
    with pytest.raises(ShapeError):
        buffer.push(np.zeros(3), 0, 0, False, False, priority=[1.0, 2.0])
    for wrong in ({"alpha": 1.5}, {"beta": -0.1}, {"alpha": float("nan")}):
        with pytest.raises(ConfigError):
            PrioritizedReplayBuffer(64, 3, 1, **wrong)
    assert len(buffer) == 10
    np.testing.assert_array_equal(buffer.sample(30, 0)["indices"], before)
