"""Tests token KL against its definitions in high precision, NumPy, PyTorch and TRL's formula."""

from __future__ import annotations

from fractions import Fraction
from math import factorial

import numpy as np
import pytest
import torch

from rlox import _core as core
from rlox.errors import ConfigError, ShapeError, UnknownNameError

RNG = np.random.default_rng(0)
B, T = 9, 133
LOG_P = -3 * RNG.random((B, T))
LOG_Q = -3 * RNG.random((B, T))
MASK = RNG.random((B, T)) < 0.7
INF, NAN = np.inf, np.nan

DEFINITIONS = {
    "exact": lambda p, q: np.exp(p) * (p - q),
    "k1": lambda p, q: p - q,
    "k2": lambda p, q: (q - p) ** 2 / 2,
    "k3": lambda p, q: np.expm1(q - p) - (q - p),
}


def trl_per_token_kl(ref_per_token_logps, per_token_logps):
    """Computes GRPO's KL per token in PyTorch as TRL 1.16 does."""
    difference = ref_per_token_logps - per_token_logps
    return torch.exp(difference) - difference - 1


def k3_exactly(d):
    """Computes e^d - d - 1 from its series in rational numbers, for |d| <= 1."""
    x = Fraction(float(d))
    return float(sum(x**n / factorial(n) for n in range(2, 26)))


def test_the_token_kl_of_the_golden_sequence_equals_the_formulas():
    policy, reference = [-1.2, -0.8, -1.5, -0.3], [-1.0, -0.9, -1.4, -0.5]
    exact = sum(np.exp(p) * (p - q) for p, q in zip(policy, reference, strict=True))
    k3 = sum(np.exp(q - p) - (q - p) - 1 for p, q in zip(policy, reference, strict=True))
    assert core.compute_token_kl(policy, reference) == pytest.approx(exact, rel=1e-13)
    assert core.compute_token_kl_schulman(policy, reference) == pytest.approx(k3, rel=1e-13)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_each_estimator_equals_numpy_per_sequence(name):
    expected = DEFINITIONS[name](LOG_P, LOG_Q).sum(axis=1)
    got = core.compute_batch_token_kl(LOG_P, LOG_Q, estimator=name)
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    flat = core.compute_batch_token_kl(LOG_P.ravel(), LOG_Q.ravel(), T, estimator=name)
    np.testing.assert_array_equal(flat, got)
    for p, q, kl in zip(LOG_P, LOG_Q, got, strict=True):
        assert core.compute_token_kl(p, q, estimator=name) == kl


def test_the_k3_estimator_has_the_argument_order_of_trl():
    per_token = trl_per_token_kl(torch.tensor(LOG_Q), torch.tensor(LOG_P))
    got = core.compute_batch_token_kl_schulman(LOG_P, LOG_Q)
    np.testing.assert_allclose(got, per_token.sum(dim=1), rtol=1e-12)
    swapped = core.compute_batch_token_kl_schulman(LOG_Q, LOG_P)
    assert np.abs(got - swapped).min() > 1e-3


def test_the_masked_mean_is_that_of_trl():
    mask = torch.tensor(MASK, dtype=torch.int64)
    per_token = trl_per_token_kl(torch.tensor(LOG_Q), torch.tensor(LOG_P))
    expected = (per_token * mask).sum(dim=1) / mask.sum(dim=1)
    got = core.compute_batch_token_kl_schulman(LOG_P, LOG_Q, mask=mask, reduction="mean")
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_exact_is_the_divergence_of_whole_distributions():
    policy, reference = torch.randn(2, 50, generator=torch.Generator().manual_seed(0)).double()
    log_p, log_q = policy.log_softmax(0), reference.log_softmax(0)
    expected = torch.distributions.kl_divergence(
        torch.distributions.Categorical(logits=log_p), torch.distributions.Categorical(logits=log_q)
    )
    assert core.compute_token_kl(log_p, log_q) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize(("dtype", "unit"), [(np.float64, 2.0**-52), (np.float32, 2.0**-23)])
