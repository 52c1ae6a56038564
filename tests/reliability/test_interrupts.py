"""Tests that Ctrl-C ends a long data-plane call in a moment, with the object in its state before or after it.

A moment is 0.2 s plus a twentieth of the present duration of the whole call, plus the time in which a Python
loop sees a signal. The best of `TRIES` counts, since another process may take the core at that moment. An
uninterrupted call takes `LONG` seconds, so a call that ignores signals cannot pass. If the largest call
takes less than a moment, there is nothing to interrupt.
"""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults.interrupts import Interrupter
from faults.report import record
from helpers.selection import FULL

import rlox

pytestmark = pytest.mark.alone  # measures seconds from a signal to the end of a call

LONG = 1.5 if FULL else 0.8
MOMENTS = 4 if FULL else 1
TRIES = 6


@dataclass
class Call:
    """A long call on an object of size n."""

    make: Callable[[int, Path], Any]
    call: Callable[[Any], object]
    state: Callable[[Any], Any] = lambda thing: None
    begin: int = 100_000
    most: int = 1 << 28
    short: bool = False
    """Whether the short test run includes the call."""
    extra: dict[str, Any] = field(default_factory=dict)


def digest(tree: Any) -> str:
    """Hash a dict of arrays and numbers."""
    parts = [f"{k}{np.asarray(v).dtype}".encode() + np.asarray(v).tobytes() for k, v in tree.items()]
    return hashlib.blake2b(b"".join(parts)).hexdigest()


def rows(n: int, dim: int) -> list[Any]:
    obs, flags = np.ones((n, dim), np.float32), np.arange(n) % 100 == 99
    return [obs, obs[:, :1], obs[:, 0], flags, np.zeros(n, bool), obs]


def filled(kind: Any, capacity: int, dim: int, **more: Any) -> Any:
    buffer = kind(capacity, dim, 1, **more)
    for _ in range(0, capacity, 10_000):
        buffer.push_batch(*rows(min(capacity, 10_000), dim))
    return buffer


def sampling(kind: Any) -> Callable[[int, Path], Any]:
    return lambda n, path: (filled(kind, 50_000, 3), n)


def tiered(n: int, path: Path) -> Any:
    buffer = rlox.MmapReplayBuffer(100, 20_000, 3, 1, path / "cold")
    buffer.push_batch(*rows(20_000, 3))
    return buffer, n


def pushing(n: int, path: Path) -> Any:
    # Contiguous, since an interrupt does not stop NumPy's own copy.
    return rlox.ReplayBuffer(n, 32, 1), [np.ascontiguousarray(array) for array in rows(n, 32)]


def pushing_mixed(n: int, path: Path) -> Any:
    buffer = rlox.ReplayBuffer(n, 8, 1, n_envs=4)
    arrays = [np.ascontiguousarray(array) for array in rows(n, 8)]
    return buffer, arrays, np.arange(n) % 4


