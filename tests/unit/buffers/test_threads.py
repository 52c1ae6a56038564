"""Tests one buffer in many threads: whole rows, right counts, no deadlock."""

from __future__ import annotations

import threading
import time
from functools import partial

import numpy as np
import pytest
from helpers.selection import FULL
from helpers.waiting import PATIENCE

from rlox import MmapReplayBuffer, PrioritizedReplayBuffer, ReplayBuffer, SequenceReplayBuffer
from rlox.errors import StaleIndexError

SECONDS = 60 if FULL else 2
SIZES = (3, 3_000)


def run(works, errors):
    """Runs each function in a thread; adds their exceptions to `errors`."""

    def guarded(work):
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS + PATIENCE)
    assert not any(thread.is_alive() for thread in threads), "deadlock"


def pushers(push, stop, pushed):
    """Makes four functions that push their own numbers until `stop` and then add their count."""

    def pusher(thread):
        count = 0
        while time.monotonic() < stop:
            push(thread * 100_000 + count % 100_000)
            count += 1
        pushed.append(count)

    return [partial(pusher, thread) for thread in range(4)]


@pytest.mark.parametrize("dim", SIZES)
@pytest.mark.parametrize("kind", [ReplayBuffer, SequenceReplayBuffer, PrioritizedReplayBuffer])
def test_sixteen_threads_push_sample_and_update_without_torn_rows(kind, dim):
    buffer = kind(500, dim, 1, extra_columns={"copy": ("float64", (4,))})

    # every number of a row is the row's own number
    def push(number):
        obs = np.full(dim, number, np.float32)
        buffer.push(obs, number, number, False, False, obs, extra={"copy": [number] * 4})

    push(0)
    stop, pushed, torn, errors = time.monotonic() + SECONDS, [], [], []
    sample = (lambda: buffer.sample(8, 4)) if kind is SequenceReplayBuffer else lambda: buffer.sample(32)

    def sampler():
        while time.monotonic() < stop:
            batch = sample()
            number = batch["rewards"]
            whole = (batch["obs"] == number[..., None]).all() and (
                batch["next_obs"] == number[..., None]
            ).all()
            whole &= (batch["actions"] == number[..., None]).all()
            whole &= (np.diff(batch["copy"], axis=-1) == 0).all()
            if not whole:
                torn.append(batch)
            index = batch["indices"].ravel()
            buffer.update("copy", index, np.repeat(number.reshape(-1, 1), 4, 1) + 0.5)
            if kind is PrioritizedReplayBuffer:
                buffer.update_priorities(index, np.abs(number) + 1)

    run([*pushers(push, stop, pushed), *[sampler] * 12], errors)
    assert (errors, torn) == ([], [])
    assert buffer.n_pushed == sum(pushed) + 1
    assert len(buffer) == min(500, buffer.n_pushed)


@pytest.mark.parametrize("dim", SIZES)
def test_sixteen_threads_push_and_sample_rows_in_memory_and_on_disk(dim, tmp_path):
    buffer = MmapReplayBuffer(60, 500, dim, 1, tmp_path / "cold")
    stop, pushed, torn, errors = time.monotonic() + SECONDS, [], [], []

    def push(number):
        obs = np.full(dim, number, np.float32)
        buffer.push(obs, number, number, False, False, obs)

    def sampler():
        while time.monotonic() < stop:
            batch = buffer.sample(32)
            number = batch["rewards"][:, None]
            whole = all((batch[key] == number).all() for key in ("obs", "next_obs", "actions"))
            if not whole:
                torn.append(batch)

    push(0)
    run([*pushers(push, stop, pushed), *[sampler] * 12], errors)
    assert (errors, torn) == ([], [])
    total = sum(pushed) + 1
    assert len(buffer) == min(500, total)
    with pytest.raises(StaleIndexError):
        buffer.gather([total])
    assert buffer.gather([total - 1])["indices"] == [total - 1]
    buffer.close()
