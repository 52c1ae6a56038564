"""Tests compute_vtrace against equation 1 of Espeholt et al. 2018, its limits and worked examples."""

from __future__ import annotations

import numpy as np
import pytest

import rlox._core as core
from rlox.errors import ConfigError, ShapeError


def by_definition(log_rhos, rewards, values, next_values, terminated, truncated, setting):
    """Returns (vs, pg_advantages) of one trajectory; each target is a sum, O(T^2)."""
    gamma, rho_bar, c_bar, lam = setting
    steps = len(rewards)
    ratios = np.exp(log_rhos)
    rhos, cs = np.minimum(ratios, rho_bar), lam * np.minimum(ratios, c_bar)
    next_values = np.where(terminated, 0.0, next_values)
    ends = terminated | truncated
    ends[-1] = True
    delta = rhos * (rewards + gamma * next_values - values)
    excess = np.zeros(steps + 1)
    for s in range(steps):
        weight = 1.0
        for t in range(s, steps):
            excess[s] += weight * delta[t]
            weight *= gamma * cs[t]
            if ends[t]:
                break
    target = next_values + np.where(ends, 0.0, excess[1:])
    return values + excess[:-1], rhos * (rewards + gamma * target - values)


def draw(rng, shape, dtype=np.float64):
    """Draws log_rhos, rewards, values, next_values, terminated, truncated."""
    numbers = [rng.normal(size=shape).astype(dtype) for _ in range(4)]
    return *numbers, rng.random(shape) < 0.1, rng.random(shape) < 0.1


def call(log_rhos, rewards, values, next_values, terminated, truncated, setting):
    gamma, rho_bar, c_bar, lam = setting
    return core.compute_vtrace(
        log_rhos,
        rewards,
        values,
        None,
        None,
        gamma,
        rho_bar,
        c_bar,
        lam=lam,
        terminated=terminated,
        truncated=truncated,
        next_values=next_values,
    )


@pytest.mark.parametrize(("dtype", "close"), [(np.float32, 1e-4), (np.float64, 1e-9)])
def test_compute_vtrace_equals_equation_1_on_random_rollouts(dtype, close):
    rng = np.random.default_rng(0)
    for case in range(500):
        steps, n = case % 64 + 1, case % 4
        shape = (steps,) if n == 0 else (steps, n)
        setting = (*rng.choice([0.0, 0.9, 1.0], 1), *rng.uniform(0, 2, 2), rng.choice([0, 0.5, 1]))
        rollout = draw(rng, shape, dtype)
        result = call(*rollout, setting)
        for env in range(max(n, 1)):
            column = [array.reshape(steps, -1)[:, env].copy() for array in rollout]
            column[:4] = [array.astype(np.float64) for array in column[:4]]
            for got, expected in zip(result, by_definition(*column, setting), strict=True):
                assert got.dtype == dtype
                scale = max(1.0, float(np.abs(expected).max()))
                got = got.reshape(steps, -1)[:, env]
                np.testing.assert_allclose(got, expected, atol=close * scale)


def test_compute_vtrace_equals_a_trajectory_computed_by_hand():
    vs, pg = core.compute_vtrace(np.log([2.0, 0.5]), [1.0, 2.0], [1.0, 1.0], [0, 0], 4.0, 0.5, 1.0, 1.0)
    np.testing.assert_allclose(vs, [2.25, 2.5], rtol=1e-15)
    np.testing.assert_allclose(pg, [1.25, 1.5], rtol=1e-15)


@pytest.mark.parametrize("shape", [(40,), (40, 3)])
def test_on_policy_targets_are_lambda_returns(shape):
    rng = np.random.default_rng(1)
    _, rewards, values, next_values, terminated, truncated = draw(rng, shape)
    next_values[:-1] = np.where(truncated[:-1], next_values[:-1], values[1:])
    vs, _ = call(np.zeros(shape), rewards, values, next_values, terminated, truncated, (0.97, 1.0, 1.0, 0.9))
    expected = core.compute_lambda_returns(
        rewards, next_values, 0.97, 0.9, terminated=terminated, truncated=truncated
    )
    np.testing.assert_allclose(vs, expected, atol=1e-12)


