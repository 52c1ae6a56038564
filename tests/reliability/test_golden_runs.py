"""Tests that training repeats recorded numbers (tests/golden/runs), in kernels that all x86 CPUs have."""

from __future__ import annotations

import json
import platform

import numpy as np
import pytest
import torch
from golden import training
from golden.cases import CASES, PINNED
from golden.files import HERE, ROOT, load_index, read
from golden.making import MADE
from helpers import pinned_floats
from safetensors.numpy import load_file

import rlox.algorithms
from rlox.algorithms import ALGORITHMS
from rlox.configs import ALGO_CONFIGS

ANYWHERE = platform.machine() in ("x86_64", "AMD64")
"""Whether pinned kernels equal those of the golden files."""


def trace(place, names):
    """Return the folder to which a child with pinned kernels writes the arrays of these cases."""
    pinned_floats.run("golden", "trace", str(place), *names)
    assert json.loads((place / MADE).read_text())["failed"] == {}
    return place


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """Make the six runs that CI compares, in one process."""
    names = [name for run in PINNED for name in (f"runs/{run}", f"runs/{run}.after")]
    return trace(tmp_path_factory.mktemp("six"), names)


@pytest.fixture(scope="module")
def all_traced(tmp_path_factory):
    """Make every case, in one process."""
    return trace(tmp_path_factory.mktemp("all"), [])


def assert_as_recorded(place, name):
    """Require equal bits if torch and numpy have the file's versions; others may sum differently."""
    found, expected = read(place / f"{name}.npz"), read(HERE / f"{name}.npz")
    index = load_index()
    made = index["made"][index["files"][f"{name}.npz"]["made"]]
    here = {"torch": torch.__version__, "numpy": np.__version__}
    exact = ANYWHERE and {key: made[key] for key in here} == here
    assert found and found.keys() == expected.keys()
    for key, got in found.items():
        if exact or name.partition("/")[0] != "runs":
            assert got.dtype == expected[key].dtype and got.shape == expected[key].shape, key
            assert got.tobytes() == expected[key].tobytes(), f"{name}: {key}"
        else:
            np.testing.assert_allclose(got, expected[key], atol=1e-6, rtol=1e-6, err_msg=key)


@pytest.mark.parametrize("name", PINNED)
def test_a_pinned_run_repeats_its_recorded_arrays(name, traced):
    assert_as_recorded(traced, f"runs/{name}")


@pytest.mark.parametrize("name", PINNED)
def test_a_pinned_run_goes_on_from_a_checkpoint_of_an_earlier_version(name, traced):
    assert_as_recorded(traced, f"runs/{name}.after")


@pytest.mark.parametrize("name", training.RUNS)
def test_a_checkpoint_of_an_earlier_version_opens_with_its_weights(name, monkeypatch):
    monkeypatch.chdir(ROOT)  # some checkpoints name a dataset or a model relative to the root
    folder = HERE / "runs" / name
    run = getattr(rlox.algorithms, training.RUNS[name][0]).from_checkpoint(folder)
    weights = {key: np.asarray(value) for key, value in run.learner.state()["weights"].items()}
    run.close()
    expected = load_file(folder / "weights.safetensors")
    assert run.clock.updates > 0
    assert weights.keys() == expected.keys()
    for key, array in expected.items():
        np.testing.assert_array_equal(weights[key], array, err_msg=key, strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CASES if (HERE / f"{name}.npz").exists()])
def test_every_golden_case_repeats_its_recorded_arrays(name, all_traced):
    """The cases are runs from their start and from checkpoints of earlier versions, buffers, environments."""
    assert_as_recorded(all_traced, name)


def test_every_algorithm_and_every_native_engine_has_a_trace():
    runs = training.RUNS.values()
    assert {facade for facade, _ in runs} == {facade.__name__ for facade in ALGORITHMS.values()}
    native = {facade for facade, options in runs if options.get("backend") == "native"}
    assert native == {facade.__name__ for facade in ALGORITHMS.values() if has_native(facade)}


def has_native(facade):
    """Whether an algorithm has a Rust engine for its updates."""
    backend = ALGO_CONFIGS[facade.name].__dataclass_fields__["backend"]
    return "native" in backend.metadata["choices"]


def test_the_pinned_runs_cover_each_kind_of_learning():
    facades = {training.RUNS[name][0] for name in PINNED}
    assert facades == {"PPO", "SAC", "RecurrentPPO", "IQL", "GRPO"}
    assert {training.RUNS[name][1].get("backend", "torch") for name in PINNED} == {
        "torch",
        "native",
    }
