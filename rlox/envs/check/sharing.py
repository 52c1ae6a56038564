"""Check that an environment shares no state: with its actions, with other copies, or when it is copied."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from rlox.envs.check.driver import (
    TRACE_EPISODE_STEPS,
    TRACE_EPISODES,
    EnvDriver,
    MaskFilter,
    TraceStep,
    record_trace,
)
from rlox.envs.check.findings import Report, StopCheck
from rlox.envs.check.seeding import first_difference
from rlox.envs.check.subject import Subject, close_quietly

__all__ = ["check_copies", "check_sharing"]


def check_copies(subject: Subject) -> None:
    """Check that an instance passed by the user can be copied, and sent to another process."""
    if subject.instance is None:
        return
    subject.on_call("being copied")
    try:
        ForkingPickler.dumps(subject.instance)
    except subject.env_exceptions as error:
        subject.report.warning(
            "pickle-fails",
            f"it cannot be sent to another process ({error}), as env.workers=subprocess does, expected an "
            "object that can be pickled; pass a callable that makes it instead",
        )
    try:
        copy.deepcopy(subject.instance)
    except subject.env_exceptions as error:
        subject.is_uncopyable = True
        subject.report.warning(
            "copy-fails",
            f"it cannot be copied ({error}), expected copy.deepcopy to work, which makes the n_envs "
            "copies of an instance; pass a callable that makes it instead: lambda: MyEnv()",
        )


def check_sharing(subject: Subject, reference: Sequence[TraceStep]) -> None:
    """Repeat the trace with each action overwritten after its step, then while another copy is played."""
    if subject.is_uncopyable:
        return
    n = subject.limited_steps(TRACE_EPISODES * TRACE_EPISODE_STEPS)
    seed, actions = subject.seeds(1)[0], subject.actions(n)
    driver = EnvDriver(subject, subject.make())
    if all(isinstance(action, np.ndarray) for action in actions):
        index = first_difference(
            reference, record_trace(driver, seed, actions, overwrites=subject.actions(n, salt=1))
        )
        if index is not None:
            subject.report.error(
                "action-kept",
                f"{reference[index].label} depends on the array of an earlier action, which was overwritten "
                "since, expected its old numbers: the caller may reuse the array; keep a copy: "
                "self.last = action.copy()",
            )
    close_quietly(driver.env)
    if not subject.report.has("numpy-random", "python-random"):  # all copies share the global generators
        _check_beside_copy(subject, reference, seed, actions)


class _SecondCopy:
    """A copy that is played during the trace, with its own actions."""

    def __init__(self, subject: Subject, env: Any, steps: int) -> None:
        self.driver = EnvDriver(subject, env)
        self._mask_filter = MaskFilter(self.driver)
        self._actions, self._seed = iter(subject.actions(steps, salt=2)), subject.seeds(2)[1]
        self._last_result: tuple[Any, Any] = None, None

    def step(self) -> None:
        """Take a step that the mask allows; begin an episode first if none runs."""
        if not self.driver.is_running:
            self._last_result = self.driver.reset(self._seed)
        action = self._mask_filter.allowed_action(next(self._actions), *self._last_result)
        if action is None:
            self.driver.is_running = False
        else:
            self._last_result = self.driver.step(action)[::4]  # the observation and the info


def _check_beside_copy(
    subject: Subject, reference: Sequence[TraceStep], seed: int, actions: Sequence[Any]
) -> None:
    envs, n = (subject.make(), subject.make()), len(actions)
    subject_beside = replace(subject, report=Report())  # for findings that only occur with two copies
    driver, second = EnvDriver(subject_beside, envs[0]), _SecondCopy(subject_beside, envs[1], n)
    problem = ""
    try:
        index = first_difference(reference, record_trace(driver, seed, actions, second.step))
        if index is not None:
            problem = f"{reference[index].label} changes while a second copy is played"
    except StopCheck:
        finding_text = subject_beside.report.findings[-1].message.partition(", expected")[0]
        problem = f"{finding_text}, only while a second copy is played"
    for env in envs:
        close_quietly(env)
    if not problem:
        return
    if subject_beside.report.findings:
        _check_second_copy(subject, n)
    if subject.instance is None:
        subject.report.error(
            "instances-share",
            f"{problem}, expected copies that do not affect one another: n_envs of them run side by side; "
            "look for attributes of the class, module variables and mutable default arguments",
        )
    else:
        subject.report.warning(
            "copy-shares",
            f"{problem} that copy.deepcopy made, expected independent copies: a run copies an instance "
            "n_envs times in this way; look at its __deepcopy__, or pass a callable that makes it: lambda: "
            "MyEnv()",
        )


def _check_second_copy(subject: Subject, steps: int) -> None:
    """Play the second copy alone: a problem that stops it then does not come from sharing."""
    second = _SecondCopy(subject, subject.make(), steps)
    for _ in range(steps):
        second.step()
    close_quietly(second.driver.env)
