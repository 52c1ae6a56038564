"""Every tuned preset trains: its environment is made, a short rollout is learnt from, a score is had."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.cli import Cli, only_run

from rlox.configs import ALGO_CONFIGS

ROOT = Path(__file__).resolve().parents[3]
PRESETS = sorted(p for p in (ROOT / "conf" / "tuned").glob("*/*.yaml"))
# What makes a preset's run long; everything else is tried as it is published.
SHORT: dict[str, Any] = {"n_steps": 16, "n_epochs": 1, "learning_starts": 64}


def read(path: Path) -> dict[str, Any]:
    """A YAML file; `1e-3` is a number, as it is for Hydra."""
    tree: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return tree


def number(value: Any) -> Any:
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


@pytest.mark.parametrize("preset", PRESETS, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_a_tuned_preset_trains_with_the_settings_that_it_names(
    preset: Path, cli: Cli, tmp_path: Path
) -> None:
    algo, env, named = preset.parent.name, preset.stem, read(preset)
    known = ALGO_CONFIGS[algo].__dataclass_fields__
    short = {f"algo.{key}": value for key, value in SHORT.items() if key in known}
    ran = cli(
        "train", f"algo={algo}", f"env={env}", "total_steps=256", "eval.episodes=1",
        *(f"{key}={value}" for key, value in short.items()),
    )  # fmt: skip
    assert ran.code == 0, ran.err
    run = only_run(tmp_path / "runs")
    used = read(run / "config.yaml")
    for group in ("algo", "env"):
        for key, value in named.get(group, {}).items():
            if f"{group}.{key}" not in short:
                assert number(used[group][key]) == number(value), f"{group}.{key}"
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = {k: v for row in rows for k, v in row.items() if k.startswith("loss/")}
    assert losses
    assert all(math.isfinite(value) for value in losses.values())
    assert math.isfinite(json.loads((run / "result.json").read_text())["score"])


def test_there_are_presets_of_the_environments_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (line,) = [line for line in readme.splitlines() if "tuned presets for" in line]
    shipped = {p.stem for p in PRESETS}
    assert {name for name in shipped if name in line} == shipped
