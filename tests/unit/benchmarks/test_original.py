"""Tests the child process that measures the original; here this interpreter's rlox takes its place."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from harness.original import Original, OriginalError, find_python

from rlox import compute_gae

REWARDS, VALUES = np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.25, 0.125])
DONES = np.array([False, True, False])


def test_a_workload_of_the_child_gives_the_numbers_of_a_call_here():
    with closing(Original(Path(sys.executable))) as original:
        runner = original.runner(
            "function",
            [REWARDS, VALUES, DONES],
            name="compute_gae",
            arguments=[1.5, 0.99, 0.95],
            results=["advantages", "returns"],
        )
        got = runner.result()
    advantages, returns = compute_gae(REWARDS, VALUES, DONES, 1.5, 0.99, 0.95)
    np.testing.assert_array_equal(got["advantages"], advantages)
    np.testing.assert_array_equal(got["returns"], returns)


def test_the_child_reports_its_seconds_and_ends_with_its_workload():
    with closing(Original(Path(sys.executable))) as original:
        options = {"env_id": "CartPole-v1", "n": 2, "seed": 1}
        actions = np.zeros((4, 2), np.uint32)
        runner = original.runner("vec_env", [actions, np.array(100)], **options)
        assert runner.sample(100) > 0
        assert runner.result()["reward"] == 1.0
        runner.close()
        with pytest.raises(OriginalError, match="stopped at sample"):
            runner.sample(1)


def test_every_workload_has_a_process_of_its_own():
    with closing(Original(Path(sys.executable))) as original:
        options = {"env_id": "CartPole-v1", "n": 2, "seed": 1}
        arrays = [np.zeros((4, 2), np.uint32), np.array(100)]
        first = original.runner("vec_env", arrays, **options)
        second = original.runner("vec_env", arrays, **options)
        first.close()
        assert second.sample(10) > 0


def test_the_error_of_a_stopped_child_has_its_last_output(tmp_path):
    worker = tmp_path / "worker.py"
    worker.write_text("raise SystemExit('no such module')")
    with (
        closing(Original(Path(sys.executable), worker)) as original,
        pytest.raises(OriginalError, match="stopped at hello:\nno such module"),
    ):
        original.ask(do="hello")


def test_without_an_interpreter_the_first_request_says_so():
    with (
        closing(Original(None)) as original,
        pytest.raises(OriginalError, match="no interpreter"),
    ):
        original.ask(do="hello")


def test_the_interpreter_comes_from_the_command_line_then_the_environment(monkeypatch):
    monkeypatch.setenv("RLOX_ORIGINAL_PYTHON", sys.executable)
    assert find_python(None) == Path(sys.executable)
    with pytest.raises(OriginalError, match="nowhere/python is not an interpreter"):
        find_python("nowhere/python")