@pytest.mark.parametrize("width", [1e-15, 1e-8, 1e-4, 1e-2, 0.4, 1.0])
def test_k3_does_not_cancel_near_equal_log_probabilities(dtype, unit, width):
    for d in RNG.uniform(-width, width, 100).astype(dtype):
        zero = np.zeros(1, dtype)
        got = core.compute_token_kl_schulman(zero, np.array([d]))
        assert abs(got - k3_exactly(d)) <= 16 * unit * k3_exactly(d)


def test_k2_and_k3_are_never_negative_and_vanish_for_equal_policies():
    p = RNG.normal(-2, 1, 100_000)
    for dtype in (np.float32, np.float64):
        log_p = p.astype(dtype)
        log_q = log_p + (RNG.normal(size=p.size) * 1e-4).astype(dtype)
        for name in ("k2", "k3"):
            per_token = core.compute_batch_token_kl(log_p, log_q, 1, estimator=name)
            assert per_token.min() >= 0
            assert core.compute_token_kl(log_p, log_p, estimator=name) == 0


@pytest.mark.parametrize("name", DEFINITIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_the_token_kl_ignores_values_of_masked_tokens(name, dtype, reduction):
    p, q = LOG_P.astype(dtype), LOG_Q.astype(dtype)
    kept = {"estimator": name, "mask": MASK, "reduction": reduction}
    clean = core.compute_batch_token_kl(p, q, **kept)
    for junk in ((NAN, NAN), (-INF, -INF), (INF, -1.0), (-1.0, INF), (-INF, 0.0)):
        dirty = [np.where(MASK, a, dtype(j)) for a, j in zip((p, q), junk, strict=True)]
        np.testing.assert_array_equal(core.compute_batch_token_kl(*dirty, **kept), clean)
    terms = np.where(MASK, DEFINITIONS[name](LOG_P, LOG_Q), 0.0).sum(axis=1)
    expected = terms / MASK.sum(axis=1) if reduction == "mean" else terms
    np.testing.assert_allclose(clean, expected, rtol=1e-4 if dtype is np.float32 else 1e-12)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.float32, np.float64])
def test_a_mask_may_have_any_real_dtype(dtype):
    plain = core.compute_batch_token_kl(LOG_P, LOG_Q, mask=MASK)
    for mask in (MASK.astype(dtype), np.asfortranarray(MASK.astype(dtype))):
        np.testing.assert_array_equal(core.compute_batch_token_kl(LOG_P, LOG_Q, mask=mask), plain)
    assert core.compute_token_kl(LOG_P[0], LOG_Q[0], mask=MASK[0].tolist()) == plain[0]


def test_a_sequence_without_tokens_gives_zero():
    nothing = np.zeros((2, 5), bool)
    for reduction in ("sum", "mean"):
        got = core.compute_batch_token_kl(LOG_P[:2, :5], LOG_Q[:2, :5], mask=nothing, reduction=reduction)
        np.testing.assert_array_equal(got, [0.0, 0.0])
        assert core.compute_token_kl([], [], reduction=reduction) == 0
    assert core.compute_batch_token_kl([], [], 5).shape == (0,)


