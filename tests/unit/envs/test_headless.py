"""Tests that MuJoCo renders without a display, where MuJoCo would otherwise end the process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from helpers.waiting import PATIENCE

from rlox.envs import headless
from rlox.errors import MissingExtraError

HOPPER = "gymnasium.envs.mujoco.hopper_v5:HopperEnv"
FRAME = """
from rlox.configs import EnvConfig
from rlox.envs.videos import render_frame
from rlox.envs.make import wrapped_factory

env = wrapped_factory(EnvConfig("Hopper-v5"), render_mode="rgb_array")()
env.reset(seed=0)
print(render_frame(env).shape)
import torch
torch.optim.Adam([torch.zeros(1)])
print(render_frame(env).shape)
env.close()
"""


@pytest.fixture(autouse=True)
def no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for name in (*headless.DISPLAYS, "MUJOCO_GL"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def installed(monkeypatch: pytest.MonkeyPatch, *libraries: str) -> None:
    monkeypatch.setattr(headless, "_can_load", lambda library: library in libraries)


@pytest.mark.parametrize(
    ("libraries", "chosen"),
    [
        (("libEGL.so.1", "libOSMesa.so.8"), "egl"),
        (("libOSMesa.so.8",), "osmesa"),
        (("libOSMesa.so.6",), "osmesa"),
    ],
)
def test_choose_mujoco_gl_selects_an_installed_headless_renderer(
    libraries: tuple[str, ...], chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, *libraries)
    headless.choose_mujoco_gl(HOPPER)
    assert os.environ["MUJOCO_GL"] == chosen


def test_choose_mujoco_gl_names_the_package_if_no_renderer_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed(monkeypatch)
    with pytest.raises(MissingExtraError, match=r"neither is installed.*apt-get install libegl1"):
        headless.choose_mujoco_gl(HOPPER)


@pytest.mark.parametrize(("variable", "value"), [("DISPLAY", ":0"), ("WAYLAND_DISPLAY", "wayland-0")])
def test_choose_mujoco_gl_sets_nothing_if_there_is_a_display(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch)
    monkeypatch.setenv(variable, value)
    headless.choose_mujoco_gl(HOPPER)
    assert "MUJOCO_GL" not in os.environ


def test_choose_mujoco_gl_keeps_the_renderer_that_the_user_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed(monkeypatch, "libEGL.so.1")
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    headless.choose_mujoco_gl(HOPPER)
    assert os.environ["MUJOCO_GL"] == "osmesa"


def test_choose_mujoco_gl_sets_nothing_for_other_environments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed(monkeypatch)
    headless.choose_mujoco_gl("gymnasium.envs.classic_control.cartpole:CartPoleEnv")
    headless.choose_mujoco_gl(lambda: None)
    assert "MUJOCO_GL" not in os.environ


@pytest.mark.skipif(not headless._can_load("libEGL.so.1"), reason="EGL is not installed")
def test_mujoco_renders_without_a_display_after_torch_creates_an_optimizer() -> None:
    pytest.importorskip("mujoco", reason="extra not installed: mujoco")
    done = subprocess.run(
        [sys.executable, "-c", FRAME],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, 2 * "(480, 480, 3)\n"), done.stderr
