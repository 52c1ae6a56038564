"""Tests of the summary of a sweep: the order of its columns and the digits of its numbers."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from helpers.reports import make_run

from rlox_cli.report.read import sweep_kind
from rlox_cli.sweeps import summary as sweep_summary


def scored(folder: Path, seed: int, episodes: list[float]) -> None:
    mean = sum(episodes) / len(episodes)
    run = make_run(folder / f"{seed}_seed-{seed}", mean, env="X-v0", seed=seed)
    data = json.loads((run / "result.json").read_text())
    data |= {"env_steps": 200, "episodes": episodes, "score_iqm": mean}
    data |= {"score_ci95": [min(episodes), max(episodes)]}
    (run / "result.json").write_text(json.dumps(data))


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "summary.csv").open() as file:
        return list(csv.DictReader(file))


def test_the_summary_puts_the_interval_between_score_and_iqm(tmp_path: Path) -> None:
    scored(tmp_path, 0, [1.0, 3.0])
    sweep_summary.write_summary(tmp_path, [], {})
    (row,) = rows(tmp_path)
    at = list(row).index("score")
    assert list(row)[at : at + 4] == ["score", "score_ci95_low", "score_ci95_high", "score_iqm"]
    assert [row[name] for name in list(row)[at : at + 4]] == ["2.0", "1.0", "3.0", "2.0"]


def test_one_episode_and_one_seed_have_no_interval(tmp_path: Path) -> None:
    scored(tmp_path, 0, [2.0])  # an earlier version gave it an interval
    told = sweep_summary.write_summary(tmp_path, [], {})
    (row,) = rows(tmp_path)
    assert (row["score"], row["score_ci95_low"], row["score_ci95_high"]) == ("2.0", "", "")
    assert "ppo on X-v0: 2.000 (1 run)" in told


def test_scores_that_differ_little_are_told_apart(tmp_path: Path) -> None:
    for seed, score in enumerate((-2.978, -2.974)):
        scored(tmp_path, seed, [score, score])
    told = sweep_summary.write_summary(tmp_path, [], {})
    assert (
        "ppo on X-v0: IQM -2.976 (95% CI -2.978 to -2.974), mean -2.976, standard deviation 0.003 (2 runs)"
        in told
    )


def test_a_sweep_of_an_earlier_version_is_known_by_its_columns(tmp_path: Path) -> None:
    before = (
        "job,status,algo,env,seed,unit,steps,env_steps,score,score_iqm,score_ci95_low,score_ci95_high,"
        "seconds,reason"
    )
    for head, kind in ((before, "sweep"), ("job,status,score", "")):
        (tmp_path / "summary.csv").write_text(head + "\n")
        assert sweep_kind(tmp_path) == kind
