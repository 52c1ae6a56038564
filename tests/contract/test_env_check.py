"""Tests that the check of environments finds each defect and reports nothing for sound environments."""

from __future__ import annotations

import ast
import functools
import os
import random
import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from faults.deadlines import expire_polls_for_hung
from helpers.broken_envs import ADVISED, BROKEN, LACKS, PUBLISHED, SOUND_ENVS, BrokenEnv
from helpers.broken_envs.actions import Walled
from helpers.broken_envs.base import Line, VectorLine
from helpers.broken_envs.observations import MetresOnTheEquator, MicroscopicDegrees
from helpers.broken_envs.shared_state import SharedMomentum, SharedWalledPosition
from helpers.waiting import PATIENCE

from rlox.configs import EnvConfig
from rlox.envs.check import Finding, Limits, check_config, check_env
from rlox.envs.check.subprocess_check import check_in_subprocess
from rlox.errors import ConfigError, MissingExtraError, UnknownNameError

ROOT = Path(__file__).resolve().parents[2]
# The limits are lower than in a run; a busy machine still makes no fast step slow.
LIMITS = Limits(slow_step=10, endless=100)
SLOW_LIMITS = Limits(slow_step=0.1)
STEPS = 100
IN_PROCESS_KINDS = [kind for kind in BROKEN if not kind.is_isolated]
SUBPROCESS_KINDS = [kind for kind in BROKEN if kind.is_isolated]
CARS = "CarRacing-v3"  # renders a picture at each step


@functools.cache
def check_kind(kind: BrokenEnv) -> tuple[Finding, ...]:
    if kind.is_isolated:
        config = EnvConfig(f"helpers.broken_envs.ids:checked/{kind.code}-v0", step_timeout=PATIENCE)
        with pytest.MonkeyPatch.context() as patch:
            expire_polls_for_hung(patch)
            return check_in_subprocess(config, 20, 0).findings
    env_or_maker = kind.make() if kind.is_instance else kind.make
    limits = SLOW_LIMITS if kind.code == "slow-step" else LIMITS
    return tuple(check_env(env_or_maker, steps=STEPS, limits=limits))


def make_installed_param(env_id: str) -> Any:
    lacks = LACKS[env_id]
    return pytest.param(env_id, marks=pytest.mark.skipif(lacks is not None, reason=f"needs {lacks}"))


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.code)
def test_check_env_reports_exactly_the_one_defect_of_a_broken_environment(kind: BrokenEnv) -> None:
    findings = check_kind(kind)
    assert [(f.code, f.severity) for f in findings] == [(kind.code, kind.severity)], findings
    assert re.search(r"; |: ", findings[0].message), "what to do follows what came and was expected"
    assert "expected" in findings[0].message


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        (SharedMomentum, "of episode 1 changes while"),
        (SharedWalledPosition, "which its mask allows, raises AssertionError: there is a wall"),
    ],
)
def test_check_env_finds_state_shared_between_instances_under_action_masks(kind: Any, where: str) -> None:
    (finding,) = check_env(kind, steps=STEPS, limits=LIMITS)
    assert (finding.code, finding.severity) == ("instances-share", "error")
    assert where in finding.message
    assert "while a second copy is played, expected" in finding.message


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        (MetresOnTheEquator, "the observation has 10000000.0 and 10000000.25 at [1]"),
        (MicroscopicDegrees, "the observation['at'] has 48.137 and 48.1370001 at [1]"),
    ],
)
def test_check_env_names_the_column_whose_numbers_are_equal_in_float32(kind: Any, where: str) -> None:
    (finding,) = check_env(kind, steps=STEPS, limits=LIMITS)
    assert (finding.code, finding.severity) == ("observation-digits", "warning")
    assert finding.message.startswith(f"{where}, which are equal in float32, expected")


def test_check_env_reports_a_failing_second_copy_as_step_fails_not_shared() -> None:
    class FailingSecondCopy(Line):
        """Fails in the third step after a reset with the second copy's seed."""

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            self.is_second_copy = seed == 1001
            return super().reset(seed=seed)

        def action_force(self, action: Any) -> float:
            assert not (self.is_second_copy and self.t == 3), "not from here"
            return super().action_force(action)

    (finding,) = check_env(FailingSecondCopy, steps=STEPS, limits=LIMITS)
    assert finding.code == "step-fails"
    assert "not from here" in finding.message


def test_check_env_reports_each_kind_of_defect_with_a_different_message() -> None:
    assert len(BROKEN) >= 60
    told = {kind.code: re.sub(r"[\d.]+", "#", check_kind(kind)[0].message) for kind in BROKEN}
    assert len(told) == len(BROKEN)
    assert len(set(told.values())) == len(BROKEN)


