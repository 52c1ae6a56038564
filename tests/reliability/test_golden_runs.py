"""Training gives the numbers that it gave (tests/golden/runs, made by its make.py)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from golden.runs import make
from safetensors.numpy import load_file

from rlox.algorithms import ALGORITHMS
from rlox_cli.main import main

pytestmark = pytest.mark.smoke

HERE = Path(make.__file__).parent


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
    """Where the dataset is found that one of the runs learned from."""
    monkeypatch.chdir(HERE.parents[2])


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
    check(found, f"{name}.after")


def test_a_run_folder_of_an_earlier_version_goes_on_to_the_weights_it_would_have_had(tmp_path):
    """One of 256 steps, made before rows were means, and the weights at 512 of the same version."""
    run = shutil.copytree(HERE / "folder", tmp_path / "run", symlinks=True)
    before = (run / "metrics.jsonl").read_text()
    assert main(["train", f"resume={run}", "total_steps=512"]) == 0
    found = load_file(run / "checkpoints" / "last" / "weights.safetensors")
    expected = load_file(HERE / "folder.after.safetensors")
    exact = np.array_equal(np.load(HERE / "discrete.npz")["machine"], make.machine()["machine"])
    assert found.keys() == expected.keys()
    for name, weights in found.items():
        np.testing.assert_allclose(weights, expected[name], rtol=0, atol=0 if exact else 1e-6)
    after = (run / "metrics.jsonl").read_text()
    kept = [json.loads(line)["env_steps"] for line in after.splitlines()]
    assert kept == sorted(kept)
    assert after.startswith("".join(before.splitlines(True)[:2]))
    assert json.loads((run / "result.json").read_text())["env_steps"] == 512


def test_every_algorithm_has_a_trace():
    assert {facade for facade, _ in make.CASES.values()} == set(ALGORITHMS.values())
