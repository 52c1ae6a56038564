"""The same extension and code under later versions of Python, where this machine has them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.building import ROOT

pytestmark = pytest.mark.packaging

LATER = [f"python3.{minor}" for minor in range(sys.version_info.minor + 1, 16)]
NEEDED = "import gymnasium, hydra, matplotlib, numpy, omegaconf, rich, safetensors, torch, yaml"
SHORT = (
    "train", "tuned=null", "total_steps=256", "algo.n_steps=32", "algo.batch_size=64", "env.n_envs=4",
    "eval.episodes=2", "seed=3", "hydra.run.dir=run",
)  # fmt: skip


def python(name: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """This checkout's rlox, with the built extension, under another interpreter."""
    env = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [name, *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize("name", [sys.executable, *LATER], ids=lambda name: Path(name).name)
def test_a_run_of_another_python_is_a_run_with_a_score(name: str, tmp_path: Path) -> None:
    if shutil.which(name) is None or python(name, tmp_path, "-c", "").returncode:
        pytest.skip(f"there is no {name} here")
    missing = python(name, tmp_path, "-c", NEEDED)
    if missing.returncode:
        pytest.skip(f"{name} lacks a dependency: {missing.stderr.splitlines()[-1]}")
    ran = python(name, tmp_path, "-m", "rlox_cli.main", *SHORT)
    assert ran.returncode == 0, ran.stderr
    result = json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))
    assert (result["status"], len(result["episodes"])) == ("done", 2)
    assert 1 <= result["score"] <= 500
    version = python(name, tmp_path, "-c", "import platform; print(platform.python_version())")
    provenance = (tmp_path / "run" / "provenance.json").read_text(encoding="utf-8")
    assert version.stdout.strip() in provenance
