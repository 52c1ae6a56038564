"""Tests that memory that a call writes belongs to it alone: within the call, around it, across threads."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from helpers.mid_call import call_during
from helpers.waiting import PATIENCE

from rlox._core import ReplayBuffer, Stream, VecEnv, compute_gae, pack_tokens
from rlox.errors import ShapeError

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]

# Large enough that a call releases the interpreter and calls of two threads overlap.
N = 20_000


def outputs(n: int, dim: int = 4) -> Arrays:
    """Make arrays for `step_into`."""
    flags = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    return np.zeros((n, dim), np.float32), np.zeros(n), *flags


def filled(rows: int, obs_dim: int = 4) -> ReplayBuffer:
    """Make a buffer in which every number of row i is i."""
    buffer = ReplayBuffer(rows, obs_dim, 1)
    numbers = np.arange(rows, dtype=np.float32)
    obs = np.repeat(numbers[:, None], obs_dim, axis=1)
    flags = np.zeros(rows, dtype=bool)
    buffer.push_batch(obs, numbers, numbers, flags, flags, obs)
    return buffer


def copied(batch: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of the batch."""
    return {key: array.copy() for key, array in batch.items()}


def same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    """Whether two batches are equal."""
    return all(np.array_equal(left[key], right[key]) for key in left)


