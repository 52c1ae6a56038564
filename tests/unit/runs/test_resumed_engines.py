"""Tests runs on MuJoCo, ALE and MiniGrid that resume in mid-episode, and engines that begin new episodes."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import Any

import pytest
from helpers.sessions import algorithm, resume_session, rows, without_timings

from rlox.runs.session import Session


def extra(module: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec(module) is None
    return pytest.mark.skipif(missing, reason=f"extra not installed: {module}")


def whole_and_part(tmp_path: Path, env: dict[str, Any]) -> tuple[Path, Path]:
    """Makes a run of 256 steps, and a copy that resumes at step 128."""
    whole, part = tmp_path / "whole", tmp_path / "part"
    whole.mkdir()
    options: dict[str, Any] = {"checkpoint": {"every": 128}, "eval": {"episodes": 1}}
    Session(algorithm(256, env={"n_envs": 4, **env}, **options), whole).run()
    shutil.copytree(whole, part, symlinks=True)
    shutil.rmtree(part / "checkpoints" / "step-000000000256")
    resume_session(part, 256).run()
    return whole, part


@pytest.mark.parametrize(
    "env",
    [
        pytest.param({"id": "Ant-v5", "max_episode_steps": 50}, marks=extra("mujoco")),
        pytest.param(
            {
                "id": "MiniGrid-DoorKey-5x5-v0",
                "wrappers": ["minigrid_flat"],
                "max_episode_steps": 40,
            },
            marks=extra("minigrid"),
        ),
        pytest.param({"id": "ALE/Breakout-v5", "max_episode_steps": 800}, marks=extra("ale_py")),
    ],
    ids=lambda env: env["id"],
)
def test_a_run_that_was_resumed_has_the_bytes_of_one_never_stopped(
    env: dict[str, Any], tmp_path: Path
) -> None:
    whole, part = whole_and_part(tmp_path, env)
    for name in ("metrics.jsonl", "episodes.jsonl"):
        assert without_timings(rows(whole / name)) == without_timings(rows(part / name)), name
    final = Path("checkpoints/step-000000000256/weights.safetensors")
    assert (whole / final).read_bytes() == (part / final).read_bytes()


def test_a_run_on_an_engine_goes_on_with_new_episodes(tmp_path: Path) -> None:
    whole, part = whole_and_part(tmp_path, {"id": "helpers.vectors:make_cartpoles"})
    found = [rows(folder / "metrics.jsonl") for folder in (whole, part)]
    assert [row["env_steps"] for row in found[0]] == [row["env_steps"] for row in found[1]]
    assert without_timings(found[0]) != without_timings(found[1])
