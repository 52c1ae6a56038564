"""Random sequences of calls leave a replay buffer equal to a plain list of transitions."""

from __future__ import annotations

import os

import numpy as np
import pytest
from helpers.transitions import (
    KEYS,
    Model,
    check_batch,
    check_contents,
    episodes,
    push,
    push_batch,
    row,
)
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from rlox import ReplayBuffer
from rlox.errors import ConfigError, StaleIndexError

FULL = os.environ.get("RLOX_FULL") == "1"


class Buffer(RuleBasedStateMachine):
    """A buffer, the model, and a second buffer that takes over the first one's state."""

    compared = 0

    @initialize(capacity=st.integers(1, 9), n_envs=st.integers(1, 3), seed=st.integers(0, 99))
    def begin(self, capacity, n_envs, seed):
        self.n_envs = n_envs
        self.make = lambda: ReplayBuffer(capacity * n_envs, 3, 1, n_envs=n_envs, seed=seed)
        self.buffer, self.model = self.make(), Model(capacity * n_envs, n_envs)
        self.rng = np.random.default_rng(seed)

    @rule()
    def push(self):
        batch = episodes(self.n_envs, self.rng)
        push(self.buffer, row(batch, 0) if self.n_envs == 1 else batch)
        for env, steps in enumerate(self.model.streams):
            steps.append(row(batch, env))

    @rule(n=st.integers(0, 25), data=st.data())
    def push_batch(self, n, data):
        env = data.draw(st.integers(0, self.n_envs - 1))
        if n:
            batch = episodes(n, self.rng)
            push_batch(self.buffer, batch, env_ids=np.full(n, env))
            self.model.streams[env] += [row(batch, i) for i in range(n)]

    @rule(batch_size=st.integers(1, 20), seed=st.none() | st.integers(0, 2**64 - 1))
    def sample(self, batch_size, seed):
        held = self.model.held()
        if not held:
            with pytest.raises(ConfigError):
                self.buffer.sample(batch_size, seed)
            return
        batch = self.buffer.sample(batch_size, seed)
        assert batch["obs"].shape == (batch_size, 3)
        check_batch(batch, held)

    @precondition(lambda self: self.model.held())
    @rule(n=st.integers(1, 12), gamma=st.floats(0, 1))
    def look_ahead(self, n, gamma):
        batch = self.buffer.sample(8, n_step=n, gamma=gamma)
        for i, index in enumerate(batch["indices"].tolist()):
            total, discount, last = self.model.window(index, n, gamma)
            np.testing.assert_allclose(batch["rewards"][i], total, rtol=1e-5, atol=1e-5)
            np.testing.assert_allclose(batch["discounts"][i], discount, rtol=1e-6, atol=1e-12)
            np.testing.assert_array_equal(batch["next_obs"][i], last["next_obs"])

    @rule(index=st.integers(0, 60), value=st.floats(-9, 9, width=32))
    def update(self, index, value):
        held = self.model.held()
        stale = self.buffer.update("rewards", [index], [value])
        assert stale == (index not in held)
        if not stale:
            held[index]["rewards"] = np.float32(value)
        else:
            with pytest.raises(StaleIndexError):
                self.buffer.gather([index])

    @rule()
    def save_and_restore(self):
        other = self.make()
        other.restore(self.buffer.state())
        if self.model.held():
            left, right = self.buffer.sample(9), other.sample(9)
            for key in (*KEYS, "indices"):
                np.testing.assert_array_equal(left[key], right[key])
        self.buffer = other

    @rule()
    def clear(self):
        self.buffer.clear()
        self.model.clear()

    @invariant()
    def same_contents(self):
        if "model" in vars(self):
            check_contents(self.buffer, self.model)
            Buffer.compared += 1


def test_random_calls_leave_the_buffer_equal_to_the_model():
    count = settings(max_examples=2_000 if FULL else 40, stateful_step_count=30, deadline=None)
    run_state_machine_as_test(Buffer, settings=count)
    assert Buffer.compared > 40
