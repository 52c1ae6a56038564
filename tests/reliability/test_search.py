"""Tests that a search that is killed repeatedly finds the same as an uninterrupted one."""

from __future__ import annotations

import json
import re
import shlex
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import optuna
import pytest
import yaml
from faults.command import CommandResult, command
from faults.report import record
from helpers import waiting
from helpers.gate import write_gate_env
from helpers.selection import FULL

TRIALS, KILLS = (30, 3) if FULL else (5, 1)
STEPS = 8192 if FULL else 512
PATIENCE = (30 if FULL else 2) * waiting.PATIENCE
# In the small search, the score is nearly one of the searched values, so the sampler's draws decide which
# trials are pruned, whatever the policy learns.
SIZE = (
    ("env=CartPole-v1",) if FULL else (
        "env=gated:Gated-v0", "env.kwargs.worth=interval(1,10)", "search.n_startup_trials=2",
        "algo.net_arch=[16]", "algo.n_steps=choice(16,32)",
    )
)  # fmt: skip
SEARCH = (
    "sweep", "search=ppo", f"total_steps={STEPS}", f"search.n_trials={TRIALS}",
    f"eval.every={STEPS // 8}", "eval.episodes=20", f"checkpoint.every={STEPS // 8}", *SIZE,
)  # fmt: skip
TOLD = re.compile(r"^trial \d+ of \d+: ", re.MULTILINE)


def search(folder: Path, name: str, *more: str, **kill: Any) -> CommandResult:
    return command([*SEARCH, f"hydra.sweep.dir={name}", *more], folder, patience=PATIENCE, **kill)


def trials(folder: Path) -> list[optuna.trial.FrozenTrial]:
    """Read the study by Optuna alone; return the trials that count, by position."""
    (name,) = optuna.get_all_study_names(f"sqlite:///{folder}/study.db")
    study = optuna.load_study(study_name=name, storage=f"sqlite:///{folder}/study.db")
    ended = [t for t in study.get_trials() if not t.user_attrs.get("killed")]
    return sorted(ended, key=lambda t: int(t.user_attrs["position"]))


def told(trial: optuna.trial.FrozenTrial) -> tuple[Any, ...]:
    return trial.state.name, trial.value, trial.params, trial.intermediate_values


@pytest.mark.timeout(7200 if FULL else 480)
def test_a_killed_search_ends_as_one_that_was_never_stopped(tmp_path: Path) -> None:
    write_gate_env(tmp_path)
    assert search(tmp_path, "whole").code == 0
    whole = trials(tmp_path / "whole")
    assert [t.user_attrs["position"] for t in whole] == list(range(TRIALS))
    for kill in range(KILLS):
        # in the middle of a later trial each time: a trial has at least one update
        at = {"phase": "evaluating", "count": 4 + 15 * kill if FULL else 4}
        stopped = search(tmp_path, "killed", sent=signal.SIGKILL, **at)
        assert stopped.code == -signal.SIGKILL
        assert len(TOLD.findall(stopped.out)) < TRIALS
    again = search(tmp_path, "killed")
    assert again.code == 0, again.err
    study = trials(tmp_path / "killed")
    assert [told(t) for t in study] == [told(t) for t in whole]
    states = Counter(t.state.name for t in study)
    assert states["PRUNED"] > 0 and states["COMPLETE"] > 0
    listed = command(["list", "runs", "run_root=killed"], tmp_path).out
    assert len(re.findall(r"^pruned ", listed, re.MULTILINE)) == states["PRUNED"]

    best = yaml.safe_load((tmp_path / "killed" / "best.yaml").read_text())
    assert best["score"] == max(t.value for t in study if t.state.name == "COMPLETE")
    assert best["command"] in again.out
    repeated = command(shlex.split(best["command"])[1:], tmp_path)
    assert repeated.code == 0, repeated.err
    (result,) = (tmp_path / "runs").glob("*/*/*/result.json")
    assert json.loads(result.read_text())["score"] == best["score"]
    record("search", {"trials": TRIALS, "kills": KILLS, "best": best["score"], **states})