def pushing_priorities(n: int, path: Path) -> Any:
    arrays = [np.ascontiguousarray(array) for array in rows(n, 8)]
    return rlox.PrioritizedReplayBuffer(n // 2, 8, 1), [*arrays, np.ones(n)]


def updating(n: int, path: Path) -> Any:
    buffer = filled(rlox.PrioritizedReplayBuffer, 1_000_000, 1)
    return buffer, np.random.default_rng(0).integers(0, 1_000_000, n).astype(np.uint64), np.ones(n)


def pushing_stacks(n: int, path: Path) -> Any:
    frames = np.random.default_rng(0).integers(0, 256, (n + 4, 8, 8), np.uint8)
    stacks = np.lib.stride_tricks.sliding_window_view(frames, 4, axis=0)
    _, *middle, _ = rows(n, 1)
    buffer = rlox.ReplayBuffer(n, obs_shape=(8, 8, 4), obs_dtype="uint8", act_dim=1, frame_stack=(4, "last"))
    return buffer, [
        np.ascontiguousarray(stacks[:n]),
        *middle,
        np.ascontiguousarray(stacks[1 : n + 1]),
    ]


def saving(n: int, path: Path) -> Any:
    return filled(rlox.ReplayBuffer, n, 64), path / "saved"


def save(at: Any) -> None:
    at[0].save(at[1], "another")


def loading(n: int, path: Path) -> Any:
    buffer, folder = saving(n, path)
    if not folder.exists():
        buffer.save(folder)
    buffer.push(*[part[0] for part in rows(1, 64)])
    return buffer, folder


def stepping(n: int, path: Path) -> Any:
    env = rlox.VecEnv(n, seed=0, env_id="Acrobot-v1")
    env.reset_all()
    return env, np.ones(n, np.int64)


def matrix(*names: str) -> Callable[[int, Path], Any]:
    return lambda n, path: dict.fromkeys(names, np.full((n // 512 + 1, 512), -0.5))


def buffer_state(at: Any) -> str:
    return digest(at[0].state())


CALLS = {
    "sample of n-step windows": Call(
        sampling(rlox.ReplayBuffer),
        lambda at: at[0].sample(at[1], n_step=200, gamma=0.99),
        buffer_state, most=20_000_000, short=True,
    ),
    "sample by priority": Call(
        sampling(rlox.PrioritizedReplayBuffer), lambda at: at[0].sample(at[1]),
        buffer_state, most=20_000_000,
    ),
    "sample of sequences": Call(
        sampling(rlox.SequenceReplayBuffer), lambda at: at[0].sample(at[1], 64),
        buffer_state, most=300_000,
    ),
    "sample from disk": Call(
        tiered, lambda at: at[0].sample(at[1], seed=0), lambda at: len(at[0]), most=20_000_000
    ),
    "push_batch": Call(
        pushing, lambda at: at[0].push_batch(*at[1]), buffer_state, most=4_000_000, short=True
    ),
    "push_batch to environments": Call(
        pushing_mixed, lambda at: at[0].push_batch(*at[1], env_ids=at[2]), buffer_state,
        most=8_000_000,
    ),
    "push_batch with priorities": Call(
        pushing_priorities, lambda at: at[0].push_batch(*at[1]), buffer_state, most=16_000_000
    ),
    "update": Call(
        updating,
        lambda at: at[0].update("rewards", at[1], at[2].astype(np.float32)),
        buffer_state, most=60_000_000,
    ),
    "update_priorities": Call(
        updating, lambda at: at[0].update_priorities(at[1], 5 * at[2]),
        buffer_state, most=40_000_000,
    ),
    "making a prioritized buffer": Call(
        lambda n, path: n, lambda n: rlox.PrioritizedReplayBuffer(n, 1, 1), most=1 << 28
    ),
    "push_batch of stacks": Call(
        pushing_stacks, lambda at: at[0].push_batch(*at[1]), buffer_state, most=2_000_000
    ),
    "save": Call(saving, save, buffer_state, most=2_000_000),
    "load": Call(loading, lambda at: at[0].load(at[1]), buffer_state, most=4_000_000),
    "step_all": Call(
        stepping, lambda at: at[0].step_all(at[1]), lambda at: digest(at[0].snapshot()),
        begin=1_000_000, most=6_000_000, short=True,
    ),
    "compute_gae_time_major": Call(
        matrix("rewards", "values", "next_values", "terminated"),
        lambda at: rlox.compute_gae_time_major(**at | {"terminated": at["rewards"] > 0}),
        most=40_000_000,
    ),
    "compute_vtrace": Call(
        matrix("log_rhos", "rewards", "values"),
        lambda at: rlox.compute_vtrace(
            **{k: v.ravel() for k, v in at.items()}, bootstrap_value=0.0,
            terminated=np.zeros(at["rewards"].size, bool),
        ),
        most=40_000_000,
    ),
    "compute_batch_token_kl": Call(
        matrix("log_p", "log_q"), lambda at: rlox.compute_batch_token_kl(**at), most=100_000_000
    ),
    "compute_batch_group_advantages": Call(
        matrix("rewards"),
        lambda at: rlox.compute_batch_group_advantages(at["rewards"].ravel(), 16),
        most=100_000_000,
    ),
}  # fmt: skip
NAMES = [name for name, call in CALLS.items() if FULL or call.short]


def seconds(work: Callable[[], object]) -> float:
    begin = time.monotonic()
    work()
    return time.monotonic() - begin


def sized(call: Call, path: Path) -> tuple[int, float]:
    """Return a size for a call of about `LONG` seconds (or the largest size), and its seconds."""
    n = call.begin
    while True:
        thing = call.make(n, path / str(n))
        taken = seconds(lambda thing=thing: call.call(thing))
        if taken > LONG / 2 or n == call.most:
            return n, taken
        n = min(call.most, int(n * min(1.2 * LONG / taken, 50)))


@pytest.mark.parametrize("name", NAMES)
def test_ctrl_c_ends_a_long_call_soon_and_leaves_a_consistent_object(name, tmp_path):
    call = CALLS[name]
    n, whole = sized(call, tmp_path)
    after = call.make(n, tmp_path / "after")
    call.call(after)
    rng, allowed = random.Random(name), 0.2 + whole / 20
    waits, ends = [], []
    with Interrupter() as interrupter:
        for moment in range(MOMENTS):
            tries = []
            for attempt in range(TRIES):
                thing = call.make(n, tmp_path / f"{moment} {attempt}")
                before = call.state(thing)
                # sooner in each try: a busy machine measures a longer call than the interrupted one
                delay = rng.uniform(0.05, 0.5) * whole / 2**attempt
                found = interrupter.during(lambda thing=thing: call.call(thing), delay)
                assert call.state(thing) in (before, call.state(after))
                tries.append(found.seconds - interrupter.lateness())
                ends.append(found.raised)
                if found.raised and tries[-1] < allowed:
                    break
            waits.append(min(tries))
    assert any(ends) or whole < allowed, "never interrupted"
    longest = {"of a call of": round(whole, 2), "longest": round(max(waits), 3)}
    assert max(waits) < allowed, longest
    record(f"Ctrl-C in {name}", {"moments": MOMENTS, **longest})


def test_an_interrupted_save_leaves_the_last_one_and_an_interrupted_load_the_rows(tmp_path):
    n = 400_000 if FULL else 100_000
    buffer = filled(rlox.ReplayBuffer, n, 64)
    buffer.save(tmp_path / "good")
    buffer.push(*[part[0] for part in rows(1, 64)])
    with Interrupter() as interrupter:
        for part in (0.1, 0.3, 0.6):
            # another folder in between, so that the save writes all rows again
            whole = seconds(lambda: buffer.save(tmp_path / "other"))
            interrupter.during(lambda: buffer.save(tmp_path / "good"), part * whole)
    read = rlox.ReplayBuffer(n, 64, 1)
    read.load(tmp_path / "good")
    assert read.n_pushed in (n, n + 1) and len(read) == n
    assert (read.sample(100, seed=0)["obs"] == 1).all()
    whole, pushed = seconds(lambda: read.load(tmp_path / "good")), read.n_pushed
    with Interrupter() as interrupter:
        for part in (0.1, 0.5):
            read.push(*[part[0] for part in rows(1, 64)])
            interrupter.during(lambda: read.load(tmp_path / "good"), part * whole)
            assert read.n_pushed in (pushed, pushed + 1, pushed + 2)
            assert (read.sample(100, seed=0)["obs"] == 1).all()


def test_ctrl_c_ends_the_wait_for_a_buffer_that_another_thread_uses(tmp_path):
    call = CALLS["sample of n-step windows"]
    n, whole = sized(call, tmp_path)
    buffer, _ = call.make(n, tmp_path)
    one, allowed = [part[0] for part in rows(1, 3)], 0.2 + whole / 20
    waits: list[float] = []
    with Interrupter() as interrupter:
        for _ in range(TRIES):
            sample = partial(buffer.sample, 2 * n, seed=0, n_step=200, gamma=0.99)
            holder, before, pushed = threading.Thread(target=sample), buffer.n_pushed, 0

            def push(holder: threading.Thread = holder) -> None:
                nonlocal pushed
                while holder.is_alive():
                    buffer.push(*one)  # each push is short, until the other thread has the buffer
                    pushed += 1

            holder.start()
            found = interrupter.during_wait(push)
            holder.join()
            assert buffer.n_pushed - before - pushed in (0, 1)
            if found.raised:
                waits.append(found.seconds - interrupter.lateness())
                if waits[-1] < allowed:
                    break
    assert waits or 2 * whole < allowed, "nothing was waited for"
    longest = min(waits, default=0.0)
    assert longest < allowed
    record("Ctrl-C while another thread holds the lock", {"longest": round(longest, 3)})
