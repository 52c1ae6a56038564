"""Measures the memory of buffers in separate processes."""

from __future__ import annotations

import subprocess
import sys

import pytest
from helpers.selection import FULL

pytestmark = pytest.mark.alone  # fills memory

# An allocator may hold this much more on any system; each test fills many times as much.
ALLOCATOR = 4 << 20
HEAD = """
import numpy as np
from rlox import ReplayBuffer
def rss():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
rng = np.random.default_rng(0)
n = 20_000
def episodes(dim, dtype=np.float32):
    obs = rng.normal(size=(n + 1, dim)).astype(np.float32)
    flags = np.arange(1, n + 1) % 1_000 == 0
    return obs[:-1], obs[1:], flags
"""


def run(code):
    done = subprocess.run([sys.executable, "-c", HEAD + code], capture_output=True, text=True, check=True)
    return [float(number) for number in done.stdout.split()]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_transition_costs_little_more_than_its_arithmetic_minimum():
    count = 1_000_000 if FULL else 200_000
    held, told = run(f"""
obs, after, flags = episodes(17)
actions, rewards, no = rng.normal(size=(n, 6)).astype(np.float32), np.zeros(n, np.float32), flags & False
small = ReplayBuffer(100, 17, 6)
small.push_batch(obs, actions, rewards, flags, no, after)
before = rss()
buffer = ReplayBuffer({count}, 17, 6)
for _ in range({count} // n):
    buffer.push_batch(obs, actions, rewards, flags, no, after)
print(rss() - before, buffer.nbytes)
""")
    minimum = count * (17 * 4 + 6 * 4 + 4 + 1)  # a byte holds both flags
    assert told <= 1.1 * minimum
    assert held <= 1.1 * minimum + ALLOCATOR


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_full_buffer_takes_no_more_memory():
    rounds = 2_500 if FULL else 100
    first, last = run(f"""
obs, after, flags = episodes(4)
actions, rewards, no = np.zeros((n, 1), np.float32), np.zeros(n, np.float32), flags & False
buffer = ReplayBuffer(100_000, 4, 1)
for i in range({rounds}):
    if i == 20:
        print(rss())
    buffer.push_batch(obs, actions, rewards, flags, no, after)
print(rss())
""")
    assert last - first < ALLOCATOR


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_stacked_frames_are_stored_once():
    count = 200_000 if FULL else 10_000
    held = run(f"""
frames = rng.integers(0, 256, (1_003, 84, 84), dtype=np.uint8)
stacks = np.lib.stride_tricks.sliding_window_view(frames, 4, axis=0)
before = rss()
buffer = ReplayBuffer({count}, obs_shape=(84, 84, 4), obs_dtype="uint8", act_dim=1, frame_stack=(4, "last"))
for t in range({count}):
    buffer.push(stacks[t % 999], 0, 0.0, t % 999 == 998, False, stacks[t % 999 + 1])
print(rss() - before)
""")[0]
    assert held <= 1.2 * count * 84 * 84 + ALLOCATOR


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_images_pushed_in_batches_leave_no_gaps_in_memory():
    # between a loop's arrays, blocks of the allocator's heap took a third more memory
    held = run("""
pool = rng.integers(0, 256, (64, 4, 84, 84), dtype=np.uint8)
at, flags = np.arange(64), np.zeros(64, bool)
def batch():
    return pool[at], np.zeros((64, 1)), np.zeros(64), flags, flags, pool[(at + 1) % 64]
ReplayBuffer(64, obs_shape=(4, 84, 84), obs_dtype="uint8", act_dim=1).push_batch(*batch())
before = rss()
buffer = ReplayBuffer(4_096, obs_shape=(4, 84, 84), obs_dtype="uint8", act_dim=1)
for _ in range(64):
    given = batch()  # while the last is still there
    buffer.push_batch(*given)
print(rss() - before)
""")[0]
    assert held <= 1.2 * 4_096 * 4 * 84 * 84 + ALLOCATOR
