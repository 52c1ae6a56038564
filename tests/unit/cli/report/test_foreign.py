"""Tests that `rlox report` reads logs of other programs in the form in which their own writers write them."""

from __future__ import annotations

import csv
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.cli import Cli
from helpers.reports import make_run

from rlox.errors import ConfigError
from rlox_cli.report.foreign import parse_baseline, read_foreign
from rlox_cli.report.records import Run


def runs_of(given: object, label: str = "other") -> list[Run]:
    return sorted(read_foreign(parse_baseline(label, given)), key=lambda run: (run.env, run.seed or 0))


def table(path: Path, rows: list[list[object]]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return str(path)


def test_the_report_reads_tensorboard_events_of_torchs_summary_writer(tmp_path: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    for seed in range(2):
        with SummaryWriter(str(tmp_path / f"CartPole-v1__ppo__{seed}__1700000000")) as writer:
            for step in (100, 200):
                writer.add_scalar("eval/mean_reward", step / 10 + seed, step)
                writer.add_scalar("rollout/ep_rew_mean", step / 20, step)
    found = runs_of(str(tmp_path))
    assert [(r.algo, r.env, r.seed, r.score, r.score_kind) for r in found] == [
        ("ppo", "CartPole-v1", 0, 20.0, "last evaluation"),
        ("ppo", "CartPole-v1", 1, 21.0, "last evaluation"),
    ]
    assert found[0].training.values.tolist() == [5.0, 10.0]
    assert found[0].label == "other"


def test_stable_baselines3s_evaluations_and_monitors_are_one_run(tmp_path: Path) -> None:
    from stable_baselines3.common.monitor import ResultsWriter

    folder = tmp_path / "a2c" / "seed_3"
    folder.mkdir(parents=True)
    results = [[1.0, 3.0], [5.0, 7.0]]
    np.savez(folder / "evaluations.npz", timesteps=[10, 20], results=results)
    writer = ResultsWriter(str(folder / "0"), header={"t_start": 0.0, "env_id": "CartPole-v1"})
    for k in range(3):
        writer.write_row({"r": 10.0 * k, "l": 5, "t": float(k)})
    (run,) = runs_of(str(tmp_path))
    assert (run.algo, run.env, run.seed, run.score, run.episodes) == (
        "a2c",
        "CartPole-v1",
        3,
        6.0,
        2,
    )
    assert run.evaluations.values.tolist() == [2.0, 6.0]
    assert run.training.steps.tolist() == [5.0, 10.0, 15.0]
    assert run.training.values.tolist() == [0.0, 5.0, 10.0], "means of the last 100 episodes"


def test_a_wandb_csv_has_one_run_per_column(tmp_path: Path) -> None:
    metric = "eval/return_mean"
    names = [f"ppo-Pendulum-v1-s{k} - {metric}" for k in range(2)]
    head = ["Step", names[0], f"{names[0]}__MIN", names[1]]
    path = table(tmp_path / "w.csv", [head, [1, "-5", "-9", "-6"], [2, "-3", "-9", ""]])
    found = runs_of(path)
    assert [(r.algo, r.env, r.seed, r.score) for r in found] == [
        ("ppo", "Pendulum-v1", 0, -3.0), ("ppo", "Pendulum-v1", 1, -6.0),
    ]  # fmt: skip


def test_a_long_table_has_a_run_for_each_task_method_and_seed(tmp_path: Path) -> None:
    rows = [["env", "algo", "seed", "step", "return"]]
    rows += [["E-v0", "acme", s, t, t + s] for s in (4, 5) for t in (1, 2)]
    found = runs_of(table(tmp_path / "t.csv", rows))
    assert [(r.env, r.algo, r.seed, r.score, r.score_kind) for r in found] == [
        ("E-v0", "acme", 4, 6.0, "training return"), ("E-v0", "acme", 5, 7.0, "training return"),
    ]  # fmt: skip


def test_a_mapping_sets_columns_names_and_score_kind_of_a_foreign_file(tmp_path: Path) -> None:
    path = table(tmp_path / "x.csv", [["T", "Y"], [1, 2.0], [3, 4.0]])
    mapping = {
        "path": path,
        "env": "E-v0",
        "algo": "mine",
        "steps": "T",
        "value": "Y",
        "kind": "evaluation",
    }
    (run,) = runs_of(mapping)
    assert (run.env, run.algo, run.score, run.score_kind) == (
        "E-v0",
        "mine",
        4.0,
        "last evaluation",
    )
    named = table(tmp_path / "logs" / "E-v0.best.7.csv", [["step", "score"], [1, 2.0]])
    pattern = r"(?P<env>.+?)\.(?P<algo>.+?)\.(?P<seed>\d+)"
    (run,) = runs_of({"path": named, "pattern": pattern})
    assert (run.env, run.algo, run.seed) == ("E-v0", "best", 7)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"pth": "a"}, "did you mean 'path'"),
        ({"path": "t.csv", "kind": "x"}, "evaluation, training"),
        ({"path": "t.csv", "pattern": "("}, "no regular expression"),
        ({"path": "t.csv", "pattern": "a"}, "groups such as"),
        ({"path": "t.csv", "value": "Z", "env": "E-v0"}, "no column 'Z'"),
        ({"path": "t.csv", "steps": "Z"}, "no column of steps among step, return"),
        ("t.csv", "env: CartPole-v1"),
        (3, "expected a path"),
    ],
    ids=str,
)
def test_the_report_refuses_unreadable_foreign_logs_and_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: object, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    table(tmp_path / "t.csv", [["step", "return"], [1, 2.0]])
    with pytest.raises(ConfigError, match=says):
        runs_of(given)


def test_arrays_that_hold_code_are_refused(tmp_path: Path) -> None:
    array = np.array([SimpleNamespace()], dtype=object)
    np.savez(tmp_path / "evaluations.npz", timesteps=[1], results=array)
    with pytest.raises(ConfigError, match="EvalCallback"):
        runs_of(str(tmp_path))


def test_a_baseline_stands_beside_the_runs_under_its_own_name(cli: Cli, tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "0_a", 5.0)
    make_run(tmp_path / "runs" / "1_b", 6.0, seed=1)
    table(tmp_path / "o p" / "ppo_CartPole-v1_seed0.csv", [["step", "return"], [1, 2.0]])
    said = cli("report", "runs", "baseline.SB3=o p", "formats=[]", "resamples=100")
    assert said.code == 0, said.err
    assert "SB3: ppo on CartPole-v1: 2.000 (1 run)" in said.out
    assert "final evaluation of 2 runs, training return of 1 run" in said.out
