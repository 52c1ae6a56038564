"""Tests of `rlox check`: its output on an environment and its exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from faults.deadlines import expire_polls_for_hung
from helpers.cli import Cli
from helpers.waiting import PATIENCE

CHECKED = "helpers.broken_envs.ids:checked"


def test_rlox_check_shows_spaces_and_suitable_algorithms_of_a_sound_environment(cli: Cli) -> None:
    result = cli("check", "env=Pendulum-v1", "steps=50")
    assert (result.code, result.err) == (0, "")
    assert "actions       Box(-2.0, 2.0, (1,), float32)" in result.out
    algorithms = next(line for line in result.out.splitlines() if line.startswith("algorithms"))
    assert "td3" in algorithms and "dqn" not in algorithms
    assert "Pendulum-v1: nothing found (50 steps, 0 episodes, seed 0)" in result.out


def test_rlox_check_explains_an_environment_error_and_exits_with_1(cli: Cli, tmp_path: Path) -> None:
    result = cli("check", f"{CHECKED}/observation-dtype-v0", "steps=30")
    assert result.code == 1
    assert "error    observation-dtype" in result.out
    assert "1 error (30 steps" in result.out
    assert max(map(len, result.out.splitlines())) <= 100
    assert list(tmp_path.iterdir()) == []


def test_rlox_check_exits_with_0_on_warnings_and_keeps_prints_out_of_the_json(
    cli: Cli,
) -> None:
    result = cli("check", f"env={CHECKED}/prints-v0", "steps=30", "json=true")
    assert result.code == 0
    told = json.loads(result.out)
    assert (told["errors"], told["warnings"], told["env"]) == (0, 1, f"{CHECKED}/prints-v0")
    assert [finding["code"] for finding in told["findings"]] == ["prints"]
    assert told["algorithms"]["ppo"] is None and told["algorithms"]["td3"] == "needs Box"


def test_a_check_names_the_step_that_hangs(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    expire_polls_for_hung(monkeypatch)
    result = cli("check", f"env={CHECKED}/no-answer-v0", f"env.step_timeout={PATIENCE}")
    assert result.code == 1
    assert "no-answer" in result.out
    assert "step 5 of episode" in result.out
    assert "1 error (4 steps, " in result.out


def test_rlox_check_counts_the_steps_played_before_an_error(cli: Cli) -> None:
    result = cli("check", f"env={CHECKED}/step-exits-v0")
    assert result.code == 1
    assert "1 error (4 steps, 0 episodes, seed 0)" in result.out


def test_rlox_check_reports_an_unsupported_environment_once_as_an_error(cli: Cli) -> None:
    result = cli("check", f"env={CHECKED}/mission-v0", "steps=20")
    assert result.code == 1
    assert "error    no-algorithm" in result.out
    assert "algorithms    none\n" in result.out
    assert result.out.count("flatten_observation") == 1


def test_wrappers_and_arguments_are_those_of_a_run(cli: Cli) -> None:
    plain = cli("check", "env=Blackjack-v1", "steps=20")
    assert "observations  Tuple(Discrete(32)" in plain.out
    args = ("env.wrappers=[flatten_observation]", "env.kwargs.natural=true", "steps=20")
    wrapped = cli("check", "env=Blackjack-v1", *args)
    assert "observations  Box(0, 1, (45,), int64)" in wrapped.out


def test_rlox_check_exits_with_2_for_wrong_env_kwargs(cli: Cli) -> None:
    result = cli("check", "env=CartPole-v1", "env.kwargs.gravity=3")
    assert (result.code, result.out) == (2, "")
    assert "env.kwargs do not fit" in result.err
