"""Tests that the check of a configured environment finds the problems that a run would have with it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from helpers.broken_envs.actions import Walled
from helpers.broken_envs.base import Line, VectorLine
from helpers.broken_envs.sound import MaskByMethod

from rlox.algorithms.assembly.encoding import make_encoder_spec
from rlox.configs import EnvConfig, PPOConfig
from rlox.envs.check import Finding, check_config, check_env
from rlox.envs.check.algorithm_fit import algorithm_obstacles
from rlox.envs.check.subprocess_check import check_in_subprocess
from rlox.envs.parts_codec import codec_of
from rlox.errors import ConfigError, UnsupportedSpaceError

SEEN, CHOICES = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(2)
SQUASHING = {"sac", "tqc", "td3", "ddpg"}
MOST = float(np.finfo(np.float32).max)
ID = "checked-of-runs/{}-v0"


class TellsOnReset(Line):
    """The info has a mask only after resets."""

    def make_info(self) -> Any:
        return {} if self.t else {"action_mask": np.ones(3, np.int8)}


class Forbids(Line):
    """The info has a mask that the environment ignores: it takes every action."""

    def make_info(self) -> Any:
        return {"action_mask": np.array([1, 0, 0], np.int8)}


class NoEnv:
    """A class that is no Gymnasium environment."""


class Interrupts(Line):
    def step(self, action: Any) -> Any:
        if self.t == 4:
            raise KeyboardInterrupt
        return super().step(action)


class InterruptsItsClose(Line):
    def close(self) -> None:
        raise KeyboardInterrupt


class PulledBothWays(VectorLine):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Dict({"arm": self.action_space, "gear": spaces.Discrete(3)})

    def action_force(self, action: Any) -> float:
        return super().action_force(action["arm"])


KINDS = (
    Forbids,
    Interrupts,
    InterruptsItsClose,
    Line,
    MaskByMethod,
    NoEnv,
    PulledBothWays,
    TellsOnReset,
    Walled,
)
for kind in KINDS:
    gym.register(ID.format(kind.__name__), kind)


def config_of(kind: Any, **options: Any) -> EnvConfig:
    return EnvConfig(f"{__name__}:{ID.format(kind.__name__)}", **options)


def found(kind: Any, **options: Any) -> list[Finding]:
    return list(check_config(config_of(kind, **options), 100, 0).findings)


def fitting(action_space: Any, seen: Any = SEEN) -> set[str]:
    return {name for name, reason in algorithm_obstacles("it", seen, action_space).items() if not reason}


# Algorithms that fit


@pytest.mark.parametrize(
    "box",
    [
        spaces.Box(-np.inf, np.inf, (2,), np.float32),
        spaces.Box(-MOST, MOST, (2,), np.float32),
        spaces.Dict(a=spaces.Box(0, np.inf, (1,), np.float32)),
        spaces.Tuple([spaces.Box(0, np.inf, (1,), np.float32)]),
    ],
    ids=["unbounded", "as wide as float32", "in a Dict", "in a Tuple"],
)
def test_algorithms_that_squash_do_not_fit_actions_without_a_finite_width(box: Any) -> None:
    assert fitting(box) & SQUASHING == set()
    assert "ppo" in fitting(box)
    assert "needs Box actions" in (reason := algorithm_obstacles("it", SEEN, box)["sac"]) or "width" in reason


def test_squashing_algorithms_fit_bounded_boxes_and_choices() -> None:
    assert fitting(spaces.Dict(a=spaces.Box(0, 3, (1,), np.float32))) >= SQUASHING
    assert "sac" in fitting(CHOICES)


@pytest.mark.parametrize(
    "shape",
    [
        *((3, 3, 3), (2, 2, 2), (3, 5, 5), (5, 5, 3), (8, 8, 8), (8, 3, 8), (4, 4, 4)),
        *((9, 4, 9), (2, 8, 8, 8), (2, 8, 8, 3), (4, 4)),
    ],
)
def test_an_image_fits_exactly_where_its_encoder_can_be_made(shape: tuple[int, ...]) -> None:
    space = spaces.Box(0, 255, shape, np.uint8)
    try:
        make_encoder_spec(PPOConfig(), codec_of(space))
        made = True
    except ConfigError:
        made = False
    assert ("ppo" in fitting(CHOICES, space)) == made


def test_an_mlp_encoder_needs_no_image_channels() -> None:
    for side in (3, 8):
        codec = codec_of(spaces.Box(0, 255, (side, side, side), np.uint8))
        assert make_encoder_spec(PPOConfig(encoder="mlp"), codec).features == side**3
    for encoder in ("auto", "small"):
        with pytest.raises(ConfigError, match=r"algo\.image_channels=first or last"):
            make_encoder_spec(PPOConfig(encoder=encoder), codec)


# Boxes inside composed action spaces


@pytest.mark.parametrize(
    ("box", "code"),
    [
        (spaces.Box(-np.inf, np.inf, (2,), np.float32), "actions-unbounded"),
        (spaces.Box(-MOST, MOST, (2,), np.float32), "actions-unbounded"),
        (spaces.Box(0, 1, (2,), np.float32), "actions-uneven"),
        (spaces.Box(np.float32([-1, 0]), np.float32([1, 0])), "actions-constant"),
        (spaces.Box(-1, 1, (2,), np.int64), "actions-whole"),
    ],
)
@pytest.mark.parametrize("around", ["Dict", "Tuple"])
def test_boxes_among_the_parts_of_actions_are_looked_at(box: Any, code: str, around: str) -> None:
    class Parted(VectorLine):
        def __init__(self) -> None:
            super().__init__()
            parts = [spaces.Discrete(2), box]
            named = spaces.Dict(gear=parts[0], arm=parts[1])
            self.action_space = named if around == "Dict" else spaces.Tuple(parts)

        def action_force(self, action: Any) -> float:
            arm = action["arm"] if around == "Dict" else action[1]
            return super().action_force(np.clip(arm, -1, 1))

    findings = check_env(Parted, steps=40)
    assert [finding.code for finding in findings] == [code]
    assert ("its actions arm" if around == "Dict" else "its actions [1]") in findings[0].message
    assert "rescale_action" not in findings[0].message  # rescale_action wraps only a plain Box


# Masks


@pytest.mark.parametrize(("kind", "place"), [(MaskByMethod, "method"), (Walled, "info")])
def test_check_config_reports_an_unused_mask_that_the_environment_enforces(kind: Any, place: str) -> None:
    (finding,) = found(kind)
    assert (finding.code, finding.severity) == ("mask-unused", "error")
    assert f"set env.action_mask={place}" in finding.message
    assert "there is a wall" in finding.message
    assert found(kind, action_mask=place) == []


def test_check_config_accepts_an_unused_mask_that_the_environment_ignores() -> None:
    assert found(Forbids) == []


@pytest.mark.parametrize(
    ("kind", "place", "said"),
    [
        (Line, "method", r"action_masks\(\) is missing after a reset, .*env.action_mask=method"),
        (Line, "info", r"'action_mask' is missing in the info after a reset, .*=info says"),
        (TellsOnReset, "info", r"after step 1 of episode .* is missing, but was given"),
    ],
)
def test_check_config_reports_where_a_configured_mask_is_missing(kind: Any, place: str, said: str) -> None:
    findings = found(kind, action_mask=place)
    assert findings[0].code == "mask-missing"
    assert re.search(said, findings[0].message)


def test_check_config_raises_on_a_mask_for_actions_without_choices() -> None:
    with pytest.raises(UnsupportedSpaceError, match=r"env.action_mask=info: masks need actions"):
        check_config(EnvConfig("Pendulum-v1", action_mask="info"), 20, 0)


# Objects that are no environment, and environments that raise KeyboardInterrupt


def test_checking_an_object_that_is_no_gymnasium_env_reports_no_environment() -> None:
    (finding,) = found(NoEnv)
    assert finding.code == "no-environment"
    assert "NoEnv, expected a gymnasium.Env" in finding.message


def test_check_reports_an_environment_that_interrupts_its_step(capfd: pytest.CaptureFixture[str]) -> None:
    checked = check_in_subprocess(config_of(Interrupts), 20, 0)
    (finding,) = checked.findings
    assert finding.code == "step-exits"
    assert "(raises KeyboardInterrupt)" in finding.message
    assert checked.steps == 4
    assert "Traceback" not in capfd.readouterr().err


def test_check_reports_an_environment_that_interrupts_its_close(capfd: pytest.CaptureFixture[str]) -> None:
    (finding,) = check_in_subprocess(config_of(InterruptsItsClose), 20, 0).findings
    assert finding.code == "close-fails"
    assert "Traceback" not in capfd.readouterr().err


# Processes that stay behind


@pytest.fixture
def children() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def sleeping(children: list[subprocess.Popen[bytes]], ends: bool) -> Any:
    class Starts(Line):
        """Starts a program."""

        def __init__(self) -> None:
            super().__init__()
            self.program = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
            children.append(self.program)

        def close(self) -> None:
            if ends:
                self.program.kill()
                self.program.wait()

    return Starts


@pytest.mark.skipif(sys.platform != "linux", reason="nobody says elsewhere")
@pytest.mark.parametrize("ends", [False, True])
def test_programs_that_are_left_running_are_found(
    children: list[subprocess.Popen[bytes]], ends: bool
) -> None:
    codes = [finding.code for finding in check_env(sleeping(children, ends), steps=20)]
    assert codes == ([] if ends else ["leaves-processes"])


# MiniGrid


def test_minigrid_without_a_wrapper_is_refused_with_its_wrappers() -> None:
    pytest.importorskip("minigrid")
    checked = check_config(EnvConfig("MiniGrid-Empty-5x5-v0"), 20, 0)
    finding = next(each for each in checked.findings if each.code == "no-algorithm")
    assert "env.wrappers=[minigrid_flat]" in finding.message
    assert "env.wrappers=[minigrid_image]" in finding.message
    assert "0x" not in finding.message + checked.observation_space


class Sentence(spaces.Space[Any]):
    """A custom space, like MiniGrid's MissionSpace."""

    def __repr__(self) -> str:
        return "Sentence(<function said at 0x7f13f99c22a0>)"


def test_only_minigrids_mission_space_suggests_minigrids_wrappers() -> None:
    image = spaces.Box(0, 255, (7, 7, 3), np.uint8)
    with pytest.raises(UnsupportedSpaceError, match=r"minigrid_flat\], or .*minigrid_image\]") as of:
        codec_of(spaces.Dict(image=image, mission=Sentence()))
    assert "Sentence(<function said>)" in str(of.value)
    with pytest.raises(UnsupportedSpaceError, match="TransformObservation"):
        codec_of(spaces.Dict(image=image, words=Sentence()))
    with pytest.raises(UnsupportedSpaceError, match="flatten_observation"):
        codec_of(spaces.Dict(image=image, mission=spaces.Text(5)))
