"""Tests that each MuJoCo warning appears once, only in the log: deprecations as info, others as warnings."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from helpers.cli import TINY, Cli

from rlox.configs import EnvConfig
from rlox.envs import mujoco_log
from rlox.envs.make import make_vec

mujoco: Any = pytest.importorskip("mujoco", reason="an extra")

# This module registers an unstable environment that derives from one of Gymnasium's.
TUMBLING_MODULE = """
import gymnasium as gym
import numpy as np
from gymnasium.envs.mujoco.half_cheetah_v5 import HalfCheetahEnv

class Tumbling(HalfCheetahEnv):
    def step(self, action):
        self.set_state(self.data.qpos, np.full_like(self.data.qvel, 1e12))
        return super().step(action)

gym.register("Tumbling-v0", Tumbling, max_episode_steps=9)
"""


@pytest.fixture(autouse=True)
def _reset_warnings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # MuJoCo would write MUJOCO_LOG.TXT here
    monkeypatch.setattr(mujoco_log, "_first_message_by_kind", {})
    mujoco.set_mju_user_warning(None)


def test_a_deprecation_is_logged_once_however_many_models_are_made(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO, "rlox.mujoco"):
        make_vec(EnvConfig(id="HalfCheetah-v5", n_envs=3), seed=0).close()
    (record,) = caplog.records
    assert "settotalmass" in record.getMessage()
    assert record.levelno == logging.INFO
    assert "settotalmass" not in "".join(capfd.readouterr())
    assert list(tmp_path.iterdir()) == []


def test_each_kind_of_instability_is_one_warning_for_any_time_and_place(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for text in (
        "Nan, Inf or huge value in QVEL at DOF 0. The simulation is unstable. Time = 0.0000.",
        "Nan, Inf or huge value in QVEL at DOF 11. The simulation is unstable. Time = 7.3500.",
        "Nan, Inf or huge value in QACC at DOF 0. The simulation is unstable. Time = 0.0000.",
    ):
        mujoco_log.log_warning(text)
    told = [(record.levelname, record.args) for record in caplog.records]
    assert [level for level, _ in told] == ["WARNING", "WARNING"]
    assert ["QVEL" in str(args) for _, args in told] == [True, False]


def test_make_vec_keeps_the_users_mujoco_warning_callback() -> None:
    heard: list[str] = []
    mujoco.set_mju_user_warning(heard.append)
    make_vec(EnvConfig(id="HalfCheetah-v5", n_envs=1), seed=0).close()
    assert any("settotalmass" in text for text in heard)


@pytest.mark.parametrize("source", ["'tumbling:Tumbling-v0'", "lambda: __import__('tumbling').Tumbling()"])
def test_python_shows_an_instability_once_and_no_deprecation(source: str, tmp_path: Path) -> None:
    (tmp_path / "tumbling.py").write_text(TUMBLING_MODULE)
    code = f"""
import sys
from rlox.configs import EnvConfig
from rlox.envs.make import make_vec
import numpy as np
assert "mujoco" not in sys.modules
given = {source}
source = given if callable(given) else None
vec = make_vec(EnvConfig(given if source is None else "own", n_envs=2, backend="auto"), 0, source)
seen = vec.observations.rows(2)
vec.reset_into(seen)
for _ in range(12):
    vec.step_into(np.zeros((2, 6), np.float32), seen, np.zeros(2), np.zeros(2, bool), np.zeros(2, bool))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("MuJoCo: Nan, Inf or huge value in QVEL")
    assert not (tmp_path / "MUJOCO_LOG.TXT").exists()


@pytest.mark.parametrize("workers", ["sync", "subprocess"])
def test_the_log_of_a_run_has_each_mujoco_warning_once_with_and_without_workers(
    workers: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tumbling.py").write_text(TUMBLING_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tumbling", raising=False)
    line = ("train", *TINY, "total_steps=128", "algo.net_arch=[4]", "env=tumbling:Tumbling-v0")
    for run in ("first", "second"):  # both in one process
        ended = cli(*line, f"env.workers={workers}", f"hydra.run.dir={run}")
        assert ended.code == 0, ended.err
        logged = re.findall(r"(\w+) rlox\.mujoco: MuJoCo: (.*)", Path(run, "log.txt").read_text())
        told = sorted((level, "settotalmass" in text, "unstable" in text) for level, text in logged)
        assert told == [("INFO", True, False), ("WARNING", False, True)]
    assert not list(tmp_path.rglob("MUJOCO_LOG.TXT"))
    gym.registry.pop("Tumbling-v0")
