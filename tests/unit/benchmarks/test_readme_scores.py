"""Tests that the scores of README's "It learns" come from finished sweeps and name the runs' origin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import readme_scores

COMMIT = "ab" * 20


def put(folder: Path, seed: int, status: str = "done", sha: str = COMMIT) -> None:
    """Writes the files of a run folder that the command reads."""
    folder.mkdir(parents=True)
    result = {
        "status": status,
        "seed": seed,
        "algo": "ppo",
        "env_steps": 128,
        "episodes": [seed, 2.0],
    }
    origin: dict[str, Any] = {
        "git": {"sha": sha, "dirty": False},
        "command": "rlox sweep env=CartPole-v1 seed=0,1",
        "started": f"2026-11-28T19:0{seed}:00+00:00",
        "cpu": {"model": "a processor", "cores": 2},
        "packages": {"rlox": "0.1.0"},
        "python": "3.11.7",
        "backend": {"name": "native"},
    }
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    (folder / "provenance.json").write_text(json.dumps(origin), encoding="utf-8")
    config = "env: {id: CartPole-v1}\ntotal_steps: 100\n"
    (folder / "config.yaml").write_text(config, encoding="utf-8")


def test_a_sweep_replaces_the_line_of_its_environment_and_leaves_the_others(tmp_path: Path):
    sweep, out = tmp_path / "sweep", tmp_path / "learning.json"
    put(sweep / "1_seed-1", seed=1)
    put(sweep / "0_seed-0", seed=0)
    other = {"env": "Acrobot-v1", "runs": []}
    out.write_text(json.dumps({"tasks": [{"env": "CartPole-v1"}, other]}), encoding="utf-8")
    assert readme_scores.main([str(sweep), "--out", str(out)]) == 0
    line, kept = json.loads(out.read_text(encoding="utf-8"))["tasks"]
    assert kept == other
    assert line["commit"] == {"id": COMMIT, "changed": False}
    assert (line["env"], line["total_steps"], line["date"]) == ("CartPole-v1", 100, "2026-11-28")
    assert line["command"] == "rlox sweep env=CartPole-v1 seed=0,1"
    assert line["versions"] == {"rlox": "0.1.0", "python": "3.11.7"}
    assert [(run["seed"], run["returns"]) for run in line["runs"]] == [(0, [0, 2.0]), (1, [1, 2.0])]


@pytest.mark.parametrize(
    ("second", "told"),
    [
        ({"sha": "cd" * 20}, "differ in their commit"),
        ({"status": "failed"}, "expected a run that is done"),
    ],
)
def test_runs_of_two_commits_and_unfinished_runs_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], second: dict[str, str], told: str
):
    sweep, out = tmp_path / "sweep", tmp_path / "learning.json"
    put(sweep / "0_seed-0", seed=0)
    put(sweep / "1_seed-1", seed=1, **second)
    assert readme_scores.main([str(sweep), "--out", str(out)]) == 2
    assert told in capsys.readouterr().err
    assert not out.exists()


def test_a_folder_without_runs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert readme_scores.main([str(tmp_path), "--out", str(tmp_path / "learning.json")]) == 2
    assert "no run of it has ended" in capsys.readouterr().err
