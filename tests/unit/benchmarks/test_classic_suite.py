"""Tests the suite of classic control and its comparison: their runs, sources of results, and reports."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import aggregates
import classic_control
import classic_control_suite
import comparison_report
import numpy as np
import pytest
import sb3_comparison
import suite_report
from classic_control import EPISODES, EVAL_SEED, Campaign
from helpers.cli import Cli
from matplotlib.image import imread
from omegaconf import OmegaConf
from tables import CURVE_POINTS

SUITE, COMPARISON = classic_control_suite.CAMPAIGN, sb3_comparison.CAMPAIGN
SHOWN = ("PPO_Acrobot-v1", "TD3_Pendulum-v1")  # one with its own steps, one with the tuned preset's
PLAN = {
    "PPO_CartPole-v1": ("ppo", "CartPole-v1", 100_000),
    "A2C_CartPole-v1": ("a2c", "CartPole-v1", 500_000),
    "DQN_CartPole-v1": ("dqn", "CartPole-v1", 50_000),
    "PPO_Acrobot-v1": ("ppo", "Acrobot-v1", 200_000),
    "A2C_Acrobot-v1": ("a2c", "Acrobot-v1", 500_000),
    "DQN_Acrobot-v1": ("dqn", "Acrobot-v1", 100_000),
    "PPO_Pendulum-v1": ("ppo", "Pendulum-v1", 100_000),
    "SAC_Pendulum-v1": ("sac", "Pendulum-v1", 20_000),
    "TD3_Pendulum-v1": ("td3", "Pendulum-v1", 20_000),
}


def result(score: float, **origin: Any) -> dict[str, Any]:
    """Makes a run whose episodes all returned `score`, and half of it in training."""
    provenance = {"packages": {"torch": "2"}, **origin}
    return {
        "returns": [score] * EPISODES, "training": score / 2, "curve": [score] * CURVE_POINTS,
        "provenance": provenance,
    }  # fmt: skip


def put(campaign: Campaign, system: str, scores: dict[str, list[float]]) -> None:
    """Writes results of the named legs, one score for each seed."""
    for leg in (leg for leg in campaign.legs if leg.name in scores):
        for seed, score in enumerate(scores[leg.name]):
            path = campaign.path(leg, system, seed)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(result(score)))


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Moves the experiments to an empty folder."""
    monkeypatch.setattr(classic_control, "ROOT", tmp_path)
    return tmp_path


@pytest.fixture
def job(elsewhere: Path) -> Path:
    """Makes the folder of a finished job of a sweep."""
    folder = elsewhere / "sweep" / "3_a_job"
    folder.mkdir(parents=True)
    said = {
        "status": "done",
        "algo": "ppo",
        "env": "Acrobot-v1",
        "seed": 4,
        "episodes": [-80.0] * 50,
    }
    (folder / "result.json").write_text(
        json.dumps(said | {"seconds": {"total": 3.0, "collect": 1.0, "update": 2.0, "evaluate": 0.1}})
    )
    origin = {"git": {"sha": "c0"}, "packages": {"torch": "2"}, "wheel": {"sha256": "ab"}}
    (folder / "provenance.json").write_text(json.dumps(origin))
    ends = [{"env_steps": at, "return": -float(at) / 1000} for at in (100_000, 200_000)]
    (folder / "episodes.jsonl").write_text("\n".join(map(json.dumps, ends)))
    evaluated = {"episodes": EPISODES, "seed": EVAL_SEED}
    OmegaConf.save({"total_steps": 200_000, "eval": evaluated}, folder / "config.yaml")
    return folder


def rewrite(path: Path, **changed: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))


def test_the_classic_suite_and_its_comparison_plan_the_legs_of_the_preset():
    found = {leg.name: (leg.algo, leg.env, leg.steps) for leg in SUITE.legs}
    assert found == PLAN
    assert {leg.seeds for leg in SUITE.legs} == {10}
    assert {leg.name: (leg.algo, leg.env, leg.steps) for leg in COMPARISON.legs} == PLAN
    assert SUITE.script.is_file() and COMPARISON.script.is_file()


@pytest.mark.parametrize(
    "name",
    [*SHOWN, *(pytest.param(name, marks=pytest.mark.slow) for name in PLAN if name not in SHOWN)],
)
def test_a_leg_of_the_preset_has_the_tuned_settings_and_the_protocol(name: str, cli: Cli):
    algo, env, steps = PLAN[name]
    run = OmegaConf.create(cli("train", f"exp=classic_control_suite/{algo}_{env}", "--cfg", "job").out)
    assert (run.algo.name, run.env.id, run.total_steps) == (algo, env, steps)
    assert (run.eval.every, run.eval.episodes, run.eval.seed) == (0, EPISODES, EVAL_SEED)
    tuned = OmegaConf.load(classic_control_suite.CONF / "tuned" / algo / f"{env}.yaml")
    assert {key: run.algo[key] for key in tuned.get("algo", {})} == tuned.get("algo", {})
    assert run.env.n_envs == tuned.env.n_envs


