"""Tests that large batches, which threads copy past the caches, have the rows of their indices."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rlox import ReplayBuffer

STACK, CAPACITY = (4, 84, 84), 64
BATCH = 700  # obs and next_obs are 40 MB; more than 32 MiB bypass the caches
WINDOWS = 1_300  # of several steps; they gather both columns one after the other, 37 MB each
KINDS = {"rows": None, "frames": (4, "first")}
FRAMES = np.random.default_rng(0).integers(0, 256, (CAPACITY + STACK[0], 84, 84), np.uint8)


def filled(kind) -> ReplayBuffer:
    settings = {"obs_shape": STACK, "obs_dtype": "uint8", "frame_stack": KINDS[kind]}
    buffer = ReplayBuffer(CAPACITY, act_dim=1, **settings)
    for i in range(CAPACITY):
        buffer.push(stack(i), [i], i, False, False, stack(i + 1))
    return buffer


def stack(i):
    return FRAMES[i : i + STACK[0]]


def batches(kind):
    """Yields steps and a batch of each size: of single rows, and of windows of three steps."""
    buffer = filled(kind)
    yield 1, buffer.sample(BATCH, 1)
    yield 3, buffer.sample(WINDOWS, 1, n_step=3, gamma=0.9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_batch_has_the_rows_of_its_indices(kind):
    for steps, batch in batches(kind):
        assert len(np.unique(batch["indices"])) > 32
        for i, index in enumerate(batch["indices"].astype(int)):
            np.testing.assert_array_equal(batch["obs"][i], stack(index))
            after = stack(min(index + steps, CAPACITY))
            np.testing.assert_array_equal(batch["next_obs"][i], after)


def digest(kind) -> str:
    """Returns the digest of the batches, which all bypass the caches."""
    found = hashlib.sha256()
    for steps, batch in batches(kind):
        assert batch["obs"].nbytes * (2 if steps == 1 else 1) >= 32 * 2**20
        for array in batch.values():
            found.update(np.ascontiguousarray(array))
    return found.hexdigest()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_the_number_of_threads_changes_no_byte_of_a_batch(threads, kind):
    program = f"import test_large_batches as t; print(t.digest({kind!r}))"
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parent,
        env=os.environ | {"RAYON_NUM_THREADS": str(threads)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == digest(kind)


def test_every_row_of_a_large_buffer_is_followed_by_its_own_next_observation():
    # chunks of several megabytes that end within pages
    rows, dim = 600_000, 9
    obs = np.arange((rows + 1) * dim, dtype=np.float64).reshape(rows + 1, dim)
    buffer = ReplayBuffer(rows, dim, 1, obs_dtype="float64")
    no = np.zeros(rows, bool)
    buffer.push_batch(obs[:-1], np.zeros((rows, 1)), np.zeros(rows), no, no, obs[1:])
    batch = buffer.gather(np.arange(rows, dtype=np.uint64))
    np.testing.assert_array_equal(batch["obs"], obs[:-1])
    np.testing.assert_array_equal(batch["next_obs"], obs[1:])
