"""Check that an environment with masks accepts forbidden actions if the run does not use the masks."""

from __future__ import annotations

import time
from typing import Any

from rlox.envs.check.driver import EnvDriver, MaskFilter
from rlox.envs.check.subject import Subject, close_quietly
from rlox.envs.check.values import is_equal, short_repr
from rlox.errors import describe_error

__all__ = ["check_unmasked"]


def check_unmasked(subject: Subject) -> None:
    """Take actions regardless of the mask, as the configured run would, until one is refused."""
    if not subject.ignores_masks or subject.mask_location.source == "none":
        return
    driver = EnvDriver(subject, subject.make())
    mask_filter, start_time = MaskFilter(driver), time.monotonic()
    observation, info = driver.reset(subject.seeds(1)[0])
    for action in subject.actions(subject.limited_steps(subject.steps), salt=3):
        is_forbidden = not is_equal(mask_filter.allowed_action(action, observation, info), action)
        if is_forbidden and _is_refused(subject, driver, action):
            break
        if not is_forbidden:
            step = driver.step(action)
            observation, info = step.observation, step.info
        if is_forbidden or not driver.is_running:
            observation, info = driver.reset()
        if time.monotonic() - start_time > subject.limits.stage_seconds:
            break
    close_quietly(driver.env)


def _is_refused(subject: Subject, driver: EnvDriver, action: Any) -> bool:
    """Tell whether a step with a forbidden action raises; if so, report it."""
    driver.t += 1
    subject.on_call(driver.last_call)
    try:
        with driver.watch(driver.last_call):
            driver.env.step(action)
    except subject.env_exceptions as error:
        mask_location = subject.mask_location
        subject.report.error(
            "mask-unused",
            f"it gives masks ({mask_location.label}), which this run ignores: {driver.last_call}, with "
            "action "
            f"{short_repr(action)}, which the mask forbids, raises {describe_error(error)}, expected a run "
            f"that uses the masks; set env.action_mask={mask_location.source}, or let a forbidden "
            "action do nothing",
        )
        return True
    return False
