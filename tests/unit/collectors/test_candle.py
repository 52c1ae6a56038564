"""Tests rollouts in the background: their weights, their contents, and the end of collecting."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
import torch
from helpers.waiting import PATIENCE
from numpy.typing import NDArray
from torch.nn.utils import parameters_to_vector

import rlox
from rlox import CandleCollector
from rlox.algorithms import HybridPPO
from rlox.collectors import candle
from rlox.errors import (
    ConfigError,
    NonFiniteError,
    RloxError,
    ShapeError,
    UnknownNameError,
)
from rlox.policies import ContinuousPolicy, DiscretePolicy

SMALL: dict[str, Any] = {"n_envs": 3, "n_steps": 20, "hidden": 8, "seed": 5}
KEYS = [
    "observations", "actions", "rewards", "dones", "log_probs", "values", "advantages", "returns",
]  # fmt: skip
Batch = dict[str, NDArray[Any]]


def make_collector(env_id: str = "CartPole-v1", **options: Any) -> CandleCollector:
    return CandleCollector(env_id, **{**SMALL, **options})


def other_weights(collector: CandleCollector, seed: int) -> NDArray[np.float32]:
    """Returns weights that differ from the collector's."""
    noise = np.random.default_rng(seed).normal(size=collector.get_weights().shape)
    return collector.get_weights() + 0.3 * noise.astype(np.float32)


def assert_same(first: Batch, second: Batch) -> None:
    assert list(first) == list(second) == KEYS
    for name in KEYS:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name, strict=True)


def running_rollouts() -> list[threading.Thread]:
    """Returns unfinished rollouts; the thread of a finished one may need a moment to end."""
    threads = threading.enumerate()
    return [t for t in threads if isinstance(t, candle._RolloutThread) and not t.finished_event.is_set()]


# The contents of a batch


@pytest.mark.parametrize("env_id", rlox.native_env_ids())
def test_batches_are_the_rollouts_that_hybrid_ppo_learns_from_with_the_same_seed(
    env_id: str,
) -> None:
    collector = make_collector(env_id)
    options: dict[str, Any] = {"net_arch": (8, 8), "n_envs": 3, "n_steps": 20, "seed": 5}
    algorithm = HybridPPO(env_id, **options)
    np.testing.assert_array_equal(
        collector.get_weights(), parameters_to_vector(algorithm.policy.parameters()).detach()
    )
    for _ in range(3):  # with the first weights: no update between them
        rollout, _ = algorithm.source.next(algorithm.clock)
        same = {"observations": rollout.obs, "dones": rollout.terminated | rollout.truncated}
        expected = {key: same.get(key, getattr(rollout, key, None)) for key in KEYS}
        assert_same(collector.recv(), {key: column.numpy() for key, column in expected.items()})
    collector.stop()


@pytest.mark.parametrize(
    ("env_id", "seen", "action", "dtype"),
    [("CartPole-v1", 4, (), np.int64), ("Pendulum-v1", 3, (1,), np.float32)],
)
def test_arrays_have_a_row_for_each_step_of_each_environment(
    env_id: str, seen: int, action: tuple[int, ...], dtype: type
) -> None:
    batch = make_collector(env_id).recv()
    assert list(batch) == KEYS
    assert batch["observations"].shape == (60, seen)
    assert (batch["actions"].shape, batch["actions"].dtype) == ((60, *action), dtype)
    assert batch["dones"].dtype == np.bool_
    for name in ("rewards", "log_probs", "values", "advantages", "returns"):
        assert (batch[name].shape, batch[name].dtype) == ((60,), np.float32)
    np.testing.assert_array_equal(batch["returns"], batch["advantages"] + batch["values"])


def test_a_batch_stays_as_it_was_while_later_ones_are_collected() -> None:
    collector = make_collector()
    first = collector.recv()
    kept = {name: column.copy() for name, column in first.items()}
    collector.recv()
    assert_same(first, kept)