class Colliding:
    """Calls that threads repeat at once, each until it succeeded and some were refused, or `limit` times.

    Whether and where they overlap is chance; in `refusal`, two calls always overlap.
    """

    def __init__(self, calls: list[Callable[[], object]], limit: int = 300) -> None:
        self.refused: list[str] = []
        self.succeeded: list[int] = []
        self.others: list[BaseException] = []
        threads = [threading.Thread(target=self._run, args=(call, limit)) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _run(self, call: Callable[[], object], limit: int) -> None:
        succeeded = 0
        for _ in range(limit):
            if len(self.refused) > 20 and succeeded > 0:
                break
            try:
                call()
            except ShapeError as error:
                self.refused.append(str(error))
                time.sleep(random.random() / 1_000)
            except BaseException as error:
                self.others.append(error)
                return
            else:
                succeeded += 1
        self.succeeded.append(succeeded)


def refusal(pair: Callable[[int], tuple[Callable[[], object], Callable[[], object]]]) -> str:
    """Return the error of another thread's call with arrays that a call of this thread uses.

    `pair(size)` prepares the calls of this thread and the other; the size grows until the first one is long.
    """
    calls: list[tuple[Callable[[], object], Callable[[], object]]] = []
    told: list[str] = []

    def attempt() -> None:
        try:
            calls[-1][1]()
        except ShapeError as error:
            told.append(str(error))

    def meet() -> None:
        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join(PATIENCE)

    def make(size: int) -> Callable[[], object]:
        calls.append(pair(size))
        return calls[-1][0]

    call_during(make, 200_000, meet)
    assert len(told) == 1, "two calls had the same arrays at once"
    calls[-1][1]()  # the arrays are usable again afterwards
    return told[0]


def test_indices_taken_from_the_batch_that_they_fill_are_refused():
    buffer = filled(100)
    batch = buffer.sample(32)
    before = copied(batch)
    with pytest.raises(ShapeError, match="indices shares memory with another argument"):
        buffer.gather(batch["indices"], out=batch)
    assert same(batch, before)
    again = buffer.gather(batch["indices"].copy(), out=batch)
    assert same(again, before)


def test_two_outputs_of_a_batch_cannot_share_memory():
    buffer = filled(100)
    batch = buffer.sample(8)
    batch["next_obs"] = batch["obs"]
    with pytest.raises(ShapeError, match="next_obs shares memory"):
        buffer.sample(8, out=batch)
    # A part of another output is just as wrong.
    batch = buffer.sample(8)
    both = np.zeros((9, 4), np.float32)
    batch["obs"], batch["next_obs"] = both[:8], both[1:]
    with pytest.raises(ShapeError, match="next_obs shares memory"):
        buffer.sample(8, out=batch)


def test_after_a_refusal_the_same_arrays_can_be_used():
    env = VecEnv(3, seed=1)
    env.reset_all()
    obs, rewards, terminated, truncated = outputs(3)
    for _ in range(300):
        with pytest.raises(ShapeError):
            env.step_into([0, 0, 0], obs, rewards, terminated, terminated)
    env.step_into([0, 0, 0], obs, rewards, terminated, truncated)
    np.testing.assert_array_equal(obs, env.get_state().astype(np.float32))


def test_two_environments_in_two_threads_cannot_step_into_the_same_arrays():
    def pair(n: int) -> tuple[Callable[[], object], Callable[[], object]]:
        envs, out = [VecEnv(n, seed=seed, env_id="Acrobot-v1") for seed in (1, 2)], outputs(n, 6)
        for env in envs:
            env.reset_all()
        one, two = (partial(env.step_into, np.zeros(n, np.int64), *out) for env in envs)
        return one, two

    assert "obs shares memory" in refusal(pair)


def test_two_threads_cannot_sample_into_the_same_batch():
    buffer = filled(50_000)

    def pair(n: int) -> tuple[Callable[[], object], Callable[[], object]]:
        sample = partial(buffer.sample, n, out=buffer.sample(n))
        return sample, sample

    assert "shares memory" in refusal(pair)


def test_threads_that_sample_into_one_batch_by_turns_leave_whole_rows():
    buffer = filled(50_000)
    batch = buffer.sample(N)
    met = Colliding([lambda: buffer.sample(N, out=batch)] * 2)
    assert met.others == []
    assert min(met.succeeded) > 0
    numbers = batch["rewards"]
    np.testing.assert_array_equal(batch["obs"], np.repeat(numbers[:, None], 4, axis=1))


def push(buffer: ReplayBuffer, batch: dict[str, Any]) -> None:
    """Store the observations and rewards of a batch."""
    obs, rewards = batch["obs"], batch["rewards"]
    flags = np.zeros(len(rewards), dtype=bool)
    buffer.push_batch(obs, rewards, rewards, flags, flags, obs)


def test_an_array_that_is_being_written_cannot_be_read_by_another_call():
    buffer = filled(50_000)

    def pair(n: int) -> tuple[Callable[[], object], Callable[[], object]]:
        batch = buffer.sample(n)
        return partial(buffer.sample, n, out=batch), partial(push, ReplayBuffer(n, 4, 1), batch)

    assert "is being written to by another call" in refusal(pair)


def test_a_batch_that_one_thread_fills_and_another_stores_is_stored_in_whole_rows():
    buffer = filled(50_000)
    batch = buffer.sample(N)
    other = ReplayBuffer(N, 4, 1)
    met = Colliding([lambda: buffer.sample(N, out=batch), lambda: push(other, batch)])
    assert met.others == []
    patterns = ("is being written to by another call", "shares memory with another argument")
    assert all(any(pattern in message for pattern in patterns) for message in met.refused)
    assert min(met.succeeded) > 0
    # The stored rows are whole rows of one batch, never halves of two.
    stored = other.sample(N, seed=1)
    np.testing.assert_array_equal(stored["obs"], np.repeat(stored["rewards"][:, None], 4, axis=1))


def test_any_number_of_threads_may_read_the_same_arrays():
    rewards, values, flags = np.ones(N), np.zeros(N), np.zeros(N, dtype=bool)
    expected, _ = compute_gae(rewards, values, flags)
    wrong = []

    def read() -> None:
        for _ in range(100):
            got, _ = compute_gae(rewards, values, flags)
            if not np.array_equal(got, expected):
                wrong.append(1)

    met = Colliding([read] * 4, limit=1)
    assert (met.refused, met.others, wrong) == ([], [], [])


def test_threads_with_arrays_of_their_own_never_disturb_each_other():
    actions = np.zeros(N, dtype=np.int64)
    envs = [VecEnv(N, seed=seed) for seed in range(4)]
    for env in envs:
        env.reset_all()
    outs = [outputs(N) for _ in envs]

    def step(env: VecEnv, out: Arrays) -> None:
        for _ in range(50):
            env.step_into(actions, *out)

    pairs = zip(envs, outs, strict=True)
    met = Colliding([lambda env=env, out=out: step(env, out) for env, out in pairs], limit=1)
    assert (met.refused, met.others) == ([], [])


class Nosy:
    """An array-like that makes another call while a call reads it."""

    def __init__(self, array: np.ndarray, call: Callable[[], object]) -> None:
        self.array, self.call, self.caught = array, call, None

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        try:
            self.call()
        except ShapeError as error:
            self.caught = str(error)
        return self.array


def test_a_call_within_a_call_cannot_take_its_outputs():
    buffer = filled(100)
    batch = buffer.sample(16)
    # Part of an array, like a tensor's NumPy view: rlox treats an array that owns its memory as a copy.
    batch["next_obs"] = np.zeros((17, 4), np.float32)[:16]
    expected = copied(buffer.sample(16, seed=3))
    # The call reads `next_obs` after `obs`, which it already uses.
    nosy = Nosy(batch["next_obs"], lambda: buffer.sample(16, seed=4, out=batch))
    got = buffer.sample(16, seed=3, out={**batch, "next_obs": nosy})
    assert nosy.caught is not None
    assert "obs shares memory" in nosy.caught
    assert same({**got, "next_obs": batch["next_obs"]}, expected)


def test_a_call_with_thousands_of_arrays_does_not_affect_later_calls():
    sequences = [np.arange(1, 4) for _ in range(5_000)]
    packed = pack_tokens(sequences, 8)
    assert packed["tokens"].sum() == 5_000 * 6
    buffer = filled(100)
    batch = buffer.sample(32)
    assert buffer.sample(32, out=batch) is batch


@pytest.mark.parametrize("n", [1, 100, 4_095, 4_096, 5_000, 40_000, 5_000_000])
def test_results_of_every_size_are_written_wholly(n: int):
    got = Stream(3, "whole").uniform(n)
    stream = Stream(3, "whole")
    parts = [stream.uniform(min(977, n - start)) for start in range(0, n, 977)]
    np.testing.assert_array_equal(got, np.concatenate(parts))
