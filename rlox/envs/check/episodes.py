"""Checks of the results of resets and steps over some episodes: each value, and changes between calls."""

from __future__ import annotations

import copy
import numbers
import statistics
import time
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from rlox.envs.base import WrongTypeError, to_reward
from rlox.envs.check.driver import EnvDriver, StepResult, flag_message
from rlox.envs.check.episode_ends import EpisodeEndCheck
from rlox.envs.check.precision import PrecisionCheck
from rlox.envs.check.subject import Subject
from rlox.envs.check.values import find_mismatch, is_equal, short_repr

__all__ = ["check_episodes"]

SPACE_NAMES = ("observation_space", "action_space")


def check_episodes(subject: Subject, driver: EnvDriver) -> EpisodeEndCheck:
    """Play random actions for the requested steps; returns how the episodes ended."""
    checked_driver = _CheckedDriver(subject, driver)
    try:
        _play(subject, checked_driver)
    finally:  # also if a call raised
        subject.steps_done, subject.episodes_done = (
            checked_driver.steps,
            len(checked_driver.end_check.episodes),
        )
    checked_driver.check_precision()
    checked_driver.end_check.report()
    return checked_driver.end_check


def _play(subject: Subject, checked_driver: _CheckedDriver) -> None:
    start_time = time.monotonic()
    seed: int | None = subject.seeds(1)[0]
    while checked_driver.steps < subject.limited_steps(subject.steps):
        observation, info = checked_driver.reset(seed)
        seed = None
        while checked_driver.driver.is_running and checked_driver.steps < subject.limited_steps(
            subject.steps
        ):
            action = checked_driver.sample_action(observation, info)
            if action is None:
                break
            observation, info = checked_driver.step(action)
            if time.monotonic() - start_time > subject.limits.stage_seconds:
                subject.is_shortened = True


