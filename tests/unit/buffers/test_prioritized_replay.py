"""Tests PrioritizedReplayBuffer: frequencies, weights, priorities by index, states, refusals."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from helpers.transitions import push_batch

import rlox
from rlox.errors import (
    CheckpointError,
    ConfigError,
    NonFiniteError,
    ShapeError,
    StaleIndexError,
)


def rows(n):
    """Makes n transitions; every column tells the number of its row."""
    numbers = np.arange(n, dtype=np.float32)
    return {
        "obs": numbers[:, None],
        "next_obs": numbers[:, None] + 0.5,
        "actions": -numbers[:, None],
        "rewards": 2 * numbers,
        "terminated": numbers % 7 == 6,
        "truncated": numbers % 11 == 10,
    }


def filled(n=100, capacity=None, priorities=None, **settings):
    """Makes a buffer with the transitions `rows(n)`."""
    buffer = rlox.PrioritizedReplayBuffer(capacity or n, 1, 1, **settings)
    push_batch(buffer, rows(n), priorities=priorities)
    return buffer


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
@pytest.mark.parametrize("stratified", [True, False])
def test_rows_are_drawn_in_proportion_to_priority_to_the_alpha(alpha, stratified):
    priorities = np.random.default_rng(1).uniform(0.1, 3.0, 64)
    buffer = filled(64, priorities=priorities, alpha=alpha, stratified=stratified)
    batch = buffer.sample(200, seed=5, n_batches=500)
    index = batch["indices"].astype(int)
    for key, column in rows(64).items():
        np.testing.assert_array_equal(batch[key], column[index], err_msg=key)
    assert (alpha > 0) or (batch["weights"] == 1).all()
    counts = np.bincount(index.ravel(), minlength=64)
    expected = 100_000 * priorities**alpha / (priorities**alpha).sum()
    chi2 = ((counts - expected) ** 2 / expected).sum()
    assert chi2 < 104  # 63 degrees of freedom, p = 0.001; stratified draws vary less
    if not stratified:
        assert chi2 > 33


def test_a_stratified_draw_is_the_inverse_of_numpys_cumulative_sum():
    priorities = np.random.default_rng(1).integers(1, 9, 300).astype(float)
    buffer = filled(300, priorities=priorities, alpha=1.0)
    indices = buffer.sample(64, seed=5)["indices"]
    points = (np.arange(64) + rlox.Stream(5, "replay", 0).uniform(64)) / 64 * priorities.sum()
    np.testing.assert_array_equal(indices, np.searchsorted(priorities.cumsum(), points, "right"))


def test_weights_are_those_of_the_paper_over_their_maximum_and_undo_the_priorities_at_beta_1():
    priorities = np.random.default_rng(2).uniform(0.1, 3.0, 64)
    buffer = filled(64, priorities=priorities, beta=1.0)
    probability = priorities**0.6 / (priorities**0.6).sum()
    batch = buffer.sample(100, seed=1, n_batches=1_000)
    index, weights = batch["indices"].astype(int), batch["weights"].astype(np.float64)
    values = np.random.default_rng(3).normal(size=64)
    weighted = (weights * values[index]).sum() / weights.sum()
    assert weighted == pytest.approx(values.mean(), abs=0.02)
    for beta in (1.0, 0.5):
        buffer.set_beta(beta)
        assert buffer.beta == beta
        batch = buffer.sample(100)
        paper = (64 * probability) ** -beta  # Schaul et al. 2016, section 3.4
        expected = paper[batch["indices"].astype(int)] / paper.max()
        np.testing.assert_allclose(batch["weights"], expected, rtol=1e-6)
        assert batch["weights"].dtype == np.float32


def test_n_step_windows_come_with_discounts_and_the_weights_of_their_first_rows():
    buffer = filled(64, priorities=np.linspace(0.1, 3, 64))
    batch = buffer.sample(50, 0, n_step=3, gamma=0.9)
    np.testing.assert_array_equal(batch["weights"], buffer.sample(50, 0)["weights"])
    last = batch["discounts"] == 0
    np.testing.assert_array_equal(last, batch["terminated"])
    assert 0 < last.sum() < 50


def test_a_new_row_gets_the_largest_priority_of_the_rows_in_the_buffer():
    buffer = filled(100, capacity=64, alpha=1.0)
    assert buffer.update_priorities(np.arange(100, dtype=np.uint64), np.zeros(100)) == 36
    assert buffer.update_priorities([36, 99], [50.0, 9.0]) == 0
    for number in range(3):
        buffer.push([number], 0.0, 0.0, False, False, [number])
    buffer.push([3.0], 0.0, 0.0, False, False, [3.0], priority=2.0)
    assert buffer.update_priorities([36, 37, 38, 99], [9.0, 9.0, 9.0, 1.0]) == 3
    drawn = np.bincount(buffer.sample(15_300, seed=0)["indices"].astype(int), minlength=104)
    np.testing.assert_allclose(drawn[99:], [100, 5_000, 5_000, 5_000, 200], atol=2)
    assert drawn[:99].sum() == 0


def test_the_priority_of_a_row_that_was_never_pushed_is_refused():
    buffer = filled(10)
    before = buffer.sample(50, seed=1)
    with pytest.raises(StaleIndexError, match="row 10 is not in the buffer"):
        buffer.update_priorities([1, 10], [5.0, 5.0])
    assert all((buffer.sample(50, seed=1)[key] == before[key]).all() for key in before)
    assert buffer.max_priority == 1.0


def test_a_prioritized_buffer_refuses_invalid_priorities_and_stays_unchanged():
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
    with pytest.raises(ShapeError):
        buffer.push([0.0], 0.0, 0.0, False, False, [0.0], priority=[1.0, 2.0])
    for beta in (-0.1, 1.1, np.nan):
        with pytest.raises(ConfigError, match="beta"):
            buffer.set_beta(beta)
    for wrong in ({"alpha": 1.5}, {"alpha": np.nan}, {"beta": -0.1}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            rlox.PrioritizedReplayBuffer(10, 1, 1, **wrong)
    assert len(buffer) == 10
    after = buffer.sample(50, seed=1)
    assert all(np.array_equal(before[key], after[key]) for key in before)


def test_a_buffer_of_zero_priorities_cannot_be_sampled():
    buffer = filled(3, priorities=np.zeros(3))
    with pytest.raises(ConfigError, match="positive priority"):
        buffer.sample(1, seed=0)
    with pytest.raises(ConfigError, match="empty"):
        rlox.PrioritizedReplayBuffer(3, 1, 1).sample(1)


def test_n_batches_and_out_give_the_weights_of_single_batches():
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
    for number in range(70, 73):
        for buffer in (left, right):
            buffer.push([1.0], 0.0, 0.0, False, False, [2.0])
            assert buffer.update_priorities([number, 50], [0.3, number]) == 0
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


def test_a_buffer_that_is_too_large_is_refused_before_its_tree_takes_memory():
    # In a new process, because the peak of this one may come from an earlier test.
    code = """
        import rlox
        try:
            rlox.PrioritizedReplayBuffer(2**30, 1, 1)
        except rlox.errors.ConfigError as error:
            print(error)
        print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")))
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "capacity is 1073741824" in said
    assert int(said.split()[-2]) < 1 << 20  # KiB