@pytest.mark.parametrize(("shape", "last"), [((30,), 0.7), ((30, 2), np.array([0.7, -0.3]))])
def test_dones_and_a_bootstrap_value_are_the_exact_form_without_truncation(shape, last):
    rng = np.random.default_rng(2)
    log_rhos, rewards, values, _, dones, _ = draw(rng, shape)
    result = core.compute_vtrace(log_rhos, rewards, values, dones, last, 0.9)
    shifted = np.concatenate([values[1:], np.reshape(last, (1, *shape[1:]))])
    never = np.zeros(shape, bool)
    exact = call(log_rhos, rewards, values, shifted, dones, never, (0.9, 1.0, 1.0, 1.0))
    np.testing.assert_array_equal(result, exact)
    floats = core.compute_vtrace(log_rhos, rewards, values, dones.astype(float), last, 0.9)
    np.testing.assert_array_equal(result, floats)


def test_compute_vtrace_reads_no_values_beyond_the_end_of_an_episode():
    result = core.compute_vtrace([0.0, 0.0, 0.0], [1.0, np.nan, 1.0], [0.5] * 3, [1, 0, 0], 0.0, 0.9)
    for array in result:
        np.testing.assert_array_equal(np.isnan(array), [False, True, False])


@pytest.mark.parametrize("convert", [np.ndarray.tolist, lambda a: np.repeat(a, 2)[::2]])
def test_lists_and_strided_arrays_give_the_result_of_plain_arrays(convert):
    rollout = draw(np.random.default_rng(3), (20,))
    setting = (0.9, 1.0, 1.0, 1.0)
    np.testing.assert_array_equal(call(*rollout, setting), call(*map(convert, rollout), setting))


ROW = np.zeros(4)
GRID = np.zeros((4, 2))


@pytest.mark.parametrize(
    ("error", "match", "args", "options"),
    [
        (ShapeError, "log_rhos has shape", (ROW[:3], ROW, ROW, ROW, 0.0), {}),
        (ShapeError, "values has shape", (ROW, ROW, ROW[:3], ROW, 0.0), {}),
        (ShapeError, "dones has shape", (ROW, ROW, ROW, ROW[:3], 0.0), {}),
        (ShapeError, "expected \\(T\\) or \\(T, N\\)", (ROW, 0.0, ROW, ROW, 0.0), {}),
        (ShapeError, "bootstrap_value", (GRID, GRID, GRID, GRID, 0.0), {}),
        (ShapeError, "bootstrap_value", (ROW, ROW, ROW, ROW, [0.0, 1.0]), {}),
        (ConfigError, "neither", (ROW, ROW, ROW, ROW), {}),
        (ConfigError, "both given", (ROW, ROW, ROW, ROW, 0.0), {"next_values": ROW}),
        (ConfigError, "no episode ends", (ROW, ROW, ROW, None, 0.0), {}),
        (ConfigError, "together", (ROW, ROW, ROW, ROW, 0.0), {"terminated": ROW}),
        (ConfigError, "gamma", (ROW, ROW, ROW, ROW, 0.0, float("nan")), {}),
        (ConfigError, "rho_bar", (ROW, ROW, ROW, ROW, 0.0, 0.9, -1.0), {}),
        (ConfigError, "c_bar", (ROW, ROW, ROW, ROW, 0.0, 0.9, 1.0, float("nan")), {}),
        (ConfigError, "lam", (ROW, ROW, ROW, ROW, 0.0), {"lam": 1.5}),
    ],
)
def test_compute_vtrace_refuses_wrong_arguments_by_name(error, match, args, options):
    with pytest.raises(error, match=match):
        core.compute_vtrace(*args, **options)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_compute_vtrace_returns_empty_arrays_for_empty_rollouts(shape):
    empty = np.zeros(shape)
    last = 0.0 if len(shape) == 1 else np.zeros(shape[1])
    assert core.compute_vtrace(empty, empty, empty, empty, last)[0].shape == shape
