"""Tests that rlox reads buffers, states and snapshots of earlier versions (tests/golden) as they did."""

from __future__ import annotations

import shutil
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from golden import formats
from golden.files import HERE
from helpers.tagged_buffers import RINGS, TIERED, dataset

import rlox
from rlox.errors import CheckpointError


def recorded(name):
    """Read the arrays of a file; an array without dimensions becomes a Python object."""
    with np.load(HERE / f"{name}.npz") as file:
        return {key: file[key] if file[key].ndim else file[key].item() for key in file.files}


def check(found, name):
    """Require that everything equals the record exactly, with types and shapes."""
    expected = recorded(name)
    expected = {key: value for key, value in expected.items() if not key.startswith("snapshot/")}
    assert found.keys() == expected.keys()
    for key, array in expected.items():
        got = np.asarray(found[key])
        assert got.dtype == np.asarray(array).dtype, key
        np.testing.assert_array_equal(got, array, err_msg=key, strict=isinstance(array, np.ndarray))


def copied(name, tmp_path):
    """Make a writable copy of a golden folder."""
    return Path(shutil.copytree(HERE / name, tmp_path / name))


@pytest.mark.parametrize("name", RINGS)
def test_a_saved_buffer_loads_with_its_rows_and_draws_and_goes_on(name, tmp_path):
    case = RINGS[name]
    buffer = case.make(tmp_path, seed=0)
    buffer.load(copied(f"buffers/{name}", tmp_path))
    check(formats.contents(case, buffer, case.held_indices()), f"buffers/{name}")


@pytest.mark.parametrize("name", RINGS)
def test_a_state_restores_with_its_rows_and_draws_and_goes_on(name, tmp_path):
    case = RINGS[name]
    buffer = case.make(tmp_path, seed=0)
    buffer.restore(recorded(f"buffers/{name}.state2"))
    check(formats.contents(case, buffer, case.held_indices()), f"buffers/{name}")


@pytest.mark.parametrize("name", ["plain", "prioritized"])
def test_a_state_of_format_1_is_refused_with_its_version(name, tmp_path):
    buffer = RINGS[name].make(tmp_path, seed=0)
    with pytest.raises(CheckpointError, match="format is 1, expected 2"):
        buffer.restore(recorded(f"old/2026-11-21/{name}.state1"))
    assert len(buffer) == 0


@pytest.mark.parametrize("name", TIERED)
def test_a_reopened_buffer_on_disk_has_its_recorded_rows(name, tmp_path):
    case = TIERED[name]
    buffer = case.make(copied(f"buffers/{name}", tmp_path))
    buffer.verify()
    check(formats.contents(case, buffer, case.held_indices()), f"buffers/{name}.newest")
    buffer.close()


@pytest.mark.parametrize("name", TIERED)
def test_a_named_save_of_a_buffer_on_disk_loads_exactly(name, tmp_path):
    case = TIERED[name]
    buffer = case.make(copied(f"buffers/{name}", tmp_path), seed=0)
    buffer.load("named")
    held = recorded(f"buffers/{name}.named")["gather/indices"]
    check(formats.contents(case, buffer, held), f"buffers/{name}.named")
    buffer.close()


@pytest.mark.parametrize(("name", "normalize"), [("dataset", False), ("dataset_normalized", True)])
def test_a_saved_dataset_loads_with_its_rows_moments_and_draws(name, normalize, tmp_path):
    data = dataset(normalize=normalize, seed=0, real=False)
    data.load(copied(f"buffers/{name}", tmp_path))
    check(formats.draws(data), f"buffers/{name}")


def snapshot(name):
    """Return a recorded snapshot as `snapshot()` returned it."""
    return {k.removeprefix("snapshot/"): v for k, v in recorded(name).items() if "snapshot/" in k}


@pytest.mark.parametrize("precision", ["f64", "f32"])
@pytest.mark.parametrize("env_id", formats.ENVS)
def test_a_snapshot_of_a_batch_of_environments_goes_on_step_by_step(env_id, precision):
    env = rlox.VecEnv(4, seed=0, env_id=env_id, precision=precision)
    env.restore(snapshot(f"environments/{env_id}.{precision}"))
    check(formats.steps_of_batch(env, 60), f"environments/{env_id}.{precision}")


@pytest.mark.parametrize("env_id", formats.ENVS)
def test_a_snapshot_of_one_environment_goes_on_step_by_step(env_id):
    env = rlox.SingleEnv(env_id, seed=0)
    env.restore(snapshot(f"environments/{env_id}.single"))
    check(formats.steps_of_one(env, 2), f"environments/{env_id}.single")


@pytest.mark.parametrize("suffix", ["manifest", "seg"])
def test_a_file_of_a_later_version_is_refused_with_both_versions(suffix, tmp_path):
    folder = copied("buffers/plain", tmp_path)
    for path in folder.glob(f"*.{suffix}"):
        data = bytearray(path.read_bytes())
        struct.pack_into("<I", data, 8, 2)
        (head,) = struct.unpack_from("<I", data, 12)
        struct.pack_into("<I", data, head - 4, zlib.crc32(data[: head - 4]))
        path.write_bytes(data)
    with pytest.raises(CheckpointError, match=rf"\.{suffix} .*version 2, expected 1"):
        RINGS["plain"].make(tmp_path).load(folder)


def test_a_state_or_snapshot_of_a_later_version_is_refused_with_both_versions(tmp_path):
    state = recorded("buffers/plain.state2")
    with pytest.raises(CheckpointError, match="format is 3, expected 2"):
        RINGS["plain"].make(tmp_path).restore(state | {"format": 3})
    env = rlox.VecEnv(4, env_id="CartPole-v1")
    now = snapshot("environments/CartPole-v1.f64")
    with pytest.raises(CheckpointError, match=rf"format.*{now['format'] + 1}.*{now['format']}"):
        env.restore(now | {"format": now["format"] + 1})
