"""Tests that the tables of `rlox report` agree with the files of the run folders."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest
from helpers.cli import Cli
from helpers.reports import ReportPage, make_run, numbers
from helpers.tree import tree

from rlox.errors import ConfigError
from rlox_cli.commands.report import ReportConfig
from rlox_cli.report.build import report
from rlox_cli.sweeps.summary import COLUMNS

SCORES = {
    ("ppo", "CartPole-v1"): [100.0, 200.0, 300.0, 400.0, 90.0],
    ("ppo", "Acrobot-v1"): [-90.0, -100.0, -80.0, -85.0, -500.0],
    ("a2c", "CartPole-v1"): [50.0, 150.0, 250.0, 350.0, 450.0],
    ("a2c", "Acrobot-v1"): [-200.0, -210.0, -190.0, -205.0, -195.0],
}


def by_hand(scores: list[float]) -> float:
    """Return the interquartile mean of five numbers: it leaves out one at either end."""
    assert len(scores) == 5
    return statistics.fmean(sorted(scores)[1:4])


def written(place: Path, **given: object) -> ReportPage:
    """Write a report on `place` and return its page."""
    config = ReportConfig(runs=(str(place),), **{"formats": (), "resamples": 200, **given})
    assert report(config) == 0
    return ReportPage(Path(config.out or place / "report") / "report.html")


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sweep")
    number = 0
    for (algo, env), scores in SCORES.items():
        for seed, score in enumerate(scores):
            points = {100: score / 2, 200: score}
            options = {"algo": algo, "env": env, "seed": seed, "evaluations": points}
            make_run(root / f"{number}_{algo}_{seed}", score, **options)
            number += 1
    broken = {"status": "failed", "reason": "EnvError: it broke"}
    make_run(root / f"{number}_broken", None, seed=7, **broken)
    make_run(root / f"{number + 1}_pruned", 3.0, seed=8, status="pruned", reason="by the study")
    make_run(root / "3_set_aside.attempt1", 1e9)
    return root


@pytest.fixture(scope="module")
def page(sweep: Path) -> ReportPage:
    return written(sweep)


def test_the_scores_are_those_of_the_result_files(sweep: Path, page: ReportPage) -> None:
    table = page.tables["table-scores"]
    found = dict(zip(zip(table.column("method"), table.column("task"), strict=True), table.rows, strict=True))
    assert set(found) == set(SCORES)
    for (algo, env), row in found.items():
        files = [json.loads(p.read_text()) for p in sweep.glob(f"*_{algo}_?/result.json")]
        scores = [data["score"] for data in files if data["env"] == env]
        cells = dict(zip(table.head, row, strict=True))
        assert cells["n"] == "5"
        assert numbers(cells["IQM [95% CI]"])[0] == pytest.approx(by_hand(scores), rel=1e-3)
        assert numbers(cells["mean [95% CI]"])[0] == pytest.approx(statistics.fmean(scores), rel=1e-3)
        assert numbers(cells["median"])[0] == pytest.approx(statistics.median(scores), rel=1e-3)
        assert numbers(cells["lowest"]) == pytest.approx([min(scores)], rel=1e-3)
        assert numbers(cells["highest"]) == pytest.approx([max(scores)], rel=1e-3)
        value, low, high = numbers(cells["IQM [95% CI]"])
        assert low <= value <= high


def test_aggregates_scale_scores_by_each_tasks_lowest_and_highest_run(
    page: ReportPage,
) -> None:
    table = page.tables["table-aggregate"]
    for algo, row in zip(table.column("method"), table.rows, strict=True):
        scaled = []
        for env in ("CartPole-v1", "Acrobot-v1"):
            every = SCORES["ppo", env] + SCORES["a2c", env]
            low, high = min(every), max(every)
            scaled += [(score - low) / (high - low) for score in SCORES[algo, env]]
        middle = sorted(scaled)[2:8]  # of ten runs a quarter, rounded down, is left out at either end
        cells = dict(zip(table.head, row, strict=True))
        assert (cells["tasks"], cells["n"]) == ("2", "10")
        assert numbers(cells["IQM [95% CI]"])[0] == pytest.approx(statistics.fmean(middle), abs=6e-4)
        gap = statistics.fmean(1 - score for score in scaled)
        assert numbers(cells["optimality gap"])[0] == pytest.approx(gap, abs=6e-4)


def test_the_probability_of_improvement_counts_pairs(page: ReportPage) -> None:
    table = page.tables["table-improvement"]
    (row,) = table.rows
    assert row[:3] == ["a2c", "ppo", "2"]
    parts = [
        statistics.fmean((x > y) + (x == y) / 2 for x in SCORES["a2c", env] for y in SCORES["ppo", env])
        for env in ("CartPole-v1", "Acrobot-v1")
    ]
    assert numbers(row[-1])[0] == pytest.approx(statistics.fmean(parts), abs=6e-4)


def test_a_job_that_is_not_done_is_listed_with_its_reason_and_in_no_score(page: ReportPage) -> None:
    table = page.tables["table-left_out"]
    listed = dict(zip(table.column("status"), table.column("reason"), strict=True))
    assert listed == {"failed": "EnvError: it broke", "pruned": "by the study"}
    assert "22 runs of 2 methods on 2 tasks: 20 done, 1 failed, 1 pruned." in page.text
    assert "set_aside" not in page.text


def test_curves_are_the_iqm_over_seeds_at_each_step(page: ReportPage) -> None:
    panel = page.data["panels"]["plot-learning_curves-1"]
    lines = {t["name"]: t for t in panel["data"] if t["meta"]["role"] == "line"}
    for algo in ("ppo", "a2c"):
        final = by_hand(SCORES[algo, "CartPole-v1"])
        assert lines[algo]["x"] == [100, 200]
        assert lines[algo]["y"] == pytest.approx([final / 2, final], rel=1e-4)
        assert lines[algo]["text"] == "n = 5"
        assert all(low <= final <= high for low, high in lines[algo]["customdata"][1:])
    assert "CartPole-v1: evaluations during training" in page.text


def test_the_time_table_of_a_report_shows_the_seconds_of_the_results(page: ReportPage) -> None:
    table = page.tables["table-time"]
    cells = dict(zip(table.head, table.rows[0], strict=True))
    of = [cells[f"{part} s"] for part in ("collect", "update", "evaluate", "rest", "total")]
    assert [float(s) for s in of] == [5.0, 2.5, 1.0, 1.5, 10.0]
    assert cells["per second [slowest, fastest]"].split()[0] == "20.00"


def test_one_run_has_no_interval_and_the_page_says_so(tmp_path: Path) -> None:
    page = written(make_run(tmp_path / "run", 42.0))
    assert page.tables["table-scores"].column("IQM [95% CI]") == ["42.00"]
    assert "One run of each method and task" in page.text
    assert "Performance profile" not in page.text
    assert "CartPole-v1: training return" in page.text, "there are no evaluations during training"


def test_a_method_is_named_by_the_setting_in_which_it_differs(tmp_path: Path) -> None:
    for number in range(4):
        rate = (1e-3, 3e-4)[number % 2]
        settings = {"learning_rate": rate, "api_token": f"s3cret{number % 2}"}
        make_run(tmp_path / f"{number}_x", 1.0 * number, seed=number // 2, settings=settings)
    page = written(tmp_path)
    (own,) = [t for name, t in page.tables.items() if name == "table-settings"]
    assert own.column("key") == ["algo.learning_rate", "algo.api_token"]
    assert [row[1:] for row in own.rows] == [["0.001", "0.0003"], ["***", "***"]]
    assert "s3cret" not in page.source
    assert page.tables["table-scores"].column("n") == ["2", "2"]


def test_runs_that_count_different_units_have_axes_of_their_own(tmp_path: Path) -> None:
    make_run(tmp_path / "0_a", 1.0)
    make_run(tmp_path / "1_b", 2.0, algo="bc", unit="updates")
    panels = written(tmp_path).data["panels"]
    titles = {
        panel["layout"]["xaxis"]["title"]["text"]
        for name, panel in panels.items()
        if name.startswith("plot-learning_curves")
    }
    assert titles == {"environment steps", "updates"}


def test_damaged_files_are_passed_over_and_counted(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "0_a", 5.0)
    with (folder / "metrics.jsonl").open("ab") as file:
        file.write(
            b'{"env_steps": 1, \n[1, 2]\n\xff\xfe\n{"env_steps": 300, "train/return_mean": 9.0}\n{"half'
        )
    (make_run(tmp_path / "1_b", 6.0, seed=1) / "config.yaml").write_text("a: [")
    (make_run(tmp_path / "2_c", 7.0, seed=2) / "result.json").write_text('{"score": "x"')
    (make_run(tmp_path / "3_d", None, seed=3, status="running") / "status.json").write_text("[]")
    page = written(tmp_path)
    assert "3 damaged lines of metrics.jsonl" in page.text
    states = dict(
        zip(
            page.tables["table-runs"].column("run"),
            page.tables["table-runs"].column("status"),
            strict=True,
        )
    )
    assert states == {"0_a": "done", "1_b": "done", "2_c": "done", "3_d": "unreadable"}


def test_a_run_that_says_running_and_holds_no_lock_has_died(tmp_path: Path) -> None:
    make_run(tmp_path / "0_a", 5.0)
    make_run(tmp_path / "1_b", None, seed=1, status="running", reason="")
    assert written(tmp_path).tables["table-left_out"].column("status") == ["died"]


def test_a_job_that_a_sweep_never_started_is_listed(tmp_path: Path) -> None:
    make_run(tmp_path / "0_a", 5.0)
    (tmp_path / "summary.csv").write_text(
        "job,status,algo,env,seed,reason\n0_a,done,ppo,CartPole-v1,0,\n"
        "1_b,not started,ppo,CartPole-v1,1,no machine\n"
    )
    table = written(tmp_path).tables["table-left_out"]
    assert (table.column("job"), table.column("reason")) == (["1_b"], ["no machine"])


def test_a_job_that_began_after_the_summary_was_written_counts_once(tmp_path: Path) -> None:
    make_run(tmp_path / "0_a_0a1b2c", 5.0)
    make_run(tmp_path / "1_b_ba7826", None, seed=1, status="running", reason="")
    (tmp_path / "summary.csv").write_text(
        "job,status,algo,env,seed,reason\n0_a_0a1b2c,done,ppo,CartPole-v1,0,\n"
        "1_b,not started,ppo,CartPole-v1,1,no machine\n"
    )
    table = written(tmp_path).tables["table-left_out"]
    assert (table.column("job"), table.column("status")) == (["1_b_ba7826"], ["died"])


@pytest.mark.parametrize(("left", "kind"), [("study.db", "search"), ("summary.csv", "sweep")])
def test_the_report_refuses_a_search_or_sweep_without_started_runs(
    tmp_path: Path, left: str, kind: str
) -> None:
    (tmp_path / left).write_text("")
    (tmp_path / "summary.csv").write_text(",".join(COLUMNS) + "\n")
    with pytest.raises(ConfigError, match=f"no run of this {kind} has started"):
        written(tmp_path)
    assert not (tmp_path / "report").exists()


def test_a_sweep_whose_jobs_were_all_refused_has_a_page_that_says_so(tmp_path: Path) -> None:
    values = {"job": "0_a", "status": "failed", "algo": "ppo", "env": "X-v0", "reason": "no robot"}
    row = ",".join(values.get(column, "") for column in COLUMNS)
    (tmp_path / "summary.csv").write_text(f"{','.join(COLUMNS)}\n{row}\n")
    page = written(tmp_path)
    assert page.tables["table-left_out"].column("reason") == ["no robot"]
    assert "No run has a score yet" in page.text


def test_a_report_without_learning_curves_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    why = "no run logged two returns during training"
    make_run(tmp_path / "0_a", 5.0, training={200: 1.0})
    assert f"No learning curves: {why}" in written(tmp_path).text
    assert f"note: No learning curves: {why}" in capsys.readouterr().out
    make_run(tmp_path / "1_b", 5.0, env="Acrobot-v1")
    assert f"No learning curves of CartPole-v1: {why}" in written(tmp_path).text
    make_run(tmp_path / "2_c", 5.0, seed=1)
    assert "No learning curves" not in written(tmp_path).text


def test_one_more_method_moves_no_digit_of_the_others(tmp_path: Path, sweep: Path, page: ReportPage) -> None:
    extra = make_run(tmp_path / "more", 77.0, algo="dqn")
    out = tmp_path / "out"
    config = ReportConfig(runs=(str(sweep), str(extra), str(sweep)), formats=(), resamples=200, out=str(out))
    assert report(config) == 0
    before, after = (p.tables["table-scores"].rows for p in (page, ReportPage(out / "report.html")))
    assert [row for row in after if row[0] != "dqn"] == before


def test_the_report_refuses_and_names_a_folder_without_runs(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="empty: no runs there"):
        report(ReportConfig(runs=(str(tmp_path / "empty"),)))
    assert tree(tmp_path / "empty") == {}


def test_rlox_report_takes_folders_without_a_key(cli: Cli, tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "a=b, c", 5.0)
    make_run(tmp_path / "runs" / "plain", 7.0, seed=1)
    said = cli("report", "runs/a=b, c", "runs/plain", "formats=[png]", "title=<b>Mine</b>", "resamples=100")
    assert said.code == 0, said.err
    assert "ppo on CartPole-v1: 6.000 [5.000, 7.000] (2 runs)" in said.out
    assert ReportPage(tmp_path / "report/report.html").text.count("<b>Mine</b>") == 2
    assert (tmp_path / "report/figures/scores.png").read_bytes().startswith(b"\x89PNG")


def test_rlox_report_does_not_write_through_a_link(cli: Cli, tmp_path: Path) -> None:
    make_run(tmp_path / "run", 1.0)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run" / "report").symlink_to(tmp_path / "elsewhere")
    result = cli("report", "run")
    assert (result.code, list((tmp_path / "elsewhere").iterdir())) == (2, [])
    assert "run/report is a link to" in result.err


def test_rlox_report_refuses_a_range_of_an_unknown_task_and_strict_without_expected(
    cli: Cli, tmp_path: Path
) -> None:
    make_run(tmp_path / "run", 1.0)
    wrong = cli("report", "run", "ranges.CartPol-v1=[0,500]", "formats=[]")
    assert (wrong.code, "did you mean 'CartPole-v1'" in wrong.err) == (2, True)
    assert "give expected=FILE" in cli("report", "run", "strict=true", "formats=[]").err


@pytest.mark.parametrize("value", ["[0]", "[500,0]", "[0,0]", "[0,1,2]", "[a,b]", "[false,true]", "5"])
def test_a_range_that_is_no_pair_of_rising_numbers_is_refused(value: str, cli: Cli, tmp_path: Path) -> None:
    make_run(tmp_path / "run", 1.0)
    result = cli("report", "run", f"ranges.CartPole-v1={value}", "formats=[]")
    assert (result.code, "expected [LOW, HIGH], e.g. [0, 500]" in result.err) == (2, True)
