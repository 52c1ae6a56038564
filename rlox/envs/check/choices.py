"""Check that an environment accepts the actions of its space: choices, and the bounds of a Box."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from rlox.envs.check.driver import EnvDriver
from rlox.envs.check.subject import Subject
from rlox.envs.check.values import is_equal, short_repr
from rlox.errors import describe_error

__all__ = ["check_choices"]

MAX_CHOICES = 24  # with more choices, only some are tried


def check_choices(subject: Subject, driver: EnvDriver) -> None:
    """Try choices, or the bounds of a Box, as first actions of episodes; a refusal ends the check."""
    _locate_mask(subject, driver)
    if not isinstance(subject.action_space, spaces.Discrete) and subject.mask_location.source == "none":
        driver.step(subject.actions(1)[0])
    refused: list[tuple[Any, BaseException]] = []
    accepted_actions: list[Any] = []
    start_time = time.monotonic()
    for action in _extreme_actions(subject):
        if time.monotonic() - start_time > subject.limits.stage_seconds:
            break
        observation, info = driver.reset(subject.seeds(1)[0])
        if not _is_allowed(subject, driver, action, observation, info):
            continue
        label = f"a first step with action {short_repr(action)}"
        subject.on_call(label)
        try:
            with driver.watch(label):
                driver.env.step(action)
            accepted_actions.append(action)
        except subject.env_exceptions as error:
            refused.append((action, error))
        driver.t = 1
    if refused:
        _report_refusal(subject, *refused[0], bool(accepted_actions))


def _locate_mask(subject: Subject, driver: EnvDriver) -> None:
    observation, info = driver.reset(subject.seeds(1)[0])
    is_configured = subject.mask_location.source != "none"
    subject.mask_location = subject.mask_location.locate(driver.env, observation, info)
    if subject.mask_location.source != "none":
        subject.mask_location.require_choices(subject.action_space)
        mask = driver.read_mask(observation, info)
        if mask is None:
            subject.report.stop("mask-missing", subject.mask_location.missing_message(is_configured))
        problem = subject.mask_location.find_problem(mask, subject.action_space)
        if problem:
            subject.report.stop(problem[0], f"after {driver.last_call} {problem[1]}")


def _extreme_actions(subject: Subject) -> Iterator[Any]:
    space = subject.action_space
    if isinstance(space, spaces.Discrete):
        n, start = int(space.n), int(space.start)
        indices = {0, n - 1, *(n * i // MAX_CHOICES for i in range(MAX_CHOICES))}
        yield from (start + np.int64(i) for i in sorted(indices))
    elif isinstance(space, spaces.Box):
        yield from (end.copy() for end in (space.low, space.high) if np.isfinite(end).all())
    elif isinstance(space, spaces.MultiDiscrete):
        yield space.start.astype(space.dtype)
        yield (space.start + space.nvec - 1).astype(space.dtype)


def _is_allowed(subject: Subject, driver: EnvDriver, action: Any, observation: Any, info: Any) -> bool:
    mask = driver.read_mask(observation, info)
    return mask is None or is_equal(
        subject.mask_location.allowed_action(mask, subject.action_space, action), action
    )


def _report_refusal(subject: Subject, action: Any, error: BaseException, has_accepted: bool) -> None:
    label, error_text = f"a first step with action {short_repr(action)}", describe_error(error)
    if subject.mask_location.source != "none":
        subject.report.stop(
            "allowed-refused",
            f"{label}, which its mask allows, raises {error_text}, expected an observation; let the mask "
            "forbid the action there",
        )
    if isinstance(subject.action_space, spaces.Box):
        subject.report.stop(
            "bounds-refused",
            f"{label}, at a bound of its action_space, raises {error_text}, expected an observation: "
            "actions are clipped to the bounds, which belong to a Box; accept them, or make the Box smaller",
        )
    if not has_accepted:
        subject.report.stop(
            "step-fails",
            f"{label} raises {error_text}, and so does every other choice, expected an observation; call "
            "step by hand to find the cause",
        )
    subject.report.stop(
        "choice-refused",
        f"{label} raises {error_text}, and other choices do not, expected an observation for every choice of "
        f"{short_repr(subject.action_space)}; make the space smaller, or give an action mask",
    )
