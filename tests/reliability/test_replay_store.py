"""Tests that replay on disk survives kill -9, and that rlox finds and names damage without a crash."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from faults.report import record
from helpers.selection import FULL

import rlox
from rlox.errors import CheckpointError, StorageError

ROWS = 20_000
# Frames as in Atari, four per stack; the row of step t depends on t only.
WRITER = """
import sys
import numpy as np
import rlox

path, total = sys.argv[1], int(sys.argv[2])
buffer = rlox.MmapReplayBuffer(500, total, obs_shape=(4, 84, 84), obs_dtype="uint8", act_dim=1,
                               cold_path=path, frame_stack=(4, "first"))
noise = np.random.default_rng(0).integers(0, 256, (64, 84, 84), np.uint8)
def stack(t):
    return np.stack([noise[k % 64] + np.uint8(k // 64 % 251) for k in range(t, t + 4)])
t = 0
while True:
    buffer.push(stack(t), t % 6, float(t % 1000), t % 500 == 499, False, stack(t + 1))
    t += 1
    if t % 100 == 0:
        print(t, t - buffer.n_unsealed, flush=True)
"""


def stack(t):
    """Return the observation of step t, as the writer makes it."""
    noise = stack.noise
    return np.stack([noise[k % 64] + np.uint8(k // 64 % 251) for k in range(t, t + 4)])


stack.noise = np.random.default_rng(0).integers(0, 256, (64, 84, 84), np.uint8)


def open_atari(path, total):
    """Open the buffer that the writer fills."""
    return rlox.MmapReplayBuffer(
        500, total, obs_shape=(4, 84, 84), obs_dtype="uint8", act_dim=1,
        cold_path=path, frame_stack=(4, "first"),
    )  # fmt: skip


def killed_after(path, rows, total):
    """Run the writer, kill it after `rows` pushed rows, and return the rows that it reported as sealed."""
    command = [sys.executable, "-c", WRITER, str(path), str(total)]
    environment = {**os.environ, "PYTHONPATH": str(Path(rlox.__file__).parents[1])}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    sealed = 0
    for line in process.stdout:
        pushed, sealed = map(int, line.split())
        if pushed >= rows:
            break
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
    return sealed


@pytest.mark.parametrize("rows", [700, ROWS])
def test_every_sealed_row_is_there_after_kill_9(tmp_path, rows):
    path = tmp_path / "cold"
    total = rows - 200  # so that the oldest rows are removed
    sealed = killed_after(path, rows, total)
    buffer = open_atari(path, total)
    buffer.verify()
    batch = buffer.sample(300, seed=0)
    newest = int(batch["indices"].max())
    for row, index in enumerate(batch["indices"].astype(int)):
        np.testing.assert_array_equal(batch["obs"][row], stack(index))
        np.testing.assert_array_equal(batch["next_obs"][row], stack(index + 1))
        assert batch["actions"][row, 0] == index % 6 and batch["rewards"][row] == index % 1000
        assert batch["terminated"][row] == (index % 500 == 499)
    assert len(buffer) >= min(sealed, total) and newest >= sealed - 0.1 * total
    per_row = buffer.disk_bytes / len(buffer)
    record(f"replay_store_kill_{rows}", {"rows": len(buffer), "disk_bytes_per_row": round(per_row)})
    # Up to one segment more than the rows; rlox removes it when its last row has left the ring.
    assert buffer.disk_bytes < 84 * 84 * 1.03 * (len(buffer) + 200)
    buffer.push(stack(0), 0, 0.0, False, False, stack(1))
    buffer.close()


def small(path):
    """Make a store of 400 rows."""
    buffer = rlox.MmapReplayBuffer(20, 400, 6, 2, cold_path=path)
    rng = np.random.default_rng(0)
    for _ in range(500):
        buffer.push(rng.normal(size=6), rng.normal(size=2), 0.0, False, False, rng.normal(size=6))
    buffer.close(keep=True)


def test_flipped_bits_and_truncations_are_found_and_named(tmp_path):
    path = tmp_path / "cold"
    small(path)
    files = sorted(file for file in path.iterdir() if file.name != "lock")
    rng = random.Random(0)
    cases = 1_000 if FULL else 100
    for case in range(cases):
        file = rng.choice(files)
        good = file.read_bytes()
        bad = bytearray(good)
        at = rng.randrange(len(good))
        if case % 4:
            bad[at] ^= 1 << rng.randrange(8)
        else:
            del bad[at:]
        file.write_bytes(bad)
        with pytest.raises(CheckpointError, match=rf"{file.name} is damaged at byte \d+"):
            rlox.MmapReplayBuffer(20, 400, 6, 2, cold_path=path).verify()
        file.write_bytes(good)
    record("replay_store_damage", {"cases": cases, "found": cases, "signals": 0})
    rlox.MmapReplayBuffer(20, 400, 6, 2, cold_path=path).verify()


def test_sampling_missing_rows_of_a_truncated_file_raises(tmp_path):
    path = tmp_path / "cold"
    small(path)
    buffer = rlox.MmapReplayBuffer(20, 400, 6, 2, cold_path=path)
    for file in path.glob("*.seg"):
        os.truncate(file, file.stat().st_size // 2)
    with pytest.raises(CheckpointError, match=r"\.seg is damaged at byte"):
        buffer.sample(500, seed=0)


@pytest.mark.parametrize("kill_at", range(3))
def test_a_save_that_was_killed_leaves_the_one_before(tmp_path, kill_at):
    script = f"""
import numpy as np, os, signal, sys, threading
import rlox
buffer = rlox.ReplayBuffer(3_000, 64, 1)
rows = np.zeros((1_000, 64), np.float32) + np.arange(1_000)[:, None]
flags = np.zeros(1_000, bool)
buffer.push_batch(rows, flags[:, None], flags, flags, flags, rows)
buffer.save(sys.argv[1], "last")
threading.Timer(0.002 * (1 + 3 * {kill_at}), os.kill, (os.getpid(), signal.SIGKILL)).start()
while True:
    buffer.push_batch(rows, flags[:, None], flags, flags, flags, rows)
    buffer.save(sys.argv[1], "last")
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(rlox.__file__).parents[1])}
    command = [sys.executable, "-c", script, str(tmp_path)]
    assert subprocess.run(command, env=environment, check=False).returncode == -signal.SIGKILL
    buffer = rlox.ReplayBuffer(3_000, 64, 1)
    buffer.load(tmp_path)
    batch = buffer.sample(500, seed=0)
    assert len(buffer) in (1_000, 2_000, 3_000)
    np.testing.assert_array_equal(batch["obs"][:, 0], batch["indices"] % 1_000)
    assert buffer.save(tmp_path) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_surviving_forked_child_does_not_keep_the_folder_locked(tmp_path):
    script = """
import os, sys, time
import rlox
buffer = rlox.MmapReplayBuffer(20, 400, 6, 2, cold_path=sys.argv[1])
buffer.push([1.0] * 6, [0.0] * 2, 1.0, True, False)
buffer.flush()
if not os.fork():
    print(os.getpid(), flush=True)
time.sleep(600)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(rlox.__file__).parents[1])}
    command = [sys.executable, "-c", script, str(tmp_path / "cold")]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    try:
        with pytest.raises(StorageError, match="another buffer or process"):
            rlox.MmapReplayBuffer(20, 400, 6, 2, cold_path=tmp_path / "cold")
        parent.kill()
        parent.wait()
        os.kill(child, 0)  # It is alive.
        assert len(rlox.MmapReplayBuffer(20, 400, 6, 2, cold_path=tmp_path / "cold")) == 1
    finally:
        parent.kill()
        os.kill(child, signal.SIGKILL)
        parent.stdout.close()
