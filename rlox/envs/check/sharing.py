"""Whether an environment is alone: with its actions, beside another copy, and when it is copied."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from rlox.envs.check.findings import Report, Stop
from rlox.envs.check.player import EPISODES, STEPS_OF_ONE, Masked, Moment, Player, trace
from rlox.envs.check.seeding import same_trace
from rlox.envs.check.subject import Subject, closed

__all__ = ["look_at_sharing", "try_copies"]


def try_copies(subject: Subject) -> None:
    """Of an instance that was handed over: whether it can be copied, and sent to another process."""
    if subject.instance is None:
        return
    subject.doing("being copied")
    try:
        ForkingPickler.dumps(subject.instance)
    except subject.raises as error:
        subject.report.warning(
            "pickle-fails",
            f"it cannot be sent to another process ({error}), as env.workers=subprocess does, expected that "
            "it can be pickled; pass a callable that makes it instead",
        )
    try:
        copy.deepcopy(subject.instance)
    except subject.raises as error:
        subject.alone = True
        subject.report.warning(
            "copy-fails",
            f"it cannot be copied ({error}), expected copy.deepcopy to work, by which an instance becomes "
            "n_envs; pass a callable that makes it instead: lambda: MyEnv()",
        )


def look_at_sharing(subject: Subject, alone: Sequence[Moment]) -> None:
    """The trace again, with actions written over afterwards, and beside another copy."""
    if subject.alone:
        return
    n = subject.length(EPISODES * STEPS_OF_ONE)
    seed, actions = subject.seeds(1)[0], subject.actions(n)
    player = Player(subject, subject.make())
    if all(isinstance(action, np.ndarray) for action in actions):
        at = same_trace(alone, trace(player, seed, actions, spoilt=subject.actions(n, salt=1)))
        if at is not None:
            subject.report.error(
                "action-kept",
                f"{alone[at].where} depends on the array of an earlier action, which was written over since, "
                "expected its numbers to be kept: whoever steps it uses the array again; keep a copy: "
                "self.last = action.copy()",
            )
    closed(player.env)
    if not subject.report.has("numpy-random", "python-random"):  # which all copies share
        _play_beside(subject, alone, seed, actions)


class _Second:
    """A copy that plays beside the one that is looked at, by actions of its own."""

    def __init__(self, subject: Subject, env: Any, steps: int) -> None:
        self.player = Player(subject, env)
        self._masked = Masked(self.player)
        self._actions, self._seed = iter(subject.actions(steps, salt=2)), subject.seeds(2)[1]
        self._last: tuple[Any, Any] = None, None

    def step(self) -> None:
        """A step that its mask allows; a new episode before it where none runs."""
        if not self.player.running:
            self._last = self.player.reset(self._seed)
        action = self._masked.allowed(next(self._actions), *self._last)
        if action is None:
            self.player.running = False
        else:
            self._last = self.player.step(action)[::4]  # what is seen, and the info


def _play_beside(
    subject: Subject, alone: Sequence[Moment], seed: int, actions: Sequence[Any]
) -> None:
    envs, n = (subject.make(), subject.make()), len(actions)
    beside = replace(subject, report=Report())  # of what only two of them do
    player, second = Player(beside, envs[0]), _Second(beside, envs[1], n)
    said = ""
    try:
        at = same_trace(alone, trace(player, seed, actions, second.step))
        if at is not None:
            said = f"{alone[at].where} is another one while a second copy is played"
    except Stop:
        told = beside.report.findings[-1].message.partition(", expected")[0]
        said = f"{told}, only while a second copy is played"
    for env in envs:
        closed(env)
    if not said:
        return
    if beside.report.findings:
        _play_second(subject, n)
    if subject.instance is None:
        subject.report.error(
            "instances-share",
            f"{said}, expected that copies know nothing of one another: n_envs of them run side by side; "
            "look for attributes of the class, module variables and mutable default arguments",
        )
    else:
        subject.report.warning(
            "copy-shares",
            f"{said} that copy.deepcopy made, expected copies to be apart: an instance becomes n_envs that "
            "way; look at its __deepcopy__, or pass a callable that makes it: lambda: MyEnv()",
        )


def _play_second(subject: Subject, steps: int) -> None:
    """What the second copy did, by itself: what stops it then is no matter of two."""
    second = _Second(subject, subject.make(), steps)
    for _ in range(steps):
        second.step()
    closed(second.player.env)
