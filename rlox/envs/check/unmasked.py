"""Whether an environment with a mask can be stepped by a run that does not keep to it."""

from __future__ import annotations

import time
from typing import Any

from rlox.envs.check.player import Masked, Player
from rlox.envs.check.subject import Subject, closed
from rlox.envs.check.values import brief, same
from rlox.importing import failure

__all__ = ["play_unmasked"]


def play_unmasked(subject: Subject) -> None:
    """Any actions, as the run that is configured would take them, until one of them is refused."""
    if not subject.unmasked or subject.mask.source == "none":
        return
    player = Player(subject, subject.make())
    masked, begun = Masked(player), time.monotonic()
    seen, info = player.reset(subject.seeds(1)[0])
    for action in subject.actions(subject.length(subject.steps), salt=3):
        forbidden = not same(masked.allowed(action, seen, info), action)
        if forbidden and _refused(subject, player, action):
            break
        if not forbidden:
            step = player.step(action)
            seen, info = step.seen, step.info
        if forbidden or not player.running:
            seen, info = player.reset()
        if time.monotonic() - begun > subject.limits.stage_seconds:
            break
    closed(player.env)


def _refused(subject: Subject, player: Player, action: Any) -> bool:
    """Whether a step with an action that the mask forbids raises, which is told."""
    player.t += 1
    subject.doing(player.where)
    try:
        with player.around(player.where):
            player.env.step(action)
    except subject.raises as error:
        mask = subject.mask
        subject.report.error(
            "mask-unused",
            f"it tells masks, by {mask.told}: {player.where}, with action {brief(action)}, which is "
            f"forbidden, raises {failure(error)}, expected that a run keeps to them; set "
            f"env.action_mask={mask.source}, or take such an action as one that does nothing",
        )
        return True
    return False
