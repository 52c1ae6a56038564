"""Compares results with the expectations of a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from helpers.callables.engine import Approximate, IntegerRange, largest


def assert_same(got: dict[str, Any], expected: dict[str, Any]) -> None:
    """Assert that the numbers are equal, without any tolerance."""
    assert got.keys() == expected.keys()
    for name, array in expected.items():
        if isinstance(array, dict):
            assert_same(got[name], array)
            continue
        assert got[name].dtype == array.dtype, name
        # NumPy's assertion takes four times as long, so only its message is used.
        if not np.array_equal(got[name], array, equal_nan=array.dtype.kind == "f"):
            np.testing.assert_array_equal(got[name], array, err_msg=name)


def assert_equal(got: Any, expected: Any, tolerance: float, scale: float = 1.0) -> None:
    if isinstance(expected, Approximate):
        assert_equal(got, expected.value, expected.tolerance, expected.scale)
    elif isinstance(expected, IntegerRange):
        assert isinstance(got, int)
        assert expected.low <= got <= expected.high
    elif isinstance(expected, dict):
        assert isinstance(got, dict)
        assert got.keys() == expected.keys()
        for key in expected:
            assert_equal(got[key], expected[key], tolerance, scale)
    elif isinstance(expected, (tuple, list)):
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            assert_equal(one, other, tolerance, scale)
    elif isinstance(expected, np.ndarray):
        assert got.dtype == expected.dtype
        assert got.shape == expected.shape
        if expected.dtype.kind != "f":
            np.testing.assert_array_equal(got, expected)
            return
        if expected.dtype == np.float32:
            tolerance = max(tolerance, 1e-5)
        if tolerance == np.inf:
            return
        scale = max(scale, largest(expected))
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * scale)
    elif tolerance == np.inf:
        assert isinstance(got, type(expected))
    elif isinstance(expected, float):
        assert got == pytest.approx(expected, rel=tolerance, abs=tolerance, nan_ok=True)
    else:
        assert got == expected