def test_the_preset_is_a_sweep_of_each_leg_with_ten_seeds(cli: Cli):
    preset = OmegaConf.load(classic_control_suite.CONF / "exp" / "classic_control_suite.yaml")
    assert preset.hydra.sweeper.params.seed == "range(0,10)"
    one = "hydra.sweeper.params.seed=7"
    result = cli("sweep", "exp=classic_control_suite", one, "dry_run=true")
    assert result.code == 0
    runs = [line.split(": ")[1] for line in result.out.splitlines() if line.startswith("dry run: ")]
    assert sorted(run.split(" steps")[0] for run in runs) == sorted(
        f"{algo} (exp=classic_control_suite) on {env}, seed 7, {steps:,}"
        for algo, env, steps in PLAN.values()
    )


def test_a_job_that_is_done_becomes_a_result(job):
    classic_control_suite.collect(job.parent)
    (path,) = (SUITE.folder / "results").iterdir()
    assert path.name == "PPO_Acrobot-v1_rlox_s4.json"
    found = json.loads(path.read_text())
    assert found.pop("curve") == [None] * 24 + [-100.0] * 25 + [-150.0]
    assert found == {
        "returns": [-80.0] * 50,
        "training": -150.0,
        "seconds": {"collect": 1.0, "update": 2.0},
        "provenance": {"packages": {"torch": "2"}, "wheel": {"sha256": "ab"}, "commit": "c0"},
    }


def test_unfinished_and_set_aside_jobs_give_no_results(job):
    rewrite(job / "result.json", status="killed")
    job.rename(job.with_name("1_killed"))
    (job.parent / "2_began").mkdir()
    classic_control_suite.collect(job.parent)
    (job.parent / "1_killed").rename(job.with_name("1_killed.attempt1"))
    rewrite(job.with_name("1_killed.attempt1") / "result.json", status="done")
    classic_control_suite.collect(job.parent)
    assert not SUITE.folder.exists()


def test_a_run_of_another_protocol_is_refused(job):
    OmegaConf.save(
        {"total_steps": 1_000, "eval": {"episodes": EPISODES, "seed": EVAL_SEED}},
        job / "config.yaml",
    )
    with pytest.raises(SystemExit, match=r"3_a_job: .*\(1000, 50, 100000\), expected \(200000, "):
        classic_control_suite.collect(job.parent)


def test_the_command_is_one_sweep_and_ctrl_c_waits_for_it_to_save(elsewhere, monkeypatch):
    called: dict[str, Any] = {}
    ends = [KeyboardInterrupt(), 130]

    class Child(contextlib.AbstractContextManager["Child"]):
        def __init__(self, command: list[str], **options: Any) -> None:
            called.update(options, command=command)

        def __exit__(self, *error: object) -> None:
            assert not ends

        def wait(self) -> int:
            end = ends.pop(0)
            if isinstance(end, KeyboardInterrupt):
                raise end
            return end

    monkeypatch.setattr(classic_control_suite.subprocess, "Popen", Child)
    assert classic_control_suite.run_sweep(elsewhere / "there", 2) == 130
    assert called["command"][1:] == [
        "-P", "-m", "rlox_cli.main", "sweep", "exp=classic_control_suite",
        f"hydra.sweep.dir={elsewhere / 'there'}", "sweep.workers=2",
    ]  # fmt: skip
    assert called["env"]["OMP_NUM_THREADS"] == "1"


def test_runs_that_all_have_results_are_not_repeated(elsewhere, capsys):
    assert not classic_control_suite.is_complete()
    put(SUITE, "rlox", {leg.name: [0.0] * leg.seeds for leg in SUITE.legs})
    assert classic_control_suite.is_complete()
    assert "all 90 runs are in" in capsys.readouterr().out
    SUITE.path(SUITE.legs[3], "rlox", 9).unlink()
    assert not classic_control_suite.is_complete()