@pytest.mark.parametrize(
    ("name", "log_p", "log_q", "expected"),
    [
        ("exact", -INF, -1.0, 0.0),
        ("exact", -INF, -INF, 0.0),
        ("exact", -INF, NAN, 0.0),
        ("exact", -1.0, -INF, INF),
        ("exact", -800.0, -1.0, 0.0),
        ("k1", -1.0, -INF, INF),
        ("k1", -INF, -1.0, -INF),
        ("k2", -INF, -1.0, INF),
        ("k3", -1.0, -INF, INF),
        ("k3", -INF, -1.0, INF),
        ("k3", -800.0, 0.0, INF),
        ("k3", 0.0, -800.0, 799.0),
        ("k3", -INF, -INF, NAN),
        ("k3", NAN, -1.0, NAN),
        ("exact", NAN, -1.0, NAN),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_token_kl_of_infinite_log_probs_is_as_documented(name, log_p, log_q, expected, dtype):
    arrays = np.array([log_p], dtype), np.array([log_q], dtype)
    np.testing.assert_equal(core.compute_token_kl(*arrays, estimator=name), expected)


def test_the_token_kl_has_the_float_precision_of_its_input():
    p, q = LOG_P.astype(np.float32), LOG_Q.astype(np.float32)
    single = core.compute_batch_token_kl_schulman(p, q)
    assert single.dtype == np.float32
    double = core.compute_batch_token_kl_schulman(p, q.astype(np.float64))
    assert double.dtype == np.float64
    np.testing.assert_allclose(single, double, rtol=2e-6)
    assert isinstance(core.compute_token_kl(p[0], q[0]), float)


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
def test_the_token_kl_accepts_any_array_like_with_equal_results(convert):
    plain = core.compute_batch_token_kl_schulman(LOG_P, LOG_Q)
    other = core.compute_batch_token_kl_schulman(convert(LOG_P), convert(LOG_Q))
    np.testing.assert_array_equal(other, plain)


def test_a_large_batch_that_uses_threads_equals_its_sequences():
    p, q = -RNG.random((600, 1000)), -RNG.random((600, 1000))
    large = core.compute_batch_token_kl_schulman(p, q)
    for row in (0, 1, 299, 599):
        assert core.compute_token_kl_schulman(p[row], q[row]) == large[row]


ROW = np.zeros(4)
GRID = np.zeros((2, 2))


@pytest.mark.parametrize(
    ("error", "match", "call"),
    [
        (ShapeError, "log_q has shape", lambda: core.compute_token_kl(ROW, ROW[:3])),
        (ShapeError, r"expected \(T\)", lambda: core.compute_token_kl(GRID, GRID)),
        (ShapeError, "mask has shape", lambda: core.compute_token_kl(ROW, ROW, mask=[1, 0])),
        (ConfigError, "mask is 0.5", lambda: core.compute_token_kl(ROW, ROW, mask=ROW + 0.5)),
        (ConfigError, "index 3", lambda: core.compute_token_kl(ROW, ROW, mask=[0, 1, 1, 2])),
        (ConfigError, "mask is NaN", lambda: core.compute_token_kl(ROW, ROW, mask=ROW + NAN)),
        (ShapeError, "dtype", lambda: core.compute_token_kl(ROW, ROW, mask=["a"] * 4)),
        (ShapeError, "dtype", lambda: core.compute_token_kl(ROW + 1j, ROW)),
        (UnknownNameError, "k1, k2", lambda: core.compute_token_kl(ROW, ROW, estimator="exakt99")),
        (UnknownNameError, "mean", lambda: core.compute_token_kl(ROW, ROW, reduction="men")),
        (ConfigError, "seq_len is missing", lambda: core.compute_batch_token_kl(ROW, ROW)),
        (ConfigError, "seq_len is 0", lambda: core.compute_batch_token_kl(ROW, ROW, 0)),
        (ConfigError, "expected 2", lambda: core.compute_batch_token_kl(GRID, GRID, 4)),
        (ShapeError, "multiple of", lambda: core.compute_batch_token_kl(ROW, ROW, 3)),
        (ShapeError, "multiple of", lambda: core.compute_batch_token_kl(ROW, ROW, 2**63)),
        (
            ShapeError,
            "log_p has shape",
            lambda: core.compute_batch_token_kl(GRID[None], GRID[None], 2),
        ),
        (
            ShapeError,
            "detached",
            lambda: core.compute_token_kl(torch.zeros(4, requires_grad=True), ROW),
        ),
    ],
)
def test_the_token_kl_refuses_wrong_arguments_by_name(error, match, call):
    with pytest.raises(error, match=match):
        call()
