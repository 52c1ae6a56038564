"""Warnings of simulators are in the log once, and on no terminal."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from rlox.configs import EnvConfig
from rlox.envs import simulators
from rlox.envs.make import make_vec

pytest.importorskip("mujoco", reason="an extra")


def test_a_warning_of_mujoco_is_logged_once_however_many_models_are_made(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)  # where MuJoCo would leave MUJOCO_LOG.TXT
    monkeypatch.setattr(simulators, "_logged", set())
    with caplog.at_level(logging.INFO, "rlox.mujoco"):
        make_vec(EnvConfig(id="HalfCheetah-v5", n_envs=3), seed=0).close()
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == len(set(told)) >= 1
    assert any("settotalmass" in text for text in told)
    assert "settotalmass" not in "".join(capfd.readouterr())
    assert list(tmp_path.iterdir()) == []
