"""Tests that every tuned preset names its source and trains: it makes its environment, learns from a short
rollout or a few batches, and gets a score.
"""

from __future__ import annotations

import json
import math
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers.cli import Cli, only_run

from rlox._core import native_env_ids
from rlox.configs import ALGO_CONFIGS

ROOT = Path(__file__).resolve().parents[3]
PRESETS = sorted(p for p in (ROOT / "conf" / "tuned").glob("*/*.yaml"))
# These keys make a preset's run long. Every other key has its published value in the test.
SHORT: dict[str, Any] = {"n_steps": 16, "n_epochs": 1, "learning_starts": 240}
TEXT = "text"  # the environment of language models
OF_TEXT = ["task=copy", "algo.rewards=[close]"]  # a new model gives no right answer
# Nobody has published hyperparameters for these.
OURS = {"rainbow/CartPole-v1"} | {f"{algo}/{TEXT}" for algo in ("sft", "grpo", "rloo", "dpo", "online_dpo")}
# Optional modules that environments need, by the beginning of the environment's name.
NEEDS = {
    **dict.fromkeys(("Hopper", "HalfCheetah", "Walker2d", "Ant", "Swimmer"), "mujoco"),
    "ALE": "ale_py",
    "MiniGrid": "minigrid",
}
FAMILIES = {"ALE": ("ALE/Pong-v5", "atari")}  # one environment of the family, and the row for all


def names(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def playing(path: Path) -> Any:
    """Return a preset as a parameter: slow unless its environment is native, skipped without its engine."""
    marks: list[Any] = [] if path.stem in native_env_ids() else [pytest.mark.slow]
    for start, module in NEEDS.items():
        if path.stem.startswith(start):
            missing = find_spec(module) is None
            marks.append(pytest.mark.skipif(missing, reason=f"extra not installed: {module}"))
    return pytest.param(path, id=names(path), marks=marks)


def read(path: Path) -> dict[str, Any]:
    """Read a YAML file; it gives `1e-3` as text, while Hydra reads a number."""
    tree: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return tree


def number(value: Any) -> Any:
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


@pytest.mark.parametrize("preset", [playing(path) for path in PRESETS])
def test_a_tuned_preset_trains_with_the_settings_that_it_names(
    preset: Path, cli: Cli, tmp_path: Path
) -> None:
    algo, named = preset.parent.name, read(preset)
    env, _ = FAMILIES.get(preset.stem, (preset.stem, ""))
    known = ALGO_CONFIGS[algo].__dataclass_fields__
    short = {f"algo.{key}": value for key, value in SHORT.items() if key in known}
    ran = cli(
        "train", f"algo={algo}", f"env={env}", "total_steps=256", "eval.episodes=1",
        *(f"{key}={value}" for key, value in short.items()), *OF_TEXT * (env == TEXT),
    )  # fmt: skip
    assert ran.code == 0, ran.err
    run = only_run(tmp_path / "runs")
    used = read(run / "config.yaml")
    for group in ("algo", "env", "buffer"):
        for key, value in named.get(group, {}).items():
            if f"{group}.{key}" not in short:
                assert number(used[group][key]) == number(value), f"{group}.{key}"
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = {k: v for row in rows for k, v in row.items() if k.startswith("loss/")}
    assert losses
    assert all(math.isfinite(value) for value in losses.values())
    assert math.isfinite(json.loads((run / "result.json").read_text())["score"])


@pytest.mark.parametrize("preset", PRESETS, ids=names)
def test_a_tuned_preset_cites_its_source_row_and_a_different_environment_there(
    preset: Path,
) -> None:
    lines = preset.read_text(encoding="utf-8").splitlines()
    said = " ".join(line[2:] for line in lines if line.startswith("# ") and "@" not in line)
    if names(preset) in OURS:
        assert said.startswith("Ours: no published recipe"), said
        return
    source = f"rl-baselines3-zoo, hyperparams/{preset.parent.name}.yml, "
    if preset.stem in FAMILIES:
        _, row = FAMILIES[preset.stem]
        assert said.startswith(f"{source}{row}: for every ")
        assert said.endswith("Not reproduced here.")
        return
    found = re.match(re.escape(source) + r"([\w-]+)-(v\d)( there\b)?(.*)", said)
    assert found, said
    name, version = preset.stem.rsplit("-", 1)
    assert found[1] == name
    if found[2] == version:
        assert not found[3]
    else:
        assert found[3] and re.search(rf"-{version} \w+", found[4]), said


def test_the_table_of_presets_is_of_those_that_are_shipped() -> None:
    text = (ROOT / "docs" / "algorithms.md").read_text(encoding="utf-8")
    section = text.split("\n## Tuned presets\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([\w-]+-v\d|ALE|text) \| ([\w, ]+) \|", section, re.MULTILINE)
    told = [f"{algo}/{env}" for env, algos in rows for algo in algos.split(", ")]
    assert sorted(told) == sorted(names(path) for path in PRESETS)