def test_the_comparison_takes_rlox_from_the_suite_and_the_peer_from_earlier_results(
    elsewhere,
):
    legs = {leg.name: leg for leg in COMPARISON.legs}
    experiments = elsewhere / "experiments"
    leg = legs["SAC_Pendulum-v1"]
    assert COMPARISON.path(leg, "rlox", 3) == SUITE.path(leg, "rlox", 3)
    own = experiments / "sb3_comparison" / "results"
    assert COMPARISON.path(leg, "sb3", 3) == own / "SAC_Pendulum-v1_sb3_s3.json"
    earlier = experiments / "off_policy_control" / "results" / "Pendulum-v1_SAC_sb3_s3.json"
    earlier.parent.mkdir(parents=True)
    earlier.write_text("{}")
    assert COMPARISON.path(leg, "sb3", 3) == earlier
    assert COMPARISON.path(leg, "sb3", 4) == own / "SAC_Pendulum-v1_sb3_s4.json"


def test_only_legs_of_the_same_algorithm_environment_and_steps_are_taken():
    found = {
        leg.name: [(of.name, same.name) for of, same in COMPARISON.earlier_legs(leg)]
        for leg in COMPARISON.legs
    }
    assert found == {
        "PPO_CartPole-v1": [], "PPO_Acrobot-v1": [], "PPO_Pendulum-v1": [],
        "A2C_CartPole-v1": [], "A2C_Acrobot-v1": [], "DQN_CartPole-v1": [], "DQN_Acrobot-v1": [],
        "SAC_Pendulum-v1": [("off_policy_control", "Pendulum-v1_SAC")],
        "TD3_Pendulum-v1": [("off_policy_control", "Pendulum-v1_TD3")],
    }  # fmt: skip


def test_committed_classic_suite_figures_follow_from_the_committed_runs():
    suite, comparison = SUITE.complete_legs(), COMPARISON.complete_legs()
    for folder, legs, document, render in (
        (SUITE.folder, suite, suite_report.summarize(suite), suite_report.render),
        (
            COMPARISON.folder, comparison,
            comparison_report.summarize(comparison, len(COMPARISON.legs)), comparison_report.render,
        ),
    ):  # fmt: skip
        expected = json.loads((folder / "expected.json").read_text())
        assert expected == suite_report.report_metadata(legs) | document
        assert (folder / "table.md").read_text() == render(document)
        assert render(document) in (folder / "README.md").read_text()


