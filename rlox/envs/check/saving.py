"""Check that an environment that can be saved continues from its state; only resumed runs need this."""

from __future__ import annotations

from itertools import islice
from typing import Any

from rlox.envs.check.driver import TRACE_EPISODE_STEPS, EnvDriver, MaskFilter
from rlox.envs.check.subject import Subject, close_quietly
from rlox.envs.check.values import is_equal
from rlox.envs.snapshot import can_save, restore_env, save_env
from rlox.errors import describe_error

__all__ = ["check_saving"]

STEPS_BEFORE_SAVE = 3  # steps before the state is saved


def check_saving(subject: Subject) -> None:
    """Save a copy in mid-episode, restore another copy from it, and play both with the same actions."""
    if subject.is_uncopyable:
        return
    first, second = (EnvDriver(subject, subject.make()) for _ in range(2))
    if can_save(first.env):
        _compare(subject, first, second)
    for driver in (first, second):
        close_quietly(driver.env)


def _compare(subject: Subject, first: EnvDriver, second: EnvDriver) -> None:
    actions = iter(subject.actions(subject.limited_steps(TRACE_EPISODE_STEPS)))
    observation, info = first.reset(subject.seeds(1)[0])
    mask_filter = MaskFilter(first)
    for action in islice(actions, STEPS_BEFORE_SAVE):
        allowed_action = mask_filter.allowed_action(action, observation, info)
        if allowed_action is None:
            return
        step = first.step(allowed_action)
        observation, info = (step.observation, step.info) if first.is_running else first.reset()
    if not _copy_state(subject, first, second):
        return
    second.is_running, second.t, second.episode = first.is_running, first.t, first.episode
    for action in actions:
        allowed_action = mask_filter.allowed_action(action, observation, info)
        if allowed_action is None:
            return
        step, other = first.step(allowed_action), second.step(allowed_action)
        if not is_equal(tuple(step[:4]), tuple(other[:4])):
            subject.report.error(
                "state-lost",
                f"{first.last_call} gives another result in a copy restored by load_state from save_state, "
                "expected the same: a resumed run continues from there; save everything that step changes",
            )
            return
        if not first.is_running:
            return
        observation, info = step.observation, step.info


def _copy_state(subject: Subject, first: EnvDriver, second: EnvDriver) -> bool:
    """Copy the state of the first into the second; an exception is reported."""
    call: Any = "save_state()"
    try:
        subject.on_call(call)
        state = save_env(first.env)
        call = "load_state(...) of a new copy"
        subject.on_call(call)
        restore_env(second.env, state)
    except subject.env_exceptions as error:
        subject.report.error(
            "state-fails",
            f"{call} raises {describe_error(error)}, expected a state that a new copy can load before its "
            "first reset, as in a resumed run; set what step needs in __init__ or in load_state",
        )
        return False
    return True
