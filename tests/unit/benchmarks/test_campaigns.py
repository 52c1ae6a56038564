"""Tests learning campaigns: fixed plans, equal hyperparameters, figures that follow from the runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import classic_control
import numpy as np
import off_policy_control
import one_task_each
import processes
import pytest
import sb3
import tables
from classic_control import Campaign, Leg
from omegaconf import OmegaConf

from rlox.statistics import iqm

OFF_POLICY = off_policy_control.CAMPAIGN
ALL = {campaign.name: campaign for campaign in (OFF_POLICY, one_task_each.CAMPAIGN)}
LEG = Leg("CartPole-v1", 1_000, seeds=2)


def preset(algo: str, env: str) -> dict:
    return OmegaConf.to_container(
        OmegaConf.load(classic_control.ROOT / "conf" / "tuned" / algo / f"{env}.yaml")
    )


def result(score: float, training: float | None = None) -> dict:
    """Makes a run whose episodes all returned `score`."""
    found = {"returns": [score] * 50, "curve": [None] * 25 + [score] * 25}
    origin = {"packages": {"torch": "2"}, "wheel": {"sha256": "ab"}}
    return found | ({} if training is None else {"training": training, "provenance": origin})


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    monkeypatch.setattr(classic_control, "ROOT", tmp_path)
    made = Campaign("a_campaign", "a2c", (LEG, Leg("Acrobot-v1", 1_000, seeds=1)))
    (made.folder / "results").mkdir(parents=True)
    return made


def test_off_policy_control_has_four_legs_and_ten_five_and_three_seeds():
    plan = {leg.name: (leg.env, leg.steps, leg.seeds) for leg in OFF_POLICY.legs}
    assert plan == {
        "Pendulum-v1_SAC": ("Pendulum-v1", 20_000, 10),
        "Pendulum-v1_TD3": ("Pendulum-v1", 20_000, 10),
        "MountainCarContinuous-v0_SAC": ("MountainCarContinuous-v0", 50_000, 5),
        "HalfCheetah-v5_SAC": ("HalfCheetah-v5", 100_000, 3),
    }
    assert OFF_POLICY.script.is_file()


@pytest.mark.parametrize("campaign", ALL.values(), ids=list(ALL))
def test_committed_campaign_figures_follow_from_the_committed_runs(campaign):
    expected, legs = campaign.folder / "expected.json", campaign.complete_legs()
    if not expected.exists():
        assert legs == []
        return
    document = json.loads(expected.read_text())
    found = {leg.name: campaign.report_module.summarize(leg) for leg in legs}
    assert {k: v for k, v in document.items() if isinstance(v, dict) and k != "versions"} == found
    table = campaign.report_module.render([(leg.task, found[leg.name]) for leg in legs])
    assert (campaign.folder / "table.md").read_text() == table
    assert table in (campaign.folder / "README.md").read_text()


def test_a_schedule_is_a_function_of_what_remains_of_the_run():
    given = sb3.translate(preset("ppo", "CartPole-v1"))
    rate, clip = given.pop("learning_rate"), given.pop("clip_range")
    assert [rate(1.0), rate(0.5), clip(0.25)] == [1e-3, 5e-4, 0.05]
    assert given == {
        "n_steps": 32, "batch_size": 256, "n_epochs": 20, "gamma": 0.98, "gae_lambda": 0.8, "ent_coef": 0.0,
    }  # fmt: skip


def test_translate_gives_dqns_buffer_and_layers_the_names_of_sb3():
    assert sb3.translate(preset("dqn", "CartPole-v1")) == {
        "learning_rate": 2.3e-3, "batch_size": 64, "learning_starts": 1000, "gamma": 0.99,
        "target_update_interval": 10, "train_freq": 256, "gradient_steps": 128,
        "exploration_fraction": 0.16, "exploration_final_eps": 0.04,
        "buffer_size": 100_000, "policy_kwargs": {"net_arch": [256, 256]},
    }  # fmt: skip


def test_a_key_of_ours_that_has_no_translation_is_passed_on_and_not_dropped():
    assert sb3.translate({"algo": {"double_dqn": True}, "env": {}}) == {"double_dqn": True}


def test_a_leg_counts_once_every_seed_of_both_systems_is_there(campaign):
    for system in tables.SYSTEMS:
        for seed in range(2):
            assert campaign.read_runs(LEG) is None
            campaign.path(LEG, system, seed).write_text(json.dumps(result(10.0 + seed)))
    runs = campaign.read_runs(LEG)
    assert [run["returns"][0] for run in runs["sb3"]] == [10.0, 11.0]


def test_a_campaign_does_not_repeat_a_run_with_an_existing_result(campaign, monkeypatch):
    path = campaign.path(LEG, "rlox", 0)
    path.write_text("kept")
    monkeypatch.setattr(classic_control, "run_python", None)
    classic_control.measure(campaign, LEG, "rlox", 0)
    assert path.read_text() == "kept"
    with pytest.raises(TypeError):
        classic_control.measure(campaign, LEG, "rlox", 1)


def test_a_report_runs_nothing_that_is_missing(campaign, monkeypatch):
    reported: list[Campaign] = []
    ran: list[object] = []
    monkeypatch.setattr(classic_control, "measure", lambda *job: ran.append(job))
    monkeypatch.setattr("sys.argv", ["a_campaign.py", "--report"])
    classic_control.main(campaign, "About.", reported.append)
    assert (ran, reported) == ([], [campaign])
    monkeypatch.setattr("sys.argv", ["a_campaign.py", "--legs", "Acrobot-v1"])
    classic_control.main(campaign, "About.", reported.append)
    assert [(leg.env, system, seed) for _, leg, system, seed in ran] == [
        ("Acrobot-v1", "rlox", 0), ("Acrobot-v1", "sb3", 0),
    ]  # fmt: skip


def test_a_campaign_runs_the_installed_rlox_also_in_a_checkout(tmp_path, monkeypatch):
    (tmp_path / "rlox_cli").mkdir()
    (tmp_path / "rlox_cli" / "__init__.py").write_text("raise RuntimeError('not compiled')")
    monkeypatch.chdir(tmp_path)
    short = ("tuned=null", "total_steps=8", "env.n_envs=1", "algo.n_steps=8", "eval.episodes=1")
    run = processes.train(tmp_path / "out", *short)
    assert json.loads((run / "result.json").read_text())["env_steps"] == 8


def test_a_campaign_resumes_stopped_runs_and_does_not_repeat_finished_ones(tmp_path, monkeypatch):
    short = ("tuned=none", "env.n_envs=1", "algo.n_steps=8", "eval.episodes=1", "total_steps=16")
    root = tmp_path / "out"
    run = processes.train(root, *short, "checkpoint.every=8")
    whole = (run / "metrics.jsonl").read_text()
    assert processes.train(root, *short, "checkpoint.every=8") == run
    (run / "result.json").unlink()  # as after a kill
    status = json.loads((run / "status.json").read_text())
    (run / "status.json").write_text(json.dumps(status | {"status": "running"}))
    shutil.rmtree(run / "checkpoints" / "step-000000000016")
    (run / "checkpoints" / "last").unlink()
    (run / "checkpoints" / "last").symlink_to("step-000000000008")
    assert processes.train(root, *short, "checkpoint.every=8") == run
    assert (run / "result.json").exists()
    assert len((run / "metrics.jsonl").read_text().splitlines()) == len(whole.splitlines())
    assert processes.train(root, *short, "checkpoint.every=4") != run  # with other settings


def test_a_result_names_the_commit_of_the_checkout_and_none_outside_of_one(monkeypatch):
    monkeypatch.setattr(processes, "git_state", lambda folder: {"sha": "ab" * 20, "dirty": False})
    assert processes.commit_entry() == {"commit": "ab" * 20}
    monkeypatch.setattr(processes, "git_state", lambda folder: None)
    assert processes.commit_entry() == {}


def test_a_failed_child_process_ends_the_campaign_with_its_stderr_and_code():
    with pytest.raises(SystemExit, match=r"(?s)ended with 3:\nthe reason"):
        processes.run_python("-c", "import sys; print('the reason', file=sys.stderr); sys.exit(3)")


def test_a_report_has_only_complete_legs_and_their_provenance(campaign, capsys):
    for system, score in (("rlox", 30.0), ("sb3", 20.0)):
        for seed in range(2):
            run = result(score, training=score + 5)
            campaign.path(LEG, system, seed).write_text(json.dumps(run))
    classic_control.write(campaign)
    document = json.loads((campaign.folder / "expected.json").read_text())
    assert list(document) == ["schema_version", "versions", "wheel_sha256", "CartPole-v1"]
    assert (document["versions"], document["wheel_sha256"]) == ({"torch": "2"}, ["ab"])
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| CartPole-v1 | 1,000 | 2 | final policy | 30.0 [30.0, 30.0] | 20.0 [20.0, 20.0] | "
        "10.0 [10.0, 10.0] |",
        "|  |  |  | last 100 training episodes | 35.0 [35.0, 35.0] | 25.0 [25.0, 25.0] | 10.0 [10.0, 10.0] |",
    ]
    assert (campaign.folder / "learning_curves.png").stat().st_size > 1000


def test_a_new_table_takes_the_place_of_the_last_one_in_the_readme(tmp_path, capsys):
    readme = tmp_path / "README.md"
    readme.write_text("before\n\n| a |\n\nafter\n")
    tables.publish(tmp_path, "| a |\n")
    tables.publish(tmp_path, "| b |\n| c |\n")
    assert readme.read_text() == "before\n\n| b |\n| c |\n\nafter\n"
    assert (tmp_path / "table.md").read_text() == capsys.readouterr().out[6:] == "| b |\n| c |\n"


def test_the_interval_of_a_difference_resamples_the_seeds_of_both_apart():
    rng = np.random.default_rng(1)
    a, b = rng.normal(5.0, 1.0, 200), rng.normal(3.0, 2.0, 200)
    low, high = tables.compare({"rlox": a, "sb3": b})["difference"]["ci95"]
    # the IQM of 200 normal draws has about 1.09 times the variance of their mean
    half = 1.96 * np.sqrt(1.09 * (1.0 + 4.0) / 200)
    assert (low + high) / 2 == pytest.approx(2.0, abs=0.35)
    assert (high - low) / 2 == pytest.approx(half, rel=0.25)


def test_row_iqms_equals_iqm_of_each_row():
    for n in (1, 2, 5, 10, 11):
        draws = np.random.default_rng(n).normal(size=(50, n))
        np.testing.assert_allclose(tables.row_iqms(draws), [iqm(row) for row in draws], rtol=1e-15)


def test_a_point_of_a_curve_is_the_mean_of_the_20_episodes_before_it():
    ends = [(10 * (i + 1), float(i)) for i in range(100)]
    points = tables.learning_curve(ends, 1_000)
    assert len(points) == 50
    assert points[0] == 0.5  # by step 20, two episodes: 0 and 1
    assert points[-1] == np.arange(80, 100).mean()
    assert tables.learning_curve([(500, 1.0)], 1_000)[:25] == [None] * 24 + [1.0]


def test_the_return_of_training_is_that_of_the_last_100_episodes():
    ends = [(step, 0.0 if step <= 50 else 2.0) for step in range(1, 151)]
    assert classic_control.make_result(LEG, [1.0], ends, {})["training"] == 2.0
    assert classic_control.make_result(LEG, [1.0], ends[:75], {})["training"] == pytest.approx(50 / 75)
