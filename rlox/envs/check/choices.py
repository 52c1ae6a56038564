"""Whether an environment takes every action of its space: each choice, and the bounds of vectors."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium import spaces

from rlox.envs.check.player import Player
from rlox.envs.check.subject import Subject
from rlox.envs.check.values import brief, same
from rlox.importing import failure

__all__ = ["try_choices"]

MANY = 24  # of more choices than this some are tried


def try_choices(subject: Subject, player: Player) -> None:
    """One step with each, from a start of its own."""
    _find_mask(subject, player)
    if not isinstance(subject.action_space, spaces.Discrete) and subject.mask.source == "none":
        player.step(subject.actions(1)[0])
    refused: list[tuple[Any, BaseException]] = []
    taken: list[Any] = []
    begun = time.monotonic()
    for action in _extremes(subject):
        if time.monotonic() - begun > subject.limits.stage_seconds:
            break
        seen, info = player.reset(subject.seeds(1)[0])
        if not _allowed(subject, player, action, seen, info):
            continue
        said = f"a first step with action {brief(action)}"
        subject.doing(said)
        try:
            with player.around(said):
                player.env.step(action)
            taken.append(action)
        except subject.raises as error:
            refused.append((action, error))
        player.t = 1
    if refused:
        _tell(subject, *refused[0], bool(taken))


def _find_mask(subject: Subject, player: Player) -> None:
    seen, info = player.reset(subject.seeds(1)[0])
    asked = subject.mask.source != "none"
    subject.mask = subject.mask.found(player.env, seen, info)
    if subject.mask.source != "none":
        subject.mask.require_choices(subject.action_space)
        mask = player.mask(seen, info)
        if mask is None:
            subject.report.stop("mask-missing", subject.mask.absent(asked))
        wrong = subject.mask.misfit(mask, subject.action_space)
        if wrong:
            subject.report.stop(wrong[0], f"after {player.where} {wrong[1]}")


def _extremes(subject: Subject) -> Iterator[Any]:
    space = subject.action_space
    if isinstance(space, spaces.Discrete):
        n, start = int(space.n), int(space.start)
        few = {0, n - 1, *(n * i // MANY for i in range(MANY))}
        yield from (start + np.int64(i) for i in sorted(few))
    elif isinstance(space, spaces.Box):
        yield from (end.copy() for end in (space.low, space.high) if np.isfinite(end).all())
    elif isinstance(space, spaces.MultiDiscrete):
        yield space.start.astype(space.dtype)
        yield (space.start + space.nvec - 1).astype(space.dtype)


def _allowed(subject: Subject, player: Player, action: Any, seen: Any, info: Any) -> bool:
    mask = player.mask(seen, info)
    return mask is None or same(subject.mask.kept(mask, subject.action_space, action), action)


def _tell(subject: Subject, action: Any, error: BaseException, others: bool) -> None:
    said, raised = f"a first step with action {brief(action)}", failure(error)
    if subject.mask.source != "none":
        subject.report.stop(
            "allowed-refused",
            f"{said}, which its mask allows, raises {raised}, expected an observation; let the mask forbid "
            "the action there",
        )
    if isinstance(subject.action_space, spaces.Box):
        subject.report.stop(
            "bounds-refused",
            f"{said}, at the end of its action_space, raises {raised}, expected an observation: policies are "
            "clipped to the bounds, which belong to a Box; take them, or make the Box smaller",
        )
    if not others:
        subject.report.stop(
            "step-fails",
            f"{said} raises {raised}, and so does every other choice, expected an observation; call step by "
            "hand",
        )
    subject.report.stop(
        "choice-refused",
        f"{said} raises {raised}, and other choices do not, expected an observation for every choice of "
        f"{brief(subject.action_space)}; make the space smaller, or tell what is allowed by a mask",
    )
