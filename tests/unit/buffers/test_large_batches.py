"""Batches that several threads copy, past the caches: the rows of their indices all the same."""

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
BATCH = 700  # obs and next_obs are 40 MB: more than 32 MiB go past the caches
FRAMES = np.random.default_rng(0).integers(0, 256, (CAPACITY + STACK[0], 84, 84), np.uint8)


def filled(**more) -> ReplayBuffer:
    buffer = ReplayBuffer(CAPACITY, obs_shape=STACK, obs_dtype="uint8", act_dim=1, **more)
    for i in range(CAPACITY):
        buffer.push(stack(i), [i], i, False, False, stack(i + 1))
    return buffer


def stack(i):
    return FRAMES[i : i + STACK[0]]


@pytest.mark.parametrize("more", [{}, {"frame_stack": (4, "first")}], ids=["rows", "frames"])
def test_a_large_batch_has_the_rows_of_its_indices(more):
    batch = filled(**more).sample(BATCH, 1)
    assert len(np.unique(batch["indices"])) > 32
    for i, index in enumerate(batch["indices"].astype(int)):
        np.testing.assert_array_equal(batch["obs"][i], stack(index))
        np.testing.assert_array_equal(batch["next_obs"][i], stack(index + 1))


def digest() -> str:
    """Of a batch, and of windows of three steps."""
    buffer = filled()
    batches = [buffer.sample(BATCH, 1), buffer.sample(BATCH, 1, n_step=3, gamma=0.9)]
    parts = [np.ascontiguousarray(array) for batch in batches for array in batch.values()]
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_the_number_of_threads_changes_no_byte_of_a_batch(threads):
    program = "import test_large_batches as t; print(t.digest())"
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parent,
        env=os.environ | {"RAYON_NUM_THREADS": str(threads)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == digest()
