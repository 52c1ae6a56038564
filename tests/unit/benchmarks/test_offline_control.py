"""Tests the campaign of learning from datasets: its plan, its settings, and its report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import offline_control
import offline_legs
import offline_report
import pytest
from helpers.cli import Cli
from offline_legs import ALGORITHMS, LEGS, Leg

TINY = Leg("Pendulum-v1", 10, (), "medium", 20, {"BC": 5, "TD3+BC": 5, "DT": 5}, seeds=2, width=4)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for module in (offline_legs, offline_report, offline_control):
        monkeypatch.setattr(module, "FOLDER", tmp_path)
    monkeypatch.setattr(offline_report, "LEGS", (TINY,))
    (tmp_path / "README.md").write_text("| nothing |\n|---|\n")
    for seed in range(TINY.seeds):
        about = {"digest": f"rows {seed}", "behaviour": {"mean": -700.0 - 100 * seed}}
        offline_control.write_json(tmp_path / "datasets" / f"{TINY.name}_s{seed}.json", about)
    yield tmp_path


def result(system: str, seed: int, score: float, digest: str | None = None, **more: Any) -> None:
    of = {"returns": [score, score], "packages": {}, "dataset": digest or f"rows {seed}", **more}
    offline_control.write_json(offline_legs.result_path(TINY, system, seed), of)


def test_the_offline_campaign_plans_the_legs_seeds_and_updates_it_claims() -> None:
    plan = {leg.name: (leg.seeds, {name: n // 1000 for name, n in leg.updates.items()}) for leg in LEGS}
    ten = dict.fromkeys(("BC", "TD3+BC", "IQL", "CQL", "DT", "TD3"), 10)
    assert plan == {
        "Pendulum-v1_medium-replay": (5, ten),
        "Pendulum-v1_medium": (5, ten),
        "Hopper-v5_medium-replay": (
            3, {"BC": 100, "TD3+BC": 100, "IQL": 100, "CQL": 30, "TD3": 100},
        ),
    }  # fmt: skip
    assert [LEGS[2].dataset_seed_for(seed) for seed in range(3)] == [1, 1, 1]
    assert [LEGS[0].dataset_seed_for(seed) for seed in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_offline_campaigns_arguments_compose_to_a_valid_rlox_train_run(algorithm: str, cli: Cli) -> None:
    assert cli("dataset", "make", "data", "env=Pendulum-v1", "steps=300").code == 0
    given = offline_control.run_overrides(LEGS[0], 3, algorithm, Path("data"))
    told = cli("train", *given, "dry_run=true")
    assert told.code == 0, told.err
    assert "Pendulum-v1, seed 3, 10,000 updates" in told.out


def test_ranks_agree_by_spearmans_correlation() -> None:
    assert offline_control.rank_correlation([[1, -5.0], [2, 0.0], [3, 90.0]]) == 1.0
    assert offline_control.rank_correlation([[1, 90.0], [2, 0.0], [3, -5.0]]) == -1.0
    swapped = [[1, 10.0], [2, 30.0], [3, 20.0], [4, 40.0]]
    assert offline_control.rank_correlation(swapped) == pytest.approx(1 - 6 * 2 / (4 * 15))


def test_a_report_is_of_systems_that_have_all_seeds(folder: Path) -> None:
    for seed in range(2):
        result("BC", seed, -800.0 - 100 * seed)
        result("TD3+BC", seed, -500.0)
        result("TD3+BC d3rlpy", seed, -510.0)
    result("DT", 0, -300.0)
    offline_report.report()
    found = json.loads((folder / "expected.json").read_text())[TINY.name]
    assert set(found["systems"]) == {"BC", "TD3+BC", "TD3+BC d3rlpy"}
    assert found["systems"]["BC"]["scores"] == [-800.0, -900.0]
    assert found["above_bc"] == {"TD3+BC": {"mean": 350.0, "se": pytest.approx(50.0)}}
    assert found["differences"]["TD3+BC"]["iqm"] == 10.0
    table = (folder / "table.md").read_text()
    assert "| Pendulum-v1 | medium | -750 | BC | 5 | 2 | -850 [-900, -800] |" in table
    assert "| TD3+BC | 5 | 2 | -500 [-500, -500] | 350, 50 | -510 [-510, -510] | 10 [" in table


def test_results_of_other_rows_are_not_mixed_with_these(folder: Path) -> None:
    for seed in range(2):
        result("BC", seed, -800.0, digest="other rows")
    with pytest.raises(SystemExit, match="learned from the dataset other rows, others from rows 0"):
        offline_report.report()


def test_a_dataset_of_other_rows_stops_the_campaign_before_it_learns(folder: Path) -> None:
    about = dict.fromkeys(offline_control.METADATA_KEYS, 0) | {"digest": "other rows"}
    offline_control.write_json(folder / "data" / "dataset.json", about)
    result("BC", 0, -800.0)
    with pytest.raises(SystemExit, match=r"digest other rows, results of .* are of rows 0"):
        offline_control.record_dataset(TINY, 0, folder / "data")
    offline_legs.result_path(TINY, "BC", 0).unlink()
    offline_control.record_dataset(TINY, 0, folder / "data")
    known = json.loads((folder / "datasets" / f"{TINY.name}_s0.json").read_text())
    assert known["digest"] == "other rows"


def test_the_offline_report_lists_return_following_of_each_dt_seed(folder: Path) -> None:
    for seed in range(2):
        result("DT", seed, -300.0, follows=0.5 + 0.1 * seed)
    offline_report.report()
    found = json.loads((folder / "expected.json").read_text())[TINY.name]
    np.testing.assert_allclose(found["follows"], [0.5, 0.6])
