"""Calls an environment as a run would, and reports calls that fail."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from rlox.envs.base import WrongTypeError, to_flag
from rlox.envs.check.side_effects import seed_global_generators
from rlox.envs.check.subject import Subject
from rlox.envs.check.values import short_repr
from rlox.errors import describe_error

__all__ = ["EnvDriver", "MaskFilter", "StepResult", "TraceStep", "flag_message", "record_trace"]

TRACE_EPISODES, TRACE_EPISODE_STEPS = 3, 40  # limits of a trace
FLAG_MEANINGS = {
    "terminated": "whether the task is over; return bool(...)",
    "truncated": "whether a time limit or the like cut the episode; False where there is none",
}


class StepResult(NamedTuple):
    """The result of one step."""

    observation: Any
    reward: Any
    terminated: Any
    truncated: Any
    info: Any


def flag_message(label: str, name: str, flag: Any) -> str:
    """Describe a flag that is not a bool."""
    return (
        f"{name} of {label} is {short_repr(flag)} ({type(flag).__name__}), "
        f"expected bool: {FLAG_MEANINGS[name]}"
    )


class TraceStep(NamedTuple):
    """The copied result of one call in a trace (`record_trace`); a reset has no reward and no flags."""

    label: str
    episode: int
    observation: Any
    reward: Any = None
    flags: Any = None


class EnvDriver:
    """Calls one environment, and announces each call first (`Subject.on_call`)."""

    def __init__(
        self,
        subject: Subject,
        env: Any,
        watch: Callable[[str], AbstractContextManager[Any]] = lambda call: nullcontext(),
    ) -> None:
        self.subject, self.env = subject, env
        self.episode = self.t = 0
        self.is_running = False
        self.watch = watch

    @property
    def last_call(self) -> str:
        """The last call, as text."""
        return f"step {self.t} of episode {self.episode}" if self.t else f"reset {self.episode}"

    def reset(self, seed: int | None = None) -> tuple[Any, Any]:
        """Reset and return the first observation and its info."""
        is_midway = self.is_running and self.t > 0
        call = f"reset(seed={seed})" if seed is not None else "reset()"
        self.subject.on_call(call)
        if seed is not None:
            seed_global_generators()
        try:
            with self.watch(call):
                result = self.env.reset() if seed is None else self.env.reset(seed=seed)
        except self.subject.env_exceptions as error:
            self._reset_failed(error, call, is_midway)
        self.episode, self.t, self.is_running = self.episode + 1, 0, True
        report = self.subject.report
        if not isinstance(result, tuple) or len(result) != 2:
            report.stop(
                "reset-no-pair",
                f"reset returns {_describe(result)}, expected the pair (observation, info); end it with "
                "return observation, {}",
            )
        if not isinstance(result[1], dict):
            report.error(
                "reset-info",
                f"the info of reset is {_describe(result[1])}, expected a dict; return observation, {{}}",
            )
        return result

    def step(self, action: Any, handed_action: Any = None) -> StepResult:
        """Step once; `handed_action` is the object to pass if the caller inspects it afterwards."""
        self.t += 1
        self.subject.on_call(self.last_call)
        try:
            with self.watch(self.last_call):
                result = self.env.step(copy.deepcopy(action) if handed_action is None else handed_action)
        except self.subject.env_exceptions as error:
            self._step_failed(error, action)
        if not isinstance(result, tuple) or len(result) != 5:
            self.subject.report.stop(
                "step-length",
                f"step returns {_describe(result)}, expected (observation, reward, terminated, truncated, "
                "info); terminated: the task is over, truncated: a time limit cut it (they were one `done` "
                "in Gym)",
            )
        step = StepResult(*result)
        self.is_running = not (
            self._require_flag("terminated", step) or self._require_flag("truncated", step)
        )
        return step

    def _require_flag(self, name: str, step: StepResult) -> bool:
        """Return a flag of a step as a bool; other values are reported and end the check."""
        flag = getattr(step, name)
        try:
            return to_flag(name, flag)
        except WrongTypeError:
            self.subject.report.stop(f"{name}-kind", flag_message(self.last_call, name, flag))

    def read_mask(self, observation: Any, info: Any) -> Any:
        """Return the mask after the last call, `None` without masks."""
        mask_location, label = (
            self.subject.mask_location,
            f"{self.subject.mask_location.label} after {self.last_call}",
        )
        if mask_location.source == "method":
            self.subject.on_call(label)
        try:
            return mask_location.read_mask(self.env, observation, info)
        except self.subject.env_exceptions as error:
            self.subject.report.stop(
                "mask-fails",
                f"{label} raises {describe_error(error)}, expected a mask: a run reads it after each reset "
                "and each step that an action follows; return one there too",
            )

    def _reset_failed(self, error: BaseException, call: str, is_midway: bool) -> Any:
        if is_midway:
            self.subject.report.stop(
                "reset-refused",
                f"{call} in the middle of an episode, after step {self.t}, raises {describe_error(error)}, "
                "expected a new episode: a run may reset at any time, after a stop for example; let reset "
                "begin a new episode from any state",
            )
        self.subject.report.stop(
            "reset-fails",
            f"{call} raises {describe_error(error)}, expected an observation and an info; call it by hand",
        )

    def _step_failed(self, error: BaseException, action: Any) -> Any:
        report, label = self.subject.report, f"{self.last_call}, with action {short_repr(action)},"
        if isinstance(error, SystemExit | KeyboardInterrupt):
            exit_text = "sys.exit" if isinstance(error, SystemExit) else "raises KeyboardInterrupt"
            report.stop(
                "step-exits",
                f"{label} ends the process ({exit_text}), expected an observation; raise an error where it "
                "cannot continue",
            )
        if self.subject.mask_location.source != "none":
            report.stop(
                "allowed-refused",
                f"{label} which its mask allows, raises {describe_error(error)}, expected an observation; "
                "let the mask forbid the action there",
            )
        report.stop(
            "step-fails",
            f"{label} raises {describe_error(error)}, expected an observation: the action is in its "
            "action_space",
        )


def record_trace(
    driver: EnvDriver,
    seed: int,
    actions: Sequence[Any],
    before_step: Callable[[], Any] = lambda: None,
    overwrites: Sequence[Any] | None = None,
) -> list[TraceStep]:
    """Record the results of `actions` over some episodes; only the first one is reset with `seed`.

    `before_step` is called before each step. With `overwrites`, the array of action i is overwritten with
    `overwrites[i]` after its step.
    """
    driver.episode = 0
    observation, info = driver.reset(seed)
    steps = [TraceStep("its first observation", 1, copy.deepcopy(observation))]
    mask_filter = MaskFilter(driver)
    for i, action in enumerate(actions):
        before_step()
        handed_action = copy.deepcopy(mask_filter.allowed_action(action, observation, info))
        if handed_action is not None:
            step = driver.step(handed_action, handed_action)
            if overwrites is not None:
                handed_action[...] = overwrites[i]
            observation, info = step.observation, step.info
            flags = (bool(step.terminated), bool(step.truncated))
            copies = copy.deepcopy((observation, step.reward))
            steps.append(TraceStep(driver.last_call, driver.episode, *copies, flags))
        if handed_action is None or not driver.is_running or driver.t >= TRACE_EPISODE_STEPS:
            if driver.episode == TRACE_EPISODES:
                break
            observation, info = driver.reset()
            steps.append(TraceStep(driver.last_call, driver.episode, copy.deepcopy(observation)))
    return steps


class MaskFilter:
    """Replaces an action that a mask forbids, always by the same allowed one; by `None` if there is none."""

    def __init__(self, driver: EnvDriver) -> None:
        self._driver, self._mask_location = driver, driver.subject.mask_location

    def allowed_action(self, action: Any, observation: Any, info: Any) -> Any:
        """Return the action to take after this observation and info."""
        mask = self._driver.read_mask(observation, info)
        if mask is None:
            return action
        return self._mask_location.allowed_action(mask, self._driver.env.action_space, action)


def _describe(value: Any) -> str:
    """Describe the type of a value."""
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return "None" if value is None else f"a {type(value).__name__}"
