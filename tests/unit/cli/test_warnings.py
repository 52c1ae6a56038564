"""Tests that the command and Python warn, before a run, of valid settings that are probably not intended."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.cli import TINY, Cli, only_run

from rlox.algorithms import A2C, PPO
from rlox.configs import make_run
from rlox.configs.advice import advice

ROLLOUT = "algo.n_steps=32 x env.n_envs=4 = 128 transitions"
TOLD = {
    ("stop.score=475", "eval.every=0"): (
        "stop.score=475 has no effect: no evaluation runs before the end (eval.every=0); "
        "e.g. eval.every=25"
    ),
    ("stop.score=475", "eval.every=256"): (
        "stop.score=475 has no effect: no evaluation runs before the end (eval.every=256 is not below "
        "total_steps); e.g. eval.every=25"
    ),
    ("algo.batch_size=48",): (
        f"algo.batch_size=48 does not divide a rollout, {ROLLOUT}: the last minibatch of an epoch "
        "has 32; algo.batch_size=32 does"
    ),
    ("algo.batch_size=48", "algo.n_steps=127", "env.n_envs=1"): (
        "algo.batch_size=48 does not divide a rollout, algo.n_steps=127 x env.n_envs=1 = 127 "
        "transitions: the last minibatch of an epoch has 31"
    ),
    ("algo.batch_size=129",): (
        f"algo.batch_size=129 is larger than a rollout, {ROLLOUT}: the rollout is one minibatch"
    ),
    ("env.step_timeout=3", "env.worker_envs=2"): (
        "env.step_timeout=3.0, env.worker_envs=2: no effect without subprocesses; set "
        "env.workers=subprocess"
    ),
    ("total_steps=50",): (
        "total_steps=50 is rounded up to 128, as rollouts of 128 are never cut; lower algo.n_steps "
        "or env.n_envs"
    ),
    ("algo=dqn", "total_steps=60", "env.n_envs=150", "algo.learning_starts=1"): (
        "total_steps=60 is rounded up to 150, as steps of all environments of 150 are never cut; use "
        "fewer environments (env.n_envs)"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("given", "told"), TOLD.items(), ids=[" ".join(g) for g in TOLD])
def test_rlox_train_warns_of_settings_without_the_intended_effect(
    cli: Cli, given: tuple[str, ...], told: str
) -> None:
    tiny = TINY if "algo=dqn" not in given else ("tuned=null",)
    result = cli("train", *tiny, *given, "dry_run=true")
    assert (result.code, result.err) == (0, f"rlox train: warning: {told}\n")


@pytest.mark.parametrize(
    "given",
    [
        (), ("stop.score=475", "eval.every=128"), ("algo.batch_size=128",), ("algo.batch_size=1",),
        ("total_steps=64",), ("stop.minutes=1",),
    ],
)  # fmt: skip
def test_rlox_train_prints_no_warning_for_sensible_settings(cli: Cli, given: tuple[str, ...]) -> None:
    result = cli("train", *TINY, *given, "dry_run=true")
    assert (result.code, result.err) == (0, "")


def test_shipped_presets_cause_no_warning(cli: Cli) -> None:
    for algo in ("ppo", "a2c", "dqn", "rainbow"):
        result = cli("train", f"algo={algo}", "dry_run=true")
        assert (result.code, result.err) == (0, "")


def test_rlox_train_prints_the_rounded_total_before_the_start(cli: Cli) -> None:
    out = cli("train", *TINY, "total_steps=300", "dry_run=true").out
    assert "seed 0, 300 steps, rounded up to 384" in out
    assert "rounded" not in cli("train", *TINY, "dry_run=true").out


def test_a_resumed_run_is_warned_of_too(cli: Cli, trained: Any) -> None:
    result = cli("train", f"resume={trained}", "total_steps=384", "stop.score=475")
    assert result.code == 0, result.err
    assert "warning: stop.score=475 has no effect" in result.err
    assert only_run(trained.parents[2]) == trained


def test_python_warnings_point_to_the_line_of_the_caller() -> None:
    with pytest.warns(UserWarning, match="batch_size=100 does not divide") as warned:
        PPO(batch_size=100, net_arch=(4,))
    assert warned[0].filename == __file__
    made = A2C(net_arch=(4,))
    with pytest.warns(UserWarning, match=r"env\.max_restarts=1: no effect"):
        PPO("CartPole-v1", n_envs=1, max_restarts=1).close()
    with pytest.warns(UserWarning, match="total_steps=7 is rounded up to 40") as warned:
        made.train(7)
    assert warned[0].filename == __file__


def test_a_configuration_in_order_has_no_advice() -> None:
    assert advice(make_run({})) == []
