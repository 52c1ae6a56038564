"""Tests that a sweep selects one engine per algorithm before its first job, and records and keeps it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.cli import Cli, Result

from rlox.training import backend
from rlox.training.backend import cpu_kind
from rlox_cli.runs.run_folder import read_config
from rlox_cli.sweeps import backend as sweep_backend

PLACE = "hydra.sweep.dir=place"
SMALL = (
    "tuned=null", "algo.backend=auto", "total_steps=128", "algo.n_steps=32", "env.n_envs=4",
    "algo.n_epochs=1", "algo.net_arch=[8]", "eval.episodes=1",
)  # fmt: skip
SLOW = 64  # native is slower for updates of at least this many rows
Sweep = Callable[..., Result]


@pytest.fixture(autouse=True)
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Set a table in which native is twice as fast as torch, except for updates of many rows."""

    def measure(small: float = 2.0) -> None:
        cells = [
            {"width": 1024, "rows": rows, "ratio": ratio} for rows, ratio in ((SLOW - 1, small), (1024, 0.5))
        ]
        table: Any = {cpu_kind(): {"algorithms": {"ppo": cells, "a2c": cells, "dqn": cells}}}
        monkeypatch.setattr(backend, "_table", lambda: table)

    measure()
    return measure


def backends(folder: Path) -> dict[str, str]:
    """Return the configured engine of each run of a sweep, by the name of its folder."""
    runs = sorted(path.parent for path in folder.glob("*/config.yaml"))
    return {run.name: read_config(run)["algo"]["backend"] for run in runs}


def recorded(folder: Path) -> dict[str, str]:
    return sweep_backend.read_backends(folder)


def test_a_sweep_uses_torch_if_torch_is_faster_for_one_job(cli: Cli, tmp_path: Path) -> None:
    result = cli("sweep", *SMALL, PLACE, "algo.batch_size=32,128")
    assert result.code == 0, result.err
    assert list(backends(tmp_path / "place").values()) == ["torch", "torch"]
    (line,) = re.findall(r"^backend .*", result.out, re.MULTILINE)
    assert line == (
        "backend torch in all jobs of ppo: native was measured at 0.5 times torch's speed (layers 1024 "
        "wide, 1,024 rows an update); native would be faster in 1 of its 2 jobs"
    )
    assert "  backend" not in result.out  # the jobs do not print it again
    assert recorded(tmp_path / "place") == {"ppo": "torch"}


def test_a_sweep_keeps_its_engine_when_it_grows_and_when_others_are_measured(
    cli: Cli, tmp_path: Path, measured: Callable[[float], None]
) -> None:
    first = cli("sweep", *SMALL, PLACE, "algo.batch_size=32", "seed=1,2")
    assert first.code == 0, first.err
    measured(0.5)
    again = cli("sweep", *SMALL, PLACE, "algo.batch_size=32,128", "seed=1,2")
    assert again.code == 0, again.err
    assert "backend native in all jobs of ppo, as when the sweep began" in again.out
    assert "4 of 4 jobs done, 2 of them before" in again.out
    assert list(backends(tmp_path / "place").values()) == ["native"] * 4


def test_a_sweep_selects_an_engine_for_each_algorithm(cli: Cli, tmp_path: Path) -> None:
    off = ("algo.backend=auto", "tuned=null", "total_steps=64", "eval.episodes=1")
    result = cli("sweep", *off, PLACE, "algo=ppo,a2c", "env.n_envs=32", "dry_run=true")
    assert result.code == 0, result.err
    lines = re.findall(r"^backend (\w+) in all jobs of (\w+):", result.out, re.MULTILINE)
    assert lines == [("torch", "a2c"), ("torch", "ppo")] or lines == [
        ("torch", "ppo"),
        ("torch", "a2c"),
    ]
    assert not (tmp_path / "place").exists()