def codes_in_source() -> set[str]:
    """Return every code in the sources of the check, except codes that are composed."""
    codes = set()
    for path in (ROOT / "rlox" / "envs" / "check").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                codes |= set(re.findall(r"^[a-z]+(?:-[a-z]+)+$", node.value))
    return codes


def test_every_finding_code_has_a_broken_environment_and_a_line_in_the_docs() -> None:
    codes = {kind.code for kind in BROKEN}
    assert codes_in_source() <= codes
    page = (ROOT / "docs" / "check.md").read_text("utf-8")
    assert set(re.findall(r"^\| `([a-z-]+)` \|", page, re.M)) == codes
    warned = set(re.findall(r"^\| `([a-z-]+)` \| warning", page, re.M))
    assert warned == {kind.code for kind in BROKEN if kind.severity == "warning"}


# Sound environments


@pytest.mark.parametrize("name", SOUND_ENVS)
def test_a_sound_environment_is_not_blamed(name: str) -> None:
    assert check_env(SOUND_ENVS[name], steps=STEPS, limits=LIMITS) == []


def test_check_env_leaves_a_sound_instance_unchanged() -> None:
    env = Line()
    env.reset(seed=3)
    env.step(1)
    before = (env.x, env.t)
    assert check_env(env, steps=STEPS, limits=LIMITS) == []
    assert (env.x, env.t) == before
    assert not callable(VectorLine()) and check_env(VectorLine(), steps=20) == []


@pytest.mark.parametrize("env_id", [*map(make_installed_param, PUBLISHED)])
def test_check_env_finds_nothing_wrong_with_gymnasiums_environments(env_id: str) -> None:
    assert check_env(env_id, steps=STEPS, limits=LIMITS) == []


ADVISED_IDS = [
    pytest.param(
        *make_installed_param(e).values,
        marks=[*make_installed_param(e).marks, pytest.mark.slow][: 1 + (e == CARS)],
    )
    for e in ADVISED
]


@pytest.mark.parametrize("env_id", ADVISED_IDS)
def test_check_env_reports_the_one_known_finding_of_published_environments(env_id: str) -> None:
    found = check_env(env_id, steps=5 if env_id == CARS else STEPS, limits=LIMITS)
    assert [finding.code for finding in found] == [ADVISED[env_id]]


@pytest.mark.skipif(LACKS["BipedalWalker-v3"] is not None, reason="needs Box2D")
def test_bipedal_walker_really_is_not_reproducible_after_another_episode() -> None:
    env = gym.make("BipedalWalker-v3")
    env.action_space.seed(3)
    actions = [env.action_space.sample() for _ in range(40)]

    def walk(seed: int) -> Any:
        first = env.reset(seed=seed)[0]
        return np.array([first, *(env.step(action)[0] for action in actions)])

    before = walk(1)
    walk(5)
    assert not np.array_equal(before, walk(1))
    env.close()


