"""Tests group advantages against NumPy, PyTorch and TRL's formulas, for every kind of array."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rlox import _core as core
from rlox.errors import ConfigError, NonFiniteError, ShapeError, UnknownNameError

RNG = np.random.default_rng(0)
REWARDS = RNG.normal(2.0, 3.0, (37, 7))


def z_score(rewards, ddof=0, eps=0.0):
    """Computes the definition, group by group."""
    std = rewards.std(axis=1, ddof=ddof, keepdims=True)
    return (rewards - rewards.mean(axis=1, keepdims=True)) / (std + eps)


def trl_advantages(rewards, num_generations, scale_rewards):
    """Computes GRPO's advantages in PyTorch as TRL 1.16 does."""
    grouped = rewards.view(-1, num_generations)
    advantages = rewards - grouped.mean(dim=1).repeat_interleave(num_generations)
    if scale_rewards == "group":
        return advantages / (grouped.std(dim=1).repeat_interleave(num_generations) + 1e-4)
    if scale_rewards == "batch":
        return advantages / (rewards.std().expand_as(rewards) + 1e-4)
    return advantages


def test_the_golden_group_is_its_population_z_score():
    advantages = core.compute_group_advantages([0.9, 0.3, 0.7, 0.1])
    np.testing.assert_allclose(advantages, [1.265, -0.632, 0.632, -1.265], atol=5e-4)
    assert advantages.dtype == np.float64


def test_groups_are_normalised_one_by_one():
    got = core.compute_batch_group_advantages(REWARDS)
    np.testing.assert_allclose(got, z_score(REWARDS), atol=1e-13)
    for rewards, row in zip(REWARDS, got, strict=True):
        np.testing.assert_array_equal(core.compute_group_advantages(rewards), row)


@pytest.mark.parametrize("size", [2, 3, 4, 8, 16, 31, 64, 1000])
def test_every_group_size_equals_numpy(size):
    rewards = RNG.normal(size=(19, size))
    got = core.compute_batch_group_advantages(rewards, ddof=1, eps=0.01)
    np.testing.assert_allclose(got, z_score(rewards, 1, 0.01), atol=1e-12)


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_one_degree_of_freedom_and_1e_4_give_the_numbers_of_trl(scale):
    rewards = torch.tensor(REWARDS.ravel())
    expected = trl_advantages(rewards, 7, scale)
    got = core.compute_batch_group_advantages(rewards, 7, scale=scale, ddof=1, eps=1e-4)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-13)


def test_scale_batch_is_the_population_deviation_of_all_rewards_by_default():
    centred = REWARDS - REWARDS.mean(axis=1, keepdims=True)
    got = core.compute_batch_group_advantages(REWARDS, scale="batch")
    np.testing.assert_allclose(got, centred / REWARDS.std(), atol=1e-13)


def test_group_advantages_with_scale_none_only_subtract_the_mean():
    got = core.compute_batch_group_advantages([1.0, 3.0, 5.0, 9.0], 2, scale="none")
    np.testing.assert_array_equal(got, [-1.0, 1.0, -2.0, 2.0])
    np.testing.assert_array_equal(core.compute_group_advantages([1, 3], scale="none"), [-1.0, 1.0])


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 1e-300, 1e300])
def test_a_group_without_spread_is_exactly_zero(scale, value):
    rewards = np.array([[value] * 7, np.arange(7.0)])
    got = core.compute_batch_group_advantages(rewards, scale=scale)
    np.testing.assert_array_equal(got[0], np.zeros(7))
    assert np.abs(got[1]).max() > 0


def test_rewards_that_differ_by_rounding_only_have_no_spread():
    assert 0.1 + 0.2 != 0.3
    np.testing.assert_array_equal(core.compute_group_advantages([0.3, 0.1 + 0.2]), [0.0, 0.0])
    single = np.array([0.3, np.nextafter(np.float32(0.3), np.float32(1))], np.float32)
    np.testing.assert_array_equal(core.compute_group_advantages(single), [0.0, 0.0])
    # as float64 the same numbers differ by far more than rounding
    spread = core.compute_group_advantages(single.astype(np.float64))
    np.testing.assert_allclose(spread, [-1.0, 1.0])


def test_huge_and_tiny_rewards_keep_their_z_score():
    for unit in (1e-310, 1e-200, 1e200, 1e308):
        got = core.compute_group_advantages([-unit, 0.0, unit])
        np.testing.assert_allclose(got, np.array([-1, 0, 1]) * np.sqrt(1.5), atol=1e-12)


def test_shape_and_precision_are_those_of_the_input():
    flat, grid = REWARDS.ravel(), REWARDS
    double = core.compute_batch_group_advantages(flat, 7)
    assert double.shape == flat.shape
    assert core.compute_batch_group_advantages(grid, 7).shape == grid.shape
    single = core.compute_batch_group_advantages(grid.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single.ravel(), double, atol=2e-6)
    assert core.compute_batch_group_advantages(np.arange(4), 2).dtype == np.float64


@pytest.mark.parametrize(
    "convert",
    [
        np.ndarray.tolist,
        np.asfortranarray,
        lambda array: np.repeat(array, 2, axis=1)[:, ::2],
        lambda array: array.astype(">f8"),
        torch.tensor,
    ],
    ids=["list", "fortran", "strided", "big-endian", "tensor"],
)
def test_group_advantages_accept_any_array_like_with_equal_results(convert):
    plain = core.compute_batch_group_advantages(REWARDS)
    np.testing.assert_array_equal(core.compute_batch_group_advantages(convert(REWARDS)), plain)


def test_group_advantages_of_empty_rewards_are_empty():
    assert core.compute_group_advantages([]).shape == (0,)
    assert core.compute_batch_group_advantages([], 4).shape == (0,)
    assert core.compute_batch_group_advantages(np.zeros((0, 4))).shape == (0, 4)
    np.testing.assert_array_equal(core.compute_group_advantages([3.0]), [0.0])


@pytest.mark.parametrize(
    ("error", "match", "call"),
    [
        (ShapeError, "multiple of group_size", lambda f: f(REWARDS.ravel()[:10], 7)),
        (ShapeError, "rewards has shape", lambda f: f(REWARDS[None], 7)),
        (ShapeError, "dtype", lambda f: f(np.array(["a"]), 1)),
        (ConfigError, "group_size is missing", lambda f: f(REWARDS.ravel())),
        (ConfigError, "expected 7", lambda f: f(REWARDS, 6)),
        (ConfigError, "group_size is 0", lambda f: f(REWARDS.ravel(), 0)),
        (ConfigError, "group_size is -1", lambda f: f(REWARDS.ravel(), -1)),
        (ConfigError, "ddof", lambda f: f(REWARDS, ddof=-1)),
        (ConfigError, "eps", lambda f: f(REWARDS, eps=-1e-8)),
        (ConfigError, "eps", lambda f: f(REWARDS, eps=float("nan"))),
        (UnknownNameError, "did you mean group", lambda f: f(REWARDS, scale="groups")),
        (NonFiniteError, "rewards is NaN at flat index 3", lambda f: f([0, 1, 2, np.nan], 2)),
        (NonFiniteError, "inf at flat index 0", lambda f: f([np.inf, 1, 2, 3], 2, scale="batch")),
    ],
)
def test_group_advantages_refuse_wrong_arguments_by_name(error, match, call):
    with pytest.raises(error, match=match):
        call(core.compute_batch_group_advantages)


def test_compute_group_advantages_refuses_two_dimensional_rewards():
    with pytest.raises(ShapeError, match=r"expected \(G\)"):
        core.compute_group_advantages(REWARDS)
