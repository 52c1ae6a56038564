"""`rlox evaluate`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.cli import Cli


def test_every_return_is_written_with_mean_iqm_and_interval(cli: Cli, trained: Path) -> None:
    result = cli("evaluate", f"run={trained}", "episodes=8", "seed=3")
    assert result.code == 0, result.err
    data = json.loads((trained / "eval" / "last.json").read_text())
    returns = data["episodes"]
    assert len(returns) == len(data["lengths"]) == 8
    assert data["mean"] == pytest.approx(np.mean(returns))
    assert data["iqm"] == pytest.approx(np.mean(sorted(returns)[2:6]))
    assert data["ci95"][0] <= data["mean"] <= data["ci95"][1]
    assert (data["env"], data["algo"], data["seed"]) == ("CartPole-v1", "ppo", 3)
    assert data["checkpoint"] == "step-000000000256"


def test_the_final_evaluation_of_the_run_is_reproduced(cli: Cli, trained: Path) -> None:
    assert cli("evaluate", f"run={trained}", "episodes=3").code == 0
    again = json.loads((trained / "eval" / "last.json").read_text())["episodes"]
    assert again == json.loads((trained / "result.json").read_text())["episodes"]


def test_a_video_of_the_policy_is_written(cli: Cli, trained: Path) -> None:
    pytest.importorskip("imageio_ffmpeg")
    pytest.importorskip("pygame")
    assert cli("evaluate", f"run={trained}", "episodes=1", "video=true").code == 0
    assert (trained / "videos" / "last.mp4").stat().st_size > 1000


def test_a_checkpoint_that_does_not_exist_is_explained(cli: Cli, trained: Path) -> None:
    result = cli("evaluate", f"run={trained}", "checkpoint=step-000000000001")
    assert result.code == 2
    assert "step-000000000256" in result.err
    assert not (trained / "eval").exists()


def test_a_folder_above_the_run_is_told_from_the_run(cli: Cli, trained: Path) -> None:
    result = cli("evaluate", f"run={trained.parent}")
    assert result.code == 2
    assert str(trained) in result.err


def test_a_config_that_names_code_is_not_executed(cli: Cli, trained: Path) -> None:
    path = trained / "config.yaml"
    path.write_text(path.read_text() + "_target_: builtins.exit\n")
    result = cli("evaluate", f"run={trained}")
    assert result.code == 2
    assert "_target_" in result.err
