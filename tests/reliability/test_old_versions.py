"""Tests that run folders, sweeps, searches and reports of earlier versions (tests/golden/old) open today."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from golden.files import HERE, ROOT
from golden.keep import COMMANDS
from safetensors.numpy import load_file

from rlox.runs.checkpoint import read_checkpoint, resolve_checkpoint
from rlox_cli.main import main
from rlox_cli.runs.run_folder import read_config

OLD = HERE / "old"
VERSIONS = sorted(p.parent.name for p in OLD.glob(f"*/{COMMANDS}"))
RUNS = sorted(p.relative_to(OLD).as_posix() for p in OLD.glob("*/runs/*"))


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
    """Change to the root, from which some runs name a dataset or a model."""
    monkeypatch.chdir(ROOT)


def copied(name, tmp_path):
    """Make a writable copy of an old folder."""
    return Path(shutil.copytree(OLD / name, tmp_path / Path(name).name, symlinks=True))


def result(run):
    return json.loads((run / "result.json").read_text())


def command(version, what, folder):
    """Return the command of an old sweep or search, with its present folder."""
    line = json.loads((OLD / version / COMMANDS).read_text())[what]
    return [*(part for part in line if "hydra.sweep.dir" not in part), f"hydra.sweep.dir={folder}"]


@pytest.mark.parametrize("name", RUNS)
def test_an_old_run_goes_on_to_a_larger_total_with_the_rows_it_had(name, tmp_path):
    run = copied(name, tmp_path)
    before = result(run)
    unit = before.get("unit", "env_steps")
    rows = (run / "metrics.jsonl").read_text()
    assert main(["resume", str(run), f"total_steps={2 * before[unit]}"]) == 0
    after = result(run)
    assert (after[unit], after["status"]) == (2 * before[unit], "done")
    assert [resume["step"] for resume in after["resumes"]] == [before[unit]]
    kept = (run / "metrics.jsonl").read_text()
    steps = [json.loads(row)[unit] for row in kept.splitlines()]
    assert steps == sorted(steps)
    # the last row belongs to the end, so the longer run has no such row
    assert kept.startswith("".join(rows.splitlines(keepends=True)[:-1]))


@pytest.mark.parametrize(("name", "rule"), [("ppo_native", "sb3"), ("ppo_torch", "relative")])
def test_a_resumed_old_run_records_the_rules_of_its_version(name, rule, tmp_path):
    """Seeds and moments follow the rules of the old version; the other run normalises nothing."""
    run = copied(f"2026-11-28/runs/{name}", tmp_path)
    assert main(["resume", str(run), "total_steps=512"]) == 0
    env = read_config(run)["env"]
    assert (env["seeding"], env["normalize_rule"]) == ("long", rule)
    state = read_checkpoint(resolve_checkpoint(run)).state["source"]
    assert state.get("obs_normalizer", {}).get("rule", rule) == rule
    text = (run / "config.yaml").read_text()
    assert "seeding: long" in text and f"normalize_rule: {rule}" in text
    assert main(["resume", str(run), "total_steps=640"]) == 0
    assert read_config(run)["env"] == env


@pytest.mark.parametrize("name", RUNS)
def test_the_policy_of_an_old_run_plays_the_episodes_that_it_played(name, tmp_path):
    run = copied(name, tmp_path)
    played = result(run)["episodes"]
    assert main(["evaluate", str(run), f"episodes={len(played)}"]) == 0
    assert json.loads((run / "eval" / "last.json").read_text())["episodes"] == played


def test_a_resumed_old_ppo_run_reaches_the_weights_of_its_version(tmp_path):
    """The run has 256 steps and was made before rows were means; 1e-6 allows for another type of CPU."""
    run = copied("2026-11-22/runs/ppo", tmp_path)
    assert main(["resume", str(run), "total_steps=512"]) == 0
    found = load_file(run / "checkpoints" / "last" / "weights.safetensors")
    expected = load_file(OLD / "2026-11-22" / "ppo.after.safetensors")
    assert found.keys() == expected.keys()
    for name, weights in found.items():
        np.testing.assert_allclose(weights, expected[name], rtol=0, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("version", VERSIONS)
def test_old_runs_are_listed_as_done_and_reported(version, tmp_path, capsys):
    runs = copied(f"{version}/runs", tmp_path)
    assert main(["list", "runs", f"run_root={runs}"]) == 0
    listed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("done ")]
    names = sorted(run.name for run in runs.iterdir())
    assert len(listed) == len(names)
    assert all(any(name in line for line in listed) for name in names)
    assert main(["report", str(runs), f"out={tmp_path / 'report'}", "formats=[]"]) == 0
    page = (tmp_path / "report" / "report.html").read_text()
    assert all(name in page for name in names)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_old_sweep_skips_the_jobs_it_did_and_does_those_that_are_added(version, tmp_path):
    sweep = copied(f"{version}/sweep", tmp_path)
    done = {run: (run.stat().st_mtime_ns, run.read_bytes()) for run in sweep.glob("*/result.json")}
    line = command(version, "sweep", sweep)
    assert main([*line, "seed=0,1,2"]) == 0
    assert {run: (run.stat().st_mtime_ns, run.read_bytes()) for run in done} == done
    new = set(sweep.glob("*/result.json")) - done.keys()
    assert len(done) == 2 and [result(path.parent)["seed"] for path in new] == [2]
    assert len((sweep / "summary.csv").read_text().splitlines()) == 1 + 3


@pytest.mark.parametrize("version", VERSIONS)
def test_an_old_search_goes_on_with_the_trials_it_had(version, tmp_path):
    optuna = pytest.importorskip("optuna")
    search = copied(f"{version}/search", tmp_path)

    def trials():
        storage = f"sqlite:///{search}/study.db"
        (study,) = optuna.get_all_study_names(storage)
        found = optuna.load_study(study_name=study, storage=storage).get_trials()
        return [(trial.state.name, trial.params, trial.value) for trial in found]

    before = trials()
    assert len(before) == 3
    assert main([*command(version, "search", search), "search.n_trials=4"]) == 0
    after = trials()
    assert after[:3] == before and len(after) == 4
    assert after[3][0] in ("COMPLETE", "PRUNED")


@pytest.mark.parametrize("version", VERSIONS)
def test_an_old_report_agrees_with_one_of_today_on_the_same_runs(version, tmp_path):
    sweep, expected = copied(f"{version}/sweep", tmp_path), OLD / version / "report" / "report.json"
    line = ["report", str(sweep), f"out={tmp_path / 'now'}", "formats=[]", "strict=true"]
    assert main([*line, f"expected={expected}"]) == 0
    moved = tmp_path / "moved.json"
    moved.write_text(expected.read_text().replace('"a2c"', '"ppo"'))
    assert main([*line, f"expected={moved}"]) == 1
    page = (tmp_path / "now" / "report.html").read_text()
    assert "a2c" in page
