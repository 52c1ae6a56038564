"""Tests that a run prints its evaluations and the progress of a long rollout."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from helpers.cli import TINY, Cli, only_run

from rlox import stopping
from rlox.runs import progress

NUMBER = r"-?[\d.]+"


def test_rlox_train_prints_each_periodic_evaluation_and_names_the_best(cli: Cli, tmp_path: Path) -> None:
    result = cli("train", *TINY, "total_steps=384", "eval.every=128")
    assert result.code == 0, result.err
    told = re.findall(
        rf"^  eval    steps (\d+): ({NUMBER}) mean of 3 episodes \(95% CI {NUMBER} to {NUMBER}\), "
        rf"IQM {NUMBER}(, the best so far)?$",
        result.out,
        re.MULTILINE,
    )
    rows = (tmp_path / only_run(tmp_path / "runs") / "metrics.jsonl").read_text().splitlines()
    means = {
        row["env_steps"]: row["eval/return_mean"]
        for row in map(json.loads, rows)
        if "eval/return_mean" in row
    }
    assert [int(step) for step, _, _ in told] == [128, 256]  # the evaluation at the end is the score
    assert all(float(mean) == pytest.approx(means[int(at)], abs=0.05) for at, mean, _ in told)
    assert told[0][2] and bool(told[1][2]) == (means[256] > means[128])
    step = max(means, key=lambda at: means[at])
    best = re.search(r"^  best    (\S+) at steps (\d+) \(checkpoint=best\)$", result.out, re.MULTILINE)
    assert best and int(best[2]) == step
    assert float(best[1]) == pytest.approx(means[step], abs=0.05)


def test_a_run_without_evaluations_on_the_way_names_no_best(cli: Cli) -> None:
    result = cli("train", *TINY)
    assert result.code == 0, result.err
    assert "  eval    " not in result.out and "  best    " not in result.out


def test_a_long_rollout_says_how_far_it_is(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "HEARTBEAT_SECONDS", 0.0)
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    result = cli("train", *TINY, "total_steps=128", "env.backend=gymnasium", "algo.backend=torch")
    assert result.code == 0, result.err
    lines = [line for line in result.out.splitlines() if line.startswith("steps   0/128")]
    told = [int(n) for line in lines for n in re.findall(r"rollout (\d+) of 128", line)]
    assert told == list(range(0, 128, 4))
    assert any(line.endswith("learning") for line in lines)
