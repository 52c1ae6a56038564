"""Tests of the learning curve: its numbers and its horizontal axis."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

from rlox.configs import PPOConfig, RunConfig
from rlox_cli.runs.plot import curve_figure, learning_curve, moving_mean
from rlox_cli.runs.run_folder import write_config


def fill(run: Path, name: str, *rows: dict[str, Any]) -> None:
    (run / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def result(run: Path, **given: Any) -> None:
    whole = {"algo": "ppo", "env": "E-v0", "seed": 3, "env_steps": 0, "score": None}
    (run / "result.json").write_text(json.dumps({**whole, **given}))


def axes_of(run: Path) -> Axes:
    figure = curve_figure(run)
    assert figure is not None
    (axes,) = figure.axes
    return axes


def drawn(axes: Axes) -> dict[str, list[tuple[float, float]]]:
    """Return the points of each named line."""
    lines = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    return {str(line.get_label()): [*zip(*line.get_data(), strict=True)] for line in lines}


def test_a_run_in_which_nothing_was_played_has_no_curve(tmp_path: Path) -> None:
    assert learning_curve(tmp_path) is None
    fill(tmp_path, "episodes.jsonl")
    fill(tmp_path, "metrics.jsonl", {"env_steps": 1, "updates": 1, "loss/value": 2.0})
    assert learning_curve(tmp_path) is None


def test_a_half_written_last_row_is_left_out_of_the_curve(tmp_path: Path) -> None:
    row = json.dumps({"env_steps": 10, "return": 1.0})
    (tmp_path / "episodes.jsonl").write_text(f'{row}\n{row}\n{{"env_st')
    target = learning_curve(tmp_path)
    assert target is not None
    assert target.read_bytes().startswith(b"\x89PNG")


def test_the_curve_places_episodes_at_their_environment_steps(
    tmp_path: Path,
) -> None:
    fill(
        tmp_path,
        "episodes.jsonl",
        {"env_steps": 10, "return": 1.0},
        {"env_steps": 30, "return": 5.0},
    )
    result(tmp_path, env_steps=40, score=4.0, score_ci95=[3.0, 6.0])  # without a unit, as in older runs
    axes = axes_of(tmp_path)
    assert axes.get_xlabel() == "environment steps"
    assert axes.get_title("left") == "ppo on E-v0, seed 3"
    assert drawn(axes)["episode"] == [(10, 1), (30, 5)]
    (final,) = axes.containers
    assert final.get_label() == "final evaluation: 4.000"
    assert [*zip(*final.lines[0].get_data(), strict=True)] == [(40, 4)]


def test_a_run_that_counts_updates_is_drawn_over_updates(tmp_path: Path) -> None:
    evaluated = {"env_steps": 100, "updates": 20, "eval/return_mean": 7.0}
    fill(tmp_path, "metrics.jsonl", evaluated, {"env_steps": 200, "updates": 60})
    fill(tmp_path, "episodes.jsonl", *({"env_steps": n, "return": n} for n in (50, 100, 150)))
    result(tmp_path, unit="updates", updates=60, env_steps=200, score=1.0, score_ci95=[0.0, 2.0])
    axes = axes_of(tmp_path)
    assert axes.get_xlabel() == "updates"
    assert drawn(axes)["episode"] == [(10, 50), (20, 100), (40, 150)]
    assert drawn(axes)["evaluation"] == [(20, 7)]
    assert [*axes.containers[0].lines[0].get_xdata()] == [60]


def test_a_run_without_episodes_shows_its_evaluations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PPOConfig, "unit", "samples")
    write_config(tmp_path, RunConfig())  # a killed run has no result, so its configuration gives the unit
    rows = [{"env_steps": 0, "samples": n, "eval/return_mean": n / 2} for n in (4, 8)]
    fill(tmp_path, "metrics.jsonl", *rows)
    axes = axes_of(tmp_path)
    assert (axes.get_xlabel(), drawn(axes)) == ("samples", {"evaluation": [(4, 2), (8, 4)]})


def test_a_run_that_learns_from_a_dataset_shows_its_losses_below_its_score(tmp_path: Path) -> None:
    rows = [
        {
            "env_steps": 0,
            "updates": n,
            "loss/policy": 1.0 / n,
            "loss/critic": 2.0,
            "policy/error": 9.0,
        }
        for n in (10, 20, 30)
    ]
    fill(tmp_path, "metrics.jsonl", *rows, {"env_steps": 0, "updates": 40, "loss/rare": 1.0})
    about = {"algo": "td3_bc", "unit": "updates", "updates": 40}
    result(tmp_path, **about, score=0.075, score_ci95=[0.0, 0.1])
    figure = curve_figure(tmp_path)
    assert figure is not None
    above, below = figure.axes
    assert above.get_legend().get_texts()[0].get_text() == "final evaluation: 0.075"
    assert (above.get_ylabel(), below.get_ylabel()) == ("episode return", "loss")
    assert (above.get_xlabel(), below.get_xlabel()) == ("", "updates")
    assert drawn(below) == {
        "policy": [(10, 0.1), (20, 0.05), (30, pytest.approx(1 / 30))],
        "critic": [(10, 2), (20, 2), (30, 2)],
    }
    result(tmp_path, **about)  # a run on a dataset without an environment has no score
    assert axes_of(tmp_path).get_ylabel() == "loss"


def test_the_curve_of_a_run_with_episodes_shows_only_returns(tmp_path: Path) -> None:
    rows = [{"env_steps": n, "updates": n, "loss/policy": 1.0} for n in (10, 20)]
    fill(tmp_path, "metrics.jsonl", *rows)
    fill(tmp_path, "episodes.jsonl", *({"env_steps": n, "return": 1.0} for n in range(1, 16)))
    axes = axes_of(tmp_path)
    assert axes.get_ylabel() == "episode return"
    assert [*drawn(axes)] == ["episode"]  # the mean of one episode is that episode
    fill(tmp_path, "episodes.jsonl", *({"env_steps": n, "return": 1.0} for n in range(1, 31)))
    assert [*drawn(axes_of(tmp_path))] == ["episode", "mean of 3 episodes"]


def test_scores_of_text_are_no_episode_returns(tmp_path: Path) -> None:
    rows = [{"env_steps": 0, "samples": n, "eval/return_mean": n / 8} for n in (4, 8)]
    fill(tmp_path, "metrics.jsonl", *rows)
    result(tmp_path, algo="sft", env="text/copy", unit="samples", samples=9)
    assert axes_of(tmp_path).get_ylabel() == "reward of a completion"


def test_the_moving_mean_looks_back_only() -> None:
    values = np.array([1.0, 2.0, 3.0, 4.0])
    assert moving_mean(values, 2).tolist() == [1.0, 1.5, 2.5, 3.5]
    assert moving_mean(values, 10).tolist() == [1.0, 1.5, 2.0, 2.5]