class _CheckedDriver:
    """An `EnvDriver` that checks every value."""

    def __init__(self, subject: Subject, driver: EnvDriver) -> None:
        self.subject, self.driver, self.report = subject, driver, subject.report
        self.end_check = EpisodeEndCheck(subject, driver.env)
        self.steps = 0
        self._spaces = {name: copy.deepcopy(getattr(driver.env, name)) for name in SPACE_NAMES}
        self._action_space = self._spaces["action_space"]
        self._action_space.seed(subject.seed)
        self._last_observation: tuple[Any, Any] | None = None  # the last observation, and a copy of it
        self._step_seconds: list[float] = []
        self._n_pickled = 0
        self._precision_check = PrecisionCheck()

    def reset(self, seed: int | None) -> tuple[Any, Any]:
        """Begin an episode."""
        observation, info = self.driver.reset(seed)
        self._check_observation(observation)
        self._check_spaces()
        self._check_info(info)
        self._check_mask(observation, info)
        self.end_check.reset(observation)
        return observation, info

    def sample_action(self, observation: Any, info: Any) -> Any:
        """Sample an allowed action; `None` if no action is allowed."""
        mask = self.driver.read_mask(observation, info)
        if mask is None:
            return self._action_space.sample()
        return self.subject.mask_location.allowed_action(
            mask, self._action_space, self._action_space.sample()
        )

    def step(self, action: Any) -> tuple[Any, Any]:
        """Take one step and check all of its results."""
        handed_action, start_time = copy.deepcopy(action), time.monotonic()
        step = self.driver.step(action, handed_action)
        self._step_seconds.append(time.monotonic() - start_time)
        self.steps += 1
        self._check_action(action, handed_action)
        self._check_observation(step.observation)
        self._check_reward(step.reward)
        self._check_flags(step)
        self._check_info(step.info, is_done=not self.driver.is_running)
        if self.driver.is_running:
            self._check_mask(step.observation, step.info)
        if self.steps <= 5:
            self._check_spaces()
        self._check_time()
        self.end_check.step(step, self.driver.t)
        return step.observation, step.info

    def check_precision(self) -> None:
        """Report numbers that differ but become equal in float32."""
        for mismatch in self._precision_check.find_losses():
            self.report.warning(mismatch.code, f"the observation{mismatch.part} {mismatch.text}")

    def _check_observation(self, observation: Any) -> None:
        label = self.driver.last_call
        problem = find_mismatch(self.subject.observation_space, observation)
        if problem is not None:
            self.report.error(problem.code, f"the observation{problem.part} of {label} {problem.text}")
        else:
            self._precision_check.observe(self.subject.observation_space, observation)
        if self._last_observation is not None and not is_equal(*self._last_observation):
            self.report.error(
                "observation-aliased",
                f"{label} changed the observation that was returned before it, expected a new array each "
                "time: observations that were kept change too; return a copy: self.state.copy()",
            )
        self._last_observation = (observation, copy.deepcopy(observation))

    def _check_spaces(self) -> None:
        for name, first in self._spaces.items():
            current = getattr(self.driver.env, name)
            if first != current:
                self.report.error(
                    f"{name.replace('_', '-')}-changed",
                    f"{self.driver.last_call} changed its {name} from {short_repr(first)} to "
                    f"{short_repr(current)}, expected a constant space: networks are made for it once; "
                    "set it in __init__, as large as it can become",
                )

    def _check_info(self, info: Any, is_done: bool = False) -> None:
        label = self.driver.last_call
        if not isinstance(info, dict):
            if self.driver.t:
                self.report.error(
                    "step-info",
                    f"the info of {label} is a {type(info).__name__}, expected a dict; return {{}} as the "
                    "fifth value where there is nothing to tell",
                )
            return
        self._n_pickled += 1
        if self._n_pickled > 4 and not is_done:
            return
        try:
            ForkingPickler.dumps(info)
        except Exception as error:
            self.report.warning(
                "info-pickle",
                f"the info of {label} cannot be sent to another process ({error}), expected numbers, text "
                "and arrays: env.workers=subprocess fails on it; leave such objects out of the info",
            )

    def _check_mask(self, observation: Any, info: Any) -> None:
        mask_location = self.subject.mask_location
        if mask_location.source == "none":
            return
        mask = self.driver.read_mask(observation, info)
        problem = mask_location.find_problem(mask, self.subject.action_space)
        if problem is not None:
            self.report.error(problem[0], f"after {self.driver.last_call} {problem[1]}")
            if problem[0] in ("mask-length", "mask-values"):
                self.report.stop(problem[0], problem[1])

    def _check_action(self, action: Any, handed_action: Any) -> None:
        if not is_equal(action, handed_action):
            self.report.error(
                "action-changed",
                f"{self.driver.last_call} changed the action that it was given from {short_repr(action)} to "
                f"{short_repr(handed_action)}, expected it unchanged: rlox passes a copy, but other "
                "libraries learn from it afterwards; work on a copy (np.clip without out=, action = action * "
                "2 rather than action *= 2)",
            )

    def _check_reward(self, reward: Any) -> None:
        label = self.driver.last_call
        if isinstance(reward, np.ndarray) and reward.ndim:
            self.report.error(
                "reward-shape",
                f"the reward of {label} is an array of shape {reward.shape}, expected one number; return "
                "float(reward.sum()), or float(reward[0])",
            )
            return
        number = reward.item() if isinstance(reward, np.ndarray | np.generic) else reward
        if not isinstance(number, numbers.Real) or not _is_valid_reward(reward):
            self.report.error(
                "reward-kind",
                f"the reward of {label} is {short_repr(reward)} ({type(reward).__name__}), expected a "
                "number; return a float in every branch of step",
            )
        elif number != number:
            self.report.error(
                "reward-nan",
                f"the reward of {label} is NaN, expected a number: it would make all weights NaN; look for "
                "0/0 or a logarithm of a negative number in it",
            )
        elif abs(float(number)) == float("inf"):
            self.report.error(
                "reward-infinite",
                f"the reward of {label} is {number}, expected a finite number: returns and values become "
                "infinite; give a large one, such as -100",
            )
        elif abs(float(number)) > self.subject.limits.huge_reward:
            self.report.warning(
                "reward-huge",
                f"the reward of {label} is {float(number):.3g}, expected less than "
                f"{self.subject.limits.huge_reward:g}: value losses grow with its square; scale it, or "
                "set env.normalize_reward=true",
            )

    def _check_flags(self, step: StepResult) -> None:
        for name in ("terminated", "truncated"):
            flag = getattr(step, name)
            if not isinstance(flag, bool | np.bool_):
                self.report.error(f"{name}-kind", flag_message(self.driver.last_call, name, flag))

    def _check_time(self) -> None:
        limit = self.subject.limits.slow_step
        if len(self._step_seconds) == 3 and statistics.median(self._step_seconds) > limit:
            self.subject.is_shortened = True
            self.report.warning(
                "slow-step",
                f"a step takes {statistics.median(self._step_seconds):.2g} s, expected less than "
                f"{limit:g} s: a "
                "run of 100,000 steps would take days; look for sleeping, rendering or waiting in step",
            )


def _is_valid_reward(reward: Any) -> bool:
    """Tell whether a run accepts the reward as a number."""
    try:
        to_reward(reward)
    except WrongTypeError:
        return False
    return True
