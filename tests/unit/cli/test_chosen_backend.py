"""Tests that a run with `algo.backend=auto` prints, records and keeps the selected engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import Cli

from rlox.runs.checkpoint import read_checkpoint, resolve_checkpoint
from rlox.training import backend
from rlox.training.backend import cpu_kind
from rlox_cli.runs.run_folder import read_config

ARGS = (
    "train", "tuned=null", "algo.backend=auto", "algo.n_steps=16", "env.n_envs=4",
    "total_steps=128", "eval.episodes=1", "hydra.run.dir=run",
)  # fmt: skip


def measured(monkeypatch: pytest.MonkeyPatch, ratio: float) -> None:
    """Set a table in which native is `ratio` times as fast as torch."""
    cells = [{"width": 1024, "rows": 1024, "ratio": ratio}]
    table: Any = {cpu_kind(): {"algorithms": {"ppo": cells}}}
    monkeypatch.setattr(backend, "_table", lambda: table)


@pytest.mark.parametrize(("ratio", "took"), [(3.5, "native"), (0.8, "torch")])
def test_rlox_train_prints_records_and_keeps_the_engine_of_auto(
    ratio: float, took: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch, ratio)
    first = cli(*ARGS)
    assert first.code == 0, first.err
    run = tmp_path / "run"
    reason = f"native was measured at {ratio:g} times torch's speed (layers 1024 wide, 1,024 rows an update)"
    assert f"  backend {took}: {reason}\n" in first.out
    recorded = json.loads((run / "provenance.json").read_text())["backend"]
    assert recorded == {"name": took, "reason": reason}
    assert read_config(run)["algo"]["backend"] == "auto"
    measured(monkeypatch, 1 / ratio)
    again = cli("train", f"resume={run}", "total_steps=256")
    assert again.code == 0, again.err
    resumed = json.loads((run / ".hydra" / "resume1" / "provenance.json").read_text())["backend"]
    assert resumed == {"name": took, "reason": "it learned before the run was resumed"}
    assert read_checkpoint(resolve_checkpoint(run)).state["backend"] == took


def test_the_engine_that_was_asked_for_is_recorded_without_a_reason(cli: Cli, tmp_path: Path) -> None:
    result = cli(*(arg.replace("auto", "native") for arg in ARGS))
    assert result.code == 0, result.err
    assert "  backend" not in result.out
    recorded = json.loads((tmp_path / "run" / "provenance.json").read_text())["backend"]
    assert recorded == {"name": "native", "reason": ""}


@pytest.mark.parametrize("algo", ["ppo", "a2c", "dqn", "sac", "td3"])
def test_rlox_train_refuses_an_unshipped_engine_and_names_the_others(
    algo: str, cli: Cli, tmp_path: Path
) -> None:
    result = cli("train", f"algo={algo}", "algo.backend=candle", "hydra.run.dir=run")
    assert result.code == 2
    assert "algo.backend=candle: expected one of auto, torch, native" in result.err
    assert not (tmp_path / "run").exists()
