"""Check that the compared systems compute the same results."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from harness.case import Results, Tolerance


class DisagreementError(Exception):
    """Two systems of one case return different numbers."""


def check_agreement(reference: str, results: Mapping[str, Results], tolerance: Tolerance, case: str) -> None:
    """Compare every system's arrays with the arrays of the same name of `reference`.

    Raises:
        DisagreementError: numbers differ by more than `tolerance`, or no name is shared.
    """
    expected = results[reference]
    for name, result_arrays in results.items():
        shared_names = expected.keys() & result_arrays.keys()
        if not shared_names:
            raise DisagreementError(f"{case}: {name} and {reference} share no result to compare")
        for key in sorted(shared_names):
            try:
                np.testing.assert_allclose(
                    np.asarray(result_arrays[key], np.float64).ravel(),
                    np.asarray(expected[key], np.float64).ravel(),
                    rtol=tolerance.relative,
                    atol=tolerance.absolute,
                )
            except AssertionError as error:
                raise DisagreementError(
                    f"{case}: {key} of {name} differs from {reference}'s: {error}"
                ) from error
