"""Tests compute_gae and its batched and time-major forms against independent NumPy definitions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.oracles import advantages_by_definition

import rlox._core as core
from rlox.errors import ConfigError, NonFiniteError, ShapeError


def by_definition(rewards, values, *rest):
    """Returns advantages and returns `[T]` of one environment."""
    *arrays, gamma, lam = rest
    columns = [np.asarray(array)[:, None] for array in (rewards, values, *arrays)]
    advantages = advantages_by_definition(*columns, gamma, lam)[:, 0]
    return advantages, advantages + values


@pytest.fixture
def rollout():
    """Returns `[T, N]` rewards, values, next_values, terminated, truncated."""
    rng = np.random.default_rng(0)
    shape = (60, 5)
    numbers = [rng.normal(size=shape) for _ in range(3)]
    return *numbers, rng.random(shape) < 0.1, rng.random(shape) < 0.1


def flat(array):
    return np.ascontiguousarray(array.T).ravel()


def test_the_exact_form_equals_the_quadratic_definition(rollout):
    column = [array[:, 0] for array in rollout]
    advantages, returns = core.compute_gae(
        column[0],
        column[1],
        next_values=column[2],
        terminated=column[3],
        truncated=column[4],
        gamma=0.97,
        lam=0.9,
    )
    expected = by_definition(*column, 0.97, 0.9)
    np.testing.assert_allclose(advantages, expected[0], atol=1e-12)
    np.testing.assert_allclose(returns, expected[1], atol=1e-12)


def test_dones_are_terminations_and_last_value_follows_the_last_step(rollout):
    rewards, values, dones = rollout[0][:, 1], rollout[1][:, 1], rollout[3][:, 1]
    advantages, returns = core.compute_gae(rewards, values, dones, 0.7, 0.99, 0.95)
    shifted = np.append(values[1:], 0.7)
    expected = by_definition(rewards, values, shifted, dones, np.zeros(60, bool), 0.99, 0.95)
    np.testing.assert_allclose(advantages, expected[0], atol=1e-12)
    np.testing.assert_allclose(returns, expected[1], atol=1e-12)


def test_gae_equals_advantages_and_returns_computed_by_hand():
    advantages, returns = core.compute_gae(
        [1.0, 2.0, 3.0], [1.0, 1.0, 1.0], [0, 1, 0], last_value=8.0, gamma=0.5, lam=0.5
    )
    np.testing.assert_array_equal(advantages, [0.75, 1.0, 6.0])
    np.testing.assert_array_equal(returns, [1.75, 2.0, 7.0])


def test_compute_gae_accepts_the_documented_keyword_arguments():
    advantages, returns = core.compute_gae(
        rewards=np.array([1.0, 1.0, 1.0, 0.0]),
        values=np.array([2.5, 2.0, 1.0, 0.0]),
        dones=np.array([0.0, 0.0, 0.0, 1.0]),
        last_value=0.0,
        gamma=0.99,
        lam=0.95,
    )
    assert advantages.shape == returns.shape == (4,)
    np.testing.assert_allclose(advantages[2:], [0.0, 0.0])


def test_compute_gae_bootstraps_at_truncation_and_cuts_the_trace():
    advantages, _ = core.compute_gae(
        [1.0, 1.0],
        [1.0, 1.0],
        truncated=[True, False],
        next_values=[4.0, 6.0],
        gamma=0.5,
        lam=1.0,
    )
    np.testing.assert_array_equal(advantages, [2.0, 3.0])


def test_lambda_1_gives_discounted_returns():
    rewards = np.arange(1.0, 6.0)
    _, returns = core.compute_gae(rewards, np.full(5, 0.3), np.zeros(5), 2.0, 0.9, 1.0)
    expected = [sum(0.9**k * r for k, r in enumerate(rewards[t:])) for t in range(5)]
    expected = [value + 0.9 ** (5 - t) * 2.0 for t, value in enumerate(expected)]
    np.testing.assert_allclose(returns, expected, atol=1e-12)


# Chains of rows and of blocks of steps round differently, so the results differ in some bits.
def test_batched_and_time_major_gae_agree_up_to_rounding(rollout):
    advantages, returns = core.compute_gae_time_major(*rollout)
    rewards, values, next_values, terminated, truncated = map(flat, rollout)
    batched = core.compute_gae_batched(
        rewards,
        values,
        n_steps=60,
        terminated=terminated,
        truncated=truncated,
        next_values=next_values,
    )
    np.testing.assert_allclose(batched[0], flat(advantages), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(batched[1], flat(returns), rtol=1e-12, atol=1e-12)
    for env in range(5):
        column = [array[:, env] for array in rollout]
        expected = by_definition(*column, 0.99, 0.95)
        np.testing.assert_allclose(advantages[:, env], expected[0], atol=1e-12)


def test_batched_last_values_are_one_per_env_and_give_n_steps(rollout):
    rewards, values, _, dones, _ = map(flat, rollout)
    last = np.arange(5.0)
    batched = core.compute_gae_batched(rewards, values, dones, last, 60)
    inferred = core.compute_gae_batched(rewards, values, dones, last)
    np.testing.assert_array_equal(batched, inferred)
    for env in range(5):
        part = slice(env * 60, (env + 1) * 60)
        single = core.compute_gae(rewards[part], values[part], dones[part], last[env])
        np.testing.assert_array_equal(batched[0][part], single[0])


def test_time_major_last_values_follow_the_last_row(rollout):
    rewards, values, _, dones, _ = rollout
    last = np.arange(5.0)
    result = core.compute_gae_time_major(rewards, values, dones=dones, last_values=last)
    next_values = np.vstack([values[1:], last])
    never = np.zeros_like(dones)
    exact = core.compute_gae_time_major(rewards, values, next_values, dones, never)
    np.testing.assert_array_equal(result, exact)
    for env in range(5):
        single = core.compute_gae(rewards[:, env], values[:, env], dones[:, env], last[env])
        np.testing.assert_allclose(result[0][:, env], single[0], rtol=1e-12, atol=1e-12)


def test_random_rollouts_of_every_length_equal_the_quadratic_definition():
    rng = np.random.default_rng(2)
    for case in range(800):
        shape = (case % 64 + 1, case % 3 + 1)
        numbers = [rng.normal(size=shape) for _ in range(3)]
        ends = [rng.random(shape) < 0.1 for _ in range(2)]
        gamma, lam = rng.choice([0.0, 0.5, 0.99, 1.0], 2)
        dtype, close = ((np.float32, 2e-4), (np.float64, 1e-10))[case % 2]
        numbers = [array.astype(dtype) for array in numbers]
        result = core.compute_gae_time_major(*numbers, *ends, gamma, lam)
        for env in range(shape[1]):
            column = [array[:, env] for array in (*numbers, *ends)]
            expected = by_definition(*column, gamma, lam)
            np.testing.assert_allclose(result[0][:, env], expected[0], atol=close)
            np.testing.assert_allclose(result[1][:, env], expected[1], atol=close)
            single = core.compute_gae(
                column[0],
                column[1],
                next_values=column[2],
                terminated=column[3],
                truncated=column[4],
                gamma=gamma,
                lam=lam,
            )
            np.testing.assert_allclose(single[0], expected[0], atol=close)


def test_batched_without_last_values_bootstraps_from_zero(rollout):
    rewards, values, _, dones, _ = map(flat, rollout)
    given = core.compute_gae_batched(rewards, values, dones, np.zeros(5), 60)
    np.testing.assert_array_equal(core.compute_gae_batched(rewards, values, dones, None, 60), given)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gae_results_have_the_float_precision_of_their_input(rollout, dtype):
    grid = [array.astype(dtype) for array in rollout[:3]]
    column = [array[:, 0] for array in grid]
    for pair in (
        core.compute_gae(column[0], column[1], rollout[3][:, 0]),
        core.compute_gae_batched(column[0], column[1], rollout[3][:, 0], [0.0], 60),
        core.compute_gae_time_major(*grid, *rollout[3:]),
    ):
        assert {array.dtype for array in pair} == {np.dtype(dtype)}


def test_mixed_precision_gives_float64(rollout):
    column = rollout[0][:, 0]
    pair = core.compute_gae(column.astype(np.float32), column, rollout[3][:, 0])
    assert pair[0].dtype == np.float64


def test_the_float32_name_takes_any_precision_and_returns_float32(rollout):
    rewards, values, _, dones, _ = map(flat, rollout)
    single = core.compute_gae_batched_f32(rewards, values, dones, np.zeros(5), 60)
    double = core.compute_gae_batched(rewards, values, dones, np.zeros(5), 60)
    assert single[0].dtype == np.float32
    np.testing.assert_allclose(single[0], double[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "convert",
    [
        np.ndarray.tolist,
        lambda array: np.repeat(array, 2)[::2],
        lambda array: array[::-1].copy()[::-1],
        lambda array: array.astype(">f8"),
        torch.tensor,
    ],
    ids=["list", "strided", "reversed", "big-endian", "tensor"],
)
def test_compute_gae_accepts_any_array_like_with_equal_results(rollout, convert):
    rewards, values, dones = (rollout[i][:, 2].astype(np.float64) for i in (0, 1, 3))
    plain = core.compute_gae(rewards, values, dones, 0.5)
    other = core.compute_gae(convert(rewards), convert(values), convert(dones), 0.5)
    np.testing.assert_array_equal(plain, other)


@pytest.mark.parametrize("dtype", [bool, np.float32, np.float64, np.int8, np.int64])
def test_flags_may_have_any_real_dtype(rollout, dtype):
    rewards, values, next_values, terminated, truncated = rollout
    plain = core.compute_gae_time_major(*rollout)
    other = core.compute_gae_time_major(
        rewards, values, next_values, terminated.astype(dtype), truncated.astype(dtype)
    )
    mixed = core.compute_gae_time_major(rewards, values, next_values, terminated.astype(dtype), truncated)
    np.testing.assert_array_equal(plain, other)
    np.testing.assert_array_equal(plain, mixed)


def test_time_major_gae_accepts_arrays_in_fortran_order(rollout):
    other = core.compute_gae_time_major(*(np.asfortranarray(array) for array in rollout))
    np.testing.assert_array_equal(core.compute_gae_time_major(*rollout), other)


def test_outputs_of_the_caller_are_written_and_returned(rollout):
    advantages, returns = np.empty((60, 5)), np.empty((60, 5))
    result = core.compute_gae_time_major(*rollout, advantages=advantages, returns=returns)
    assert result[0] is advantages
    assert result[1] is returns
    np.testing.assert_array_equal(result, core.compute_gae_time_major(*rollout))


def read_only(shape):
    array = np.empty(shape)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "bad",
    [
        np.empty((60, 5), np.float32),
        np.empty((5, 60)),
        np.empty((60, 10))[:, ::2],
        np.empty((60, 5), order="F"),
        read_only((60, 5)),
        [[0.0] * 5] * 60,
    ],
    ids=["dtype", "shape", "strided", "fortran", "read-only", "list"],
)
def test_an_output_that_does_not_fit_is_refused(rollout, bad):
    with pytest.raises(ShapeError, match="advantages"):
        core.compute_gae_time_major(*rollout, advantages=bad)


def test_an_output_must_not_be_an_input(rollout):
    with pytest.raises(ShapeError, match="share memory"):
        core.compute_gae_time_major(*rollout, advantages=rollout[0])


ROW = np.zeros(4)


@pytest.mark.parametrize(
    ("error", "match", "call"),
    [
        (ShapeError, "values has shape", lambda: core.compute_gae(ROW, ROW[:3], ROW)),
        (ShapeError, "dones has shape", lambda: core.compute_gae(ROW, ROW, ROW[:3])),
        (ShapeError, "rewards has shape", lambda: core.compute_gae(np.zeros((2, 2)), ROW, ROW)),
        (ShapeError, "dtype", lambda: core.compute_gae(np.array(["a"] * 4), ROW, ROW)),
        (ShapeError, "dtype", lambda: core.compute_gae(ROW + 1j, ROW, ROW)),
        (ShapeError, "cannot be read", lambda: core.compute_gae([[1.0], [1.0, 2.0]], ROW, ROW)),
        (
            ShapeError,
            "detached",
            lambda: core.compute_gae(torch.zeros(4, requires_grad=True), ROW, ROW),
        ),
        (ShapeError, "next_values", lambda: core.compute_gae(ROW, ROW, ROW, next_values=ROW[:2])),
        (ConfigError, "no episode ends", lambda: core.compute_gae(ROW, ROW)),
        (ConfigError, "together", lambda: core.compute_gae(ROW, ROW, ROW, terminated=ROW)),
        (ConfigError, "without next_values", lambda: core.compute_gae(ROW, ROW, truncated=ROW)),
        (
            ConfigError,
            "both given",
            lambda: core.compute_gae(ROW, ROW, ROW, 1.0, next_values=ROW),
        ),
        (
            NonFiniteError,
            "dones is NaN at 2",
            lambda: core.compute_gae(ROW, ROW, [0, 1, np.nan, 0]),
        ),
        (
            NonFiniteError,
            "truncated is NaN at 1",
            lambda: core.compute_gae(ROW, ROW, truncated=np.float32([0, np.nan, 1, 0]), next_values=ROW),
        ),
        (ConfigError, "gamma", lambda: core.compute_gae(ROW, ROW, ROW, gamma=1.5)),
        (ConfigError, "gamma is 1000", lambda: core.compute_gae(ROW, ROW, ROW, gamma=10**400)),
        (ConfigError, "lam is None", lambda: core.compute_gae(ROW, ROW, ROW, lam=None)),
        (ConfigError, "lam is '1'", lambda: core.compute_gae(ROW, ROW, ROW, lam="1")),
        (
            ConfigError,
            "lam is .*complex64",
            lambda: core.compute_gae(ROW, ROW, ROW, lam=np.complex64(1)),
        ),
        (ConfigError, "lam", lambda: core.compute_gae(ROW, ROW, ROW, lam=float("nan"))),
        (ConfigError, "n_steps", lambda: core.compute_gae_batched(ROW, ROW, ROW)),
        (ConfigError, "n_steps", lambda: core.compute_gae_batched(ROW, ROW, ROW, n_steps=0)),
        (ConfigError, "n_steps", lambda: core.compute_gae_batched(ROW, ROW, ROW, n_steps=-1)),
        (ShapeError, "rewards", lambda: core.compute_gae_batched(ROW, ROW, ROW, n_steps=3)),
        (
            ShapeError,
            "rewards",
            lambda: core.compute_gae_batched(ROW, ROW, ROW, n_steps=2**63),
        ),
        (
            ShapeError,
            "last_values",
            lambda: core.compute_gae_batched(ROW, ROW, ROW, ROW[:3], n_steps=2),
        ),
        (
            ConfigError,
            "both given",
            lambda: core.compute_gae_batched(ROW, ROW, ROW, ROW[:2], 2, next_values=ROW),
        ),
        (
            ConfigError,
            "neither",
            lambda: core.compute_gae_time_major(*[ROW[:, None]] * 2, dones=ROW[:, None]),
        ),
        (
            ConfigError,
            "both given",
            lambda: core.compute_gae_time_major(*[ROW[:, None]] * 5, last_values=ROW[:1]),
        ),
        (
            ShapeError,
            "last_values",
            lambda: core.compute_gae_time_major(*[ROW[:, None]] * 2, dones=ROW[:, None], last_values=ROW),
        ),
        (
            ShapeError,
            "expected \\(T, N\\)",
            lambda: core.compute_gae_time_major(ROW, ROW, ROW, ROW, ROW),
        ),
    ],
)
def test_gae_functions_refuse_wrong_arguments_by_name(error, match, call):
    with pytest.raises(error, match=match):
        call()


def test_gae_functions_return_empty_arrays_for_empty_rollouts():
    assert core.compute_gae([], [], [])[0].shape == (0,)
    assert core.compute_gae_batched([], [], [], n_steps=4)[0].shape == (0,)
    empty = np.zeros((0, 3))
    assert core.compute_gae_time_major(*[empty] * 5)[0].shape == (0, 3)
    assert core.compute_gae_time_major(*[empty.T] * 5)[0].shape == (3, 0)


def test_a_large_batch_that_releases_the_lock_and_uses_threads_equals_small_ones():
    rng = np.random.default_rng(1)
    n_envs, n_steps = 300, 500
    rewards, values = rng.normal(size=(2, n_envs, n_steps))
    dones = rng.random((n_envs, n_steps)) < 0.01
    large = core.compute_gae_batched(rewards.ravel(), values.ravel(), dones.ravel(), np.ones(n_envs), n_steps)
    for env in (0, 1, 150, 299):
        small = core.compute_gae(rewards[env], values[env], dones[env], 1.0)
        np.testing.assert_array_equal(large[0].reshape(n_envs, n_steps)[env], small[0])