def test_an_engine_that_is_typed_wins(cli: Cli, tmp_path: Path) -> None:
    words = [word for word in SMALL if not word.startswith("algo.backend")]
    result = cli("sweep", *words, PLACE, "algo.batch_size=32", "algo.backend=torch,native")
    assert result.code == 0, result.err
    assert sorted(backends(tmp_path / "place").values()) == ["native", "torch"]
    assert "backend" not in re.sub(r"algo.backend", "", result.out)
    assert recorded(tmp_path / "place") == {}


def test_a_sweep_refuses_auto_beside_the_engine_that_auto_selects(cli: Cli) -> None:
    words = [word for word in SMALL if not word.startswith("algo.backend")]
    result = cli("sweep", *words, PLACE, "algo.batch_size=32", "algo.backend=auto,native")
    assert result.code == 2
    assert "two jobs of the sweep are the same" in result.err


def test_a_sweep_without_a_recorded_engine_keeps_auto(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    with monkeypatch.context() as patch:
        patch.setattr(sweep_backend, "decide_backends", lambda *_: {})
        assert cli("sweep", *SMALL, PLACE, "algo.batch_size=32", "seed=1").code == 0
    assert list(backends(place).values()) == ["auto"]
    again = cli("sweep", *SMALL, PLACE, "algo.batch_size=32,128", "seed=1")
    assert again.code == 0, again.err
    assert "2 of 2 jobs done, 1 of them before" in again.out
    assert list(backends(place).values()) == ["auto", "auto"]
    assert not (place / sweep_backend.FILE).exists()


def test_a_job_that_native_cannot_learn_is_refused_by_a_sweep_that_began_with_it(cli: Cli) -> None:
    dqn = (
        "algo=dqn", "tuned=null", "total_steps=64", "algo.learning_starts=16", "algo.net_arch=[8]",
        "eval.episodes=1", "algo.backend=auto", "algo.batch_size=16", "buffer.capacity=64",
    )  # fmt: skip
    assert cli("sweep", *dqn, PLACE, "seed=1").code == 0
    result = cli("sweep", *dqn, PLACE, "seed=1", "algo.noisy=false,true")
    assert result.code == 2
    assert "began with backend native for dqn" in result.err
    assert "algo.noisy=true" in result.err and "algo.backend=torch" in result.err


def test_a_record_that_is_damaged_is_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / sweep_backend.FILE).write_text("[]")
    result = cli("sweep", *SMALL, PLACE, "seed=1,2")
    assert result.code == 2
    assert f"{sweep_backend.FILE} is damaged" in result.err


def test_a_search_uses_torch_if_torch_is_faster_in_a_part_of_its_space(cli: Cli, tmp_path: Path) -> None:
    search = ("sweep", *SMALL, PLACE, "hydra/sweeper=rlox_optuna", "search.n_trials=2")
    result = cli(*search, "algo.batch_size=interval(16,128)")
    assert result.code == 0, result.err
    assert list(backends(tmp_path / "place").values()) == ["torch", "torch"]
    assert "backend torch in all jobs of ppo: native was measured at 0.5 times" in result.out
    best = yaml.safe_load((tmp_path / "place" / "best.yaml").read_text())
    assert re.findall(r"algo\.backend=(\w+)", best["command"]) == ["torch"]


def test_a_search_that_varies_no_size_uses_native(cli: Cli, tmp_path: Path) -> None:
    search = ("sweep", *SMALL, PLACE, "hydra/sweeper=rlox_optuna", "search.n_trials=2")
    result = cli(*search, "algo.batch_size=32", "algo.gamma=interval(0.9,0.99)")
    assert result.code == 0, result.err
    assert list(backends(tmp_path / "place").values()) == ["native", "native"]
    again = cli(*search, "algo.batch_size=32", "algo.gamma=interval(0.9,0.99)")
    assert again.code == 0, again.err
    assert "backend native in all jobs of ppo, as when the sweep began" in again.out