class ResetKeepsTime(Line):
    """A reset keeps the time of an unfinished episode."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        t = self.t if abs(self.x) <= 2 and self.t < 20 else 0
        super().reset(seed=seed)
        self.t = t
        return self.observe(), {}


def test_check_env_finds_state_that_a_reset_keeps_from_an_unfinished_episode() -> None:
    assert [f.code for f in check_env(ResetKeepsTime, steps=STEPS)] == ["reset-keeps-state"]


class MaskInObservation(Walled):
    """The mask is part of the observation."""

    def __init__(self) -> None:
        super().__init__()
        mask = gym.spaces.Box(0, 1, (3,), np.int8)
        parts = {"action_mask": mask, "line": self.observation_space}
        self.observation_space = gym.spaces.Dict(parts)

    def observe(self) -> Any:
        return {"action_mask": self.mask(), "line": super().observe()}

    def make_info(self) -> Any:
        return {}


def test_check_env_respects_an_action_mask_inside_the_observation() -> None:
    assert check_env(MaskInObservation, steps=STEPS) == []


# Side effects and refused arguments


def test_check_env_restores_global_generators_folder_and_environment_variables() -> None:
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    before = (np.random.get_state()[1].tolist(), random.getstate(), Path.cwd(), dict(os.environ))  # noqa: NPY002
    for code in ("numpy-reseeded", "python-random", "changes-folder", "changes-signals"):
        assert check_env(next(k.make for k in BROKEN if k.code == code), steps=20)
    after = (np.random.get_state()[1].tolist(), random.getstate(), Path.cwd(), dict(os.environ))  # noqa: NPY002
    assert after == before


def test_check_env_suppresses_the_prints_of_an_environment(
    capfd: pytest.CaptureFixture[str],
) -> None:
    check_kind(next(kind for kind in BROKEN if kind.code == "prints"))
    check_env(next(kind.make for kind in BROKEN if kind.code == "prints"), steps=20)
    assert capfd.readouterr().out == ""


def test_check_env_gives_equal_findings_for_equal_seeds() -> None:
    kind = next(kind for kind in BROKEN if kind.code == "observation-bounds")
    first, again, other = (check_env(kind.make, steps=60, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


class SeedsOf31Bits(Line):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        assert seed is None or seed < 2**31
        return super().reset(seed=seed)


def test_a_check_with_the_greatest_seed_resets_with_seeds_of_31_bits() -> None:
    assert check_env(SeedsOf31Bits, steps=STEPS, seed=2**31 - 1, limits=LIMITS) == []


def test_check_env_raises_on_unknown_ids_and_wrong_arguments() -> None:
    with pytest.raises(UnknownNameError, match="CartPole-v1"):
        check_env("CartPoel-v1")
    with pytest.raises(ConfigError, match="gravity"):
        check_env("CartPole-v1", kwargs={"gravity": 3})
    with pytest.raises(ConfigError, match="need an environment id"):
        check_env(Line(), kwargs={"x": 3})


@pytest.mark.skipif(LACKS["HalfCheetah-v5"] is None, reason="MuJoCo is here")
def test_a_package_that_is_missing_is_no_fault_of_the_environment() -> None:
    with pytest.raises(MissingExtraError, match="mujoco"):
        check_env("HalfCheetah-v5")


# Configurations of runs


class ScalingWrapper(gym.ObservationWrapper[Any, Any, Any]):
    """A wrapper with a defect."""

    def observation(self, observation: Any) -> Any:
        return observation * 1000


def test_check_config_checks_the_environment_with_its_wrappers() -> None:
    config = EnvConfig("CartPole-v1", wrappers=(ScalingWrapper,))
    assert [f.code for f in check_config(config, 60, 0).findings] == ["observation-bounds"]


@pytest.mark.parametrize(
    ("mask", "code", "told"),
    [
        ([1, 1, 1], "mask-length", r"has shape \[3\], expected \[5\] of 0 and 1"),
        ([1, 1, 1, 0, 0], "mask-empty", r"allows no value of \[1\], expected at least"),
    ],
)
def test_a_mask_of_several_choices_is_looked_at_choice_by_choice(
    mask: list[int], code: str, told: str
) -> None:
    class Wrong(SOUND_ENVS["WalledTwoChoices"]):  # type: ignore[name-defined,misc]
        def make_info(self) -> Any:
            return {"action_mask": np.array(mask)}

    found = check_env(Wrong, steps=STEPS, limits=LIMITS)
    assert {finding.code for finding in found} == {code}
    assert re.search(told, found[0].message)


@pytest.mark.parametrize(("t", "call"), [(0, "reset 1"), (3, r"step 3 of episode \d+")])
def test_check_env_reports_the_call_and_exception_of_a_raising_mask(t: int, call: str) -> None:
    class Fails(Line):
        def action_masks(self) -> Any:
            if self.t == t:
                raise LookupError("no such square")
            return np.ones(3, bool)

    (finding,) = check_env(Fails, steps=STEPS, limits=LIMITS)
    told = rf"action_masks\(\) after {call} raises LookupError: no such square \(.*, expected a mask"
    assert finding.code == "mask-fails"
    assert re.match(told, finding.message)


@pytest.mark.parametrize(("source", "code"), [("info", None), ("method", "mask-missing")])
def test_check_config_looks_for_action_masks_in_the_configured_source(source: str, code: str | None) -> None:
    config = EnvConfig("Taxi-v4", action_mask=source)
    found = check_config(config, 60, 0).findings
    assert [f.code for f in found] == ([code] if code else [])


def test_the_algorithms_that_fit_are_those_that_take_the_actions() -> None:
    def fit(env_id: str) -> set[str]:
        algorithms = check_config(EnvConfig(env_id), 20, 0).algorithms
        return {name for name, reason in algorithms.items() if not reason}

    assert {"ppo", "dqn"} <= fit("CartPole-v1") and "td3" not in fit("CartPole-v1")
    assert {"ppo", "sac", "td3"} <= fit("Pendulum-v1") and "dqn" not in fit("Pendulum-v1")