def test_log_probs_and_values_are_those_of_the_torch_policy_with_the_same_weights() -> None:
    for env_id, kind, sizes in (
        ("CartPole-v1", DiscretePolicy, (4, 2, 8)),
        ("Pendulum-v1", ContinuousPolicy, (3, 1, 8)),
    ):
        collector = make_collector(env_id)
        collector.sync_weights(other_weights(collector, 0))
        batch = {name: torch.from_numpy(column) for name, column in collector.recv().items()}
        policy = kind(*sizes)
        flat = torch.from_numpy(collector.get_weights())
        torch.nn.utils.vector_to_parameters(flat, policy.parameters())
        log_probs, _, values = policy.evaluate_actions(batch["observations"], batch["actions"])
        torch.testing.assert_close(log_probs, batch["log_probs"], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(values, batch["values"], atol=1e-5, rtol=1e-5)


# The weights of a batch


def test_the_background_collector_returns_the_same_batches_at_any_timing() -> None:
    def run(pause: float) -> list[Batch]:
        collector, batches = make_collector(), []
        for seed in range(4):
            batches.append(collector.recv())
            time.sleep(pause)
            if seed != 2:
                collector.sync_weights(other_weights(collector, seed))
            time.sleep(pause)
        collector.stop()
        return batches

    for one, two in zip(run(0.0), run(0.02), strict=True):
        assert_same(one, two)


def test_a_batch_uses_the_latest_weights_at_its_reception() -> None:
    """This holds for weights before the first batch too. A rollout that began in between has no effect."""
    plain, often = make_collector(), make_collector()
    for seed in range(3):
        last = other_weights(plain, seed)
        plain.sync_weights(last)
        for weights in (other_weights(often, 90 + seed), other_weights(often, 80 + seed), last):
            often.sync_weights(weights)
        assert_same(plain.recv(), often.recv())


def test_without_new_weights_rollouts_go_on_with_the_old_ones() -> None:
    collector = make_collector()
    first, second = collector.recv(), collector.recv()
    again = make_collector()
    assert_same(again.recv(), first)
    again.sync_weights(again.get_weights())
    assert_same(again.recv(), second)


def test_only_new_weights_begin_a_rollout_in_the_background(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    go_on = threading.Event()
    collect = candle.NativeCollector.collect

    def slowly(self: Any, *given: Any) -> Any:
        assert go_on.wait(PATIENCE)
        return collect(self, *given)

    monkeypatch.setattr(candle.NativeCollector, "collect", slowly)
    collector = make_collector()
    assert running_rollouts() == []  # none before the first request
    collector.sync_weights(other_weights(collector, 1))
    assert len(running_rollouts()) == 1
    assert collector.try_recv() is None
    go_on.set()
    batch = None
    while batch is None:
        batch = collector.try_recv()
    assert list(batch) == KEYS
    assert running_rollouts() == []  # learning has the CPU for itself
    collector.stop()


def test_polling_with_try_recv_gives_the_batches_of_recv() -> None:
    waiting, asking = make_collector(), make_collector()
    for _ in range(3):
        batch = None
        while batch is None:
            batch = asking.try_recv()
        assert_same(batch, waiting.recv())


# Weights


def test_weights_are_taken_flat_as_tensors_or_by_name() -> None:
    collector = make_collector("Pendulum-v1")
    policy = ContinuousPolicy(3, 1, hidden=8)
    flat = parameters_to_vector(policy.parameters())
    batches = []
    for given in (
        flat,
        flat.detach().double().numpy(),
        policy.state_dict(),
        {name: p.detach().numpy() for name, p in policy.named_parameters()},
    ):
        own = make_collector("Pendulum-v1")
        own.sync_weights(given)
        np.testing.assert_array_equal(own.get_weights(), flat.detach().numpy())
        batches.append(own.recv())
    for batch in batches[1:]:
        assert_same(batches[0], batch)
    assert collector.parameter_names == tuple(policy.state_dict())
    assert dict(collector.parameter_shapes) == {n: tuple(p.shape) for n, p in policy.named_parameters()}
    collector.sync_weights(flat, order=list(policy.state_dict()))


@pytest.mark.parametrize(
    ("give", "error", "told"),
    [
        (lambda w: w[:-1], ShapeError, r"\[250\], expected \[251\]: actor.0.weight \[8, 4\]"),
        (lambda w: w[None], ShapeError, r"shape \[1, 251\], expected \[251\]"),
        (lambda w: {"actor.0.weigh": w}, UnknownNameError, "'actor.0.weigh'; did you mean 'actor.0.weight'"),
        (lambda w: {}, UnknownNameError, "weights of actor.0.weight, .* are missing"),
        (lambda w: np.ma.masked_array(w, w > 0), ShapeError, "weights: some of it is masked"),
        (lambda w: ["a"], ShapeError, "weights are list of <U1, expected real numbers"),
        (lambda w: np.where(np.arange(251) == 40, np.nan, w), NonFiniteError, "of actor.2.weight are not"),
        (lambda w: w.astype(np.float64) * 1e300, NonFiniteError, "of actor.0.weight are not"),
    ],
)  # fmt: skip
def test_weights_that_do_not_fit_are_refused_by_name_and_change_nothing(
    give: Any, error: type[RloxError], told: str
) -> None:
    collector, untouched = make_collector(), make_collector()
    with pytest.raises(error, match=told):
        collector.sync_weights(give(collector.get_weights()))
    assert_same(collector.recv(), untouched.recv())


def test_weights_in_another_order_are_refused() -> None:
    collector = make_collector()
    names = collector.parameter_names
    with pytest.raises(ShapeError, match=r"order=.*, expected .*another order"):
        collector.sync_weights(collector.get_weights(), order=sorted(names))
    shapes = {name: np.zeros(shape) for name, shape in collector.parameter_shapes.items()}
    with pytest.raises(ShapeError, match=r"actor.0.bias have shape \[9\], expected \[8\]"):
        collector.sync_weights({**shapes, "actor.0.bias": np.zeros(9)})


# Arguments


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        (
            {"env_id": "CartPole-v2"},
            UnknownNameError,
            "native environments only.*mean 'CartPole-v1'",
        ),
        ({"env_id": "LunarLander-v3"}, UnknownNameError, "RolloutCollector steps any"),
        ({"obs_dim": 3}, ConfigError, "obs_dim=3: CartPole-v1 has observations of length 4"),
        ({"n_actions": 3}, ConfigError, "n_actions=3: CartPole-v1 has 2 choices; give n_actions=2"),
        ({"env_id": "Pendulum-v1", "n_actions": 2}, ConfigError, "has actions of length 1"),
        ({"n_envs": 0}, ConfigError, r"CandleCollector.n_envs=0: expected a value in \[1, "),
        ({"n_steps": 1.5}, ConfigError, "CandleCollector.n_steps=1.5: expected an integer"),
        ({"gamma": 1.1}, ConfigError, r"CandleCollector.gamma=1.1: expected a value in \[0, 1\]"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(
    options: dict[str, Any], error: type[RloxError], told: str
) -> None:
    with pytest.raises(error, match=told):
        make_collector(**options)


# The end of collecting


def test_after_stop_batches_are_refused_and_weights_can_be_read() -> None:
    with make_collector() as collector:
        collector.sync_weights(other_weights(collector, 1))
    collector.stop()
    assert running_rollouts() == []
    weights = collector.get_weights()
    for call in (collector.recv, collector.try_recv, lambda: collector.sync_weights(weights)):
        with pytest.raises(ConfigError, match="is stopped, expected a running one"):
            call()


def test_recv_raises_the_error_of_the_collector_thread_and_then_continues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    collector, untouched = make_collector(), make_collector()
    assert_same(collector.recv(), untouched.recv())
    score = candle.NativeCollector._check_finite

    def fails(self: Any, arena: Any) -> None:
        raise NonFiniteError("rewards are not finite")

    monkeypatch.setattr(candle.NativeCollector, "_check_finite", fails)
    with pytest.raises(NonFiniteError, match="rewards are not finite") as told:
        collector.recv()
    assert any(entry.name == "fails" for entry in told.traceback)
    monkeypatch.setattr(candle.NativeCollector, "_check_finite", score)
    assert_same(collector.recv(), untouched.recv())


def test_a_collector_that_is_dropped_leaves_no_thread_behind() -> None:
    collector = make_collector(n_steps=2_000)
    collector.sync_weights(collector.get_weights())
    threads = running_rollouts()
    del collector
    gc.collect()
    for thread in threads:
        thread.join(PATIENCE)
    assert running_rollouts() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_in_the_child_of_a_fork_the_rollout_under_way_is_collected_again() -> None:
    script = """
import os, sys
import numpy as np
import rlox

collectors = [rlox.CandleCollector(n_envs=64, n_steps=400, hidden=8, seed=5) for _ in range(2)]
collectors[0].sync_weights(collectors[0].get_weights())
expected = collectors[1].recv()
collectors[0].recv()
collectors[0].sync_weights(collectors[0].get_weights())
child = os.fork()
got, expected = collectors[0].recv(), collectors[1].recv()
same = all(np.array_equal(got[name], expected[name]) for name in expected)
if child == 0:
    os._exit(0 if same else 3)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
sys.exit(code if same else 4)
"""
    done = subprocess.run([sys.executable, "-c", script], timeout=2 * PATIENCE)
    assert done.returncode == 0


INTERRUPT_SCRIPT = """
import os, signal, sys, threading, time
import rlox
from rlox.collectors import candle

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background inherits none
main, over = threading.main_thread().ident, threading.Event()
check_finite = candle.NativeCollector._check_finite

def names(frame):
    while frame is not None:
        yield frame.f_code.co_name
        frame = frame.f_back

def interrupts(self, arena):  # called at the end of a rollout, in its thread
    while not over.is_set() and "wait" not in names(sys._current_frames()[main]):
        time.sleep(0.001)
    if not over.is_set():
        os.kill(os.getpid(), signal.SIGINT)
        over.wait()  # the rollout is not there before the wait for it was interrupted
    check_finite(self, arena)

candle.NativeCollector._check_finite = interrupts
collector = rlox.CandleCollector(n_envs=256, n_steps=1_000, hidden=64)
try:
    collector.recv()
except KeyboardInterrupt:
    print("interrupted", flush=True)
over.set()
print(len(collector.recv()["dones"]))
collector.sync_weights(collector.get_weights())
"""


def test_ctrl_c_ends_the_wait_and_the_interpreter_ends_while_a_rollout_is_under_way() -> None:
    command = [sys.executable, "-c", INTERRUPT_SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["interrupted", "256000"]
