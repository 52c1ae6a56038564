"""Training gives the numbers that it gave (tests/golden/runs, made by its make.py)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from golden.runs import make

from rlox.algorithms import ALGORITHMS

HERE = Path(make.__file__).parent


def check(found, name):
    """Equal bit for bit on the machine type of the files, to 1e-6 on another."""
    with np.load(HERE / f"{name}.npz") as file:
        expected = {key: file[key] for key in file.files}
    here = make.machine()["machine"]
    exact = np.array_equal(expected.pop("machine"), here)
    assert found and found.keys() <= expected.keys()
    for key, got in found.items():
        if exact:
            np.testing.assert_array_equal(got, expected[key], err_msg=key, strict=True)
        else:
            np.testing.assert_allclose(got, expected[key], atol=1e-6, rtol=1e-6, err_msg=key)


@pytest.mark.parametrize("name", make.CASES)
def test_the_first_updates_leave_the_weights_moments_and_metrics_they_left(name):
    run = make.made(name)
    found = make.trace(run)
    run.close()
    assert len({key.partition("/")[0] for key in found}) == make.UPDATES
    check(found, name)


@pytest.mark.parametrize("name", make.CASES)
def test_a_checkpoint_of_an_earlier_version_goes_on_as_it_would_have(name):
    run = make.CASES[name][0].from_checkpoint(HERE / name)
    found = make.trace(run, first=make.SAVED_AFTER)
    run.close()
    check(found, name)


def test_every_algorithm_has_a_trace():
    assert {facade for facade, _ in make.CASES.values()} == set(ALGORITHMS.values())
