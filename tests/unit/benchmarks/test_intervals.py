"""Tests ratios of medians against calculations by hand."""

from __future__ import annotations

import pytest

from rlox_cli.bench.intervals import ratio_of_medians


def test_the_ratio_is_the_peers_median_over_ours():
    ratio = ratio_of_medians([2.0, 1.0, 9.0], [5.0, 6.0, 100.0])
    assert ratio.value == 3.0  # 6 / 2


def test_the_interval_of_a_ratio_of_constant_samples_has_no_width():
    ratio = ratio_of_medians([2.0] * 7, [6.0] * 7)
    assert (ratio.low, ratio.value, ratio.high) == (3.0, 3.0, 3.0)


def test_a_machine_that_slows_down_for_both_does_not_widen_the_interval():
    ours = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
    ratio = ratio_of_medians(ours, [2 * second for second in ours])
    assert (ratio.low, ratio.high) == (2.0, 2.0)


def test_the_interval_of_two_rounds_ends_at_the_single_rounds():
    # draws: {a, a} 1/4, {a, b} 1/2, {b, b} 1/4, so each end of the 95% interval has one round
    ratio = ratio_of_medians([1.0, 1.0], [1.0, 3.0])
    assert (ratio.low, ratio.value, ratio.high) == (1.0, 2.0, 3.0)


@pytest.mark.parametrize("outlier", [10.0, 1e6])
def test_one_interrupted_round_does_not_move_the_ratio(outlier):
    ratio = ratio_of_medians([1.0] * 9, [2.0] * 8 + [outlier])
    assert (ratio.value, ratio.low, ratio.high) == (2.0, 2.0, 2.0)


def test_ratio_of_medians_gives_equal_intervals_for_equal_samples():
    ours, peer = [1.0, 1.1, 1.2, 0.9, 1.3], [2.0, 2.5, 1.9, 2.2, 2.1]
    first, again = ratio_of_medians(ours, peer), ratio_of_medians(ours, peer)
    assert first == again
    assert first.low < first.value < first.high