def test_the_report_has_the_score_of_each_leg_and_aggregates_of_complete_groups(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(aggregates, "RESAMPLES", 100)
    scores = {name: [-1285.9, -151.9] * 5 for name in PLAN if name.endswith("Pendulum-v1")}
    put(SUITE, "rlox", scores | {"DQN_CartPole-v1": [22.6] * 5 + [500.0] * 5})
    suite_report.write(SUITE)
    document = json.loads((SUITE.folder / "expected.json").read_text())
    assert document["normalisation"]["Acrobot-v1"]["random"] == -499.0
    leg = document["DQN_CartPole-v1"]
    assert (leg["algo"], leg["env"], leg["total_steps"], leg["seeds"]) == (
        "dqn", "CartPole-v1", 50_000, 10,
    )  # fmt: skip
    assert leg["rlox"]["iqm"] == pytest.approx(261.3)
    assert leg["normalised"]["rlox"]["iqm"] == pytest.approx(0.5)
    assert leg["training"]["rlox"]["iqm"] == pytest.approx(130.65)
    assert list(document["aggregates"]) == ["vectors"]  # results of the choices are incomplete
    group = document["aggregates"]["vectors"]
    assert group["tasks"] == ["Pendulum-v1"]
    assert group["systems"]["SAC"]["iqm"]["value"] == pytest.approx(0.5)
    assert group["systems"]["SAC"]["below_first"]["value"] == 0.5  # ties count a half
    drawn = {path.name for path in SUITE.folder.glob("*.png")}
    assert drawn == {"learning_curves.png", "performance_profile.png"}
    first = (SUITE.folder / "table.md").read_text().splitlines()[2]
    assert first.startswith("| CartPole-v1 | DQN | 50,000 | 10 | 261.3 [")


def test_the_aggregate_of_all_tasks_needs_every_leg(elsewhere):
    one = {"PPO_CartPole-v1": [500.0] * 10}
    put(COMPARISON, "rlox", one)
    put(COMPARISON, "sb3", one)
    comparison_report.write(COMPARISON)
    expected = COMPARISON.folder / "expected.json"
    assert "aggregates" not in json.loads(expected.read_text())
    best = {"CartPole-v1": 500.0, "Acrobot-v1": -73.5, "Pendulum-v1": -151.9}
    put(COMPARISON, "rlox", {name: [best[of[1]]] * 10 for name, of in PLAN.items()})
    put(COMPARISON, "sb3", {name: [best[of[1]] - 5] * 10 for name, of in PLAN.items()})
    comparison_report.write(COMPARISON)
    document = json.loads(expected.read_text())
    group = document["aggregates"]["all"]
    assert len(group["tasks"]) == 9
    assert group["systems"]["rlox"]["iqm"] == {"value": 1.0, "ci95": [1.0, 1.0]}
    assert group["systems"]["SB3"]["below_first"] == {"value": 1.0, "ci95": [1.0, 1.0]}
    assert document["TD3_Pendulum-v1"]["difference"]["iqm"] == pytest.approx(5.0)
    drawn = {path.name for path in COMPARISON.folder.glob("*.png")}
    assert drawn == {"learning_curves.png", "performance_profile.png", "steps_per_second.png"}


def test_read_speeds_takes_whole_trainings_at_the_first_size_of_each_algorithm(tmp_path):
    def case(work: str, ours: float, theirs: float, size: str = "a size") -> dict[str, Any]:
        systems = {"rlox": ours, "rlox, Gymnasium": 9.0, "SB3": theirs}
        beside = {"peer": "SB3", "ratio": theirs / ours, "low": 1.0, "high": 3.0}
        return {
            "work": work, "size": size, "elements": 100,
            "systems": [{"name": name, "median": median} for name, median in systems.items()],
            "comparisons": [{"ours": name, **beside} for name in ("rlox, Gymnasium", "rlox")],
        }  # fmt: skip

    record = tmp_path / "training.json"
    cases = [
        case("PPO on CartPole-v1: training", 0.5, 1.0),
        case("PPO on CartPole-v1: collection", 0.1, 0.2),
        case("PPO on CartPole-v1: training", 7.0, 7.0, "another"),
        case("SAC on Pendulum-v1: training", 10.0, 20.0),
    ]
    record.write_text(json.dumps({"cases": cases}))
    ppo, sac = comparison_report.read_speeds(record)
    assert (ppo["algo"], ppo["training"], ppo["size"]) == ("PPO", "PPO on CartPole-v1", "a size")
    assert ppo["steps_per_second"] == {"rlox": 200.0, "SB3": 100.0}
    assert sac["ratio"] == {"ratio": 2.0, "low": 1.0, "high": 3.0}
    assert comparison_report.render({"speeds": [ppo]}).splitlines()[-1] == (
        "| PPO on CartPole-v1 | a size | 200 | 100 | 2.00x [1.00, 3.00] |"
    )


# From rliable 1.2.0: runs x tasks.
X = np.array(
    [
        [0.10, 0.50, 0.90],
        [0.20, 0.60, 1.10],
        [0.30, 0.40, 1.0],
        [0.0, 0.70, 1.30],
        [0.25, 0.55, 0.95],
    ]
)
Y = np.array([[0.15, 0.50, 0.80], [0.05, 0.65, 1.0], [0.30, 0.35, 0.90], [0.10, 0.45, 1.05]])


def test_aggregates_are_those_of_the_reference_implementation():
    found = aggregates.summarize({"X": X, "Y": Y})
    values = {name: {m: of[m]["value"] for m in aggregates.METRICS} for name, of in found.items()}
    assert values["X"] == pytest.approx(
        {"iqm": 0.5722222222, "median": 0.55, "mean": 0.59, "optimality_gap": 0.4366666667}
    )
    assert values["Y"] == pytest.approx(
        {"iqm": 0.5083333333, "median": 0.4875, "mean": 0.525, "optimality_gap": 0.4791666667}
    )
    np.testing.assert_allclose(found["X"]["iqm"]["ci95"], [0.5167, 0.6278], atol=0.006)
    assert found["Y"]["below_first"]["value"] == pytest.approx(0.6416666667)


def test_a_profile_is_the_part_of_runs_above_each_threshold():
    found = aggregates.profile(X)
    at = [int(np.argmin(abs(found.thresholds - tau))) for tau in (0, 0.25, 0.5, 0.75, 1)]
    np.testing.assert_allclose(found.fraction[at], [14 / 15, 11 / 15, 8 / 15, 5 / 15, 2 / 15])
    assert (found.low <= found.fraction).all() and (found.fraction <= found.high).all()


def test_the_figures_have_a_panel_for_each_group(tmp_path):
    shapes = []
    for count in (1, 3):
        panels = {str(i): {"PPO": X, "SAC": Y} for i in range(count)}
        aggregates.draw(tmp_path, panels)
        shapes.append(imread(tmp_path / aggregates.FIGURE).shape)
    one, three = shapes
    assert (three[0], three[1]) == (one[0], 3 * one[1])
