"""Whether an environment that can be saved goes on from its state: what only a resumed run asks of it."""

from __future__ import annotations

from itertools import islice
from typing import Any

from rlox.envs.check.player import STEPS_OF_ONE, Masked, Player
from rlox.envs.check.subject import Subject, closed
from rlox.envs.check.values import same
from rlox.envs.snapshot import can_save, restore_env, save_env
from rlox.importing import failure

__all__ = ["look_at_saving"]

MIDWAY = 3  # steps


def look_at_saving(subject: Subject) -> None:
    """Save a copy in mid-episode, restore it in another one, and play both with the same actions."""
    if subject.alone:
        return
    first, second = (Player(subject, subject.make()) for _ in range(2))
    if can_save(first.env):
        _compare(subject, first, second)
    for player in (first, second):
        closed(player.env)


def _compare(subject: Subject, first: Player, second: Player) -> None:
    actions = iter(subject.actions(subject.length(STEPS_OF_ONE)))
    seen, info = first.reset(subject.seeds(1)[0])
    masked = Masked(first)
    for action in islice(actions, MIDWAY):
        given = masked.allowed(action, seen, info)
        if given is None:
            return
        step = first.step(given)
        seen, info = (step.seen, step.info) if first.running else first.reset()
    if not _restored(subject, first, second):
        return
    second.running, second.t, second.episode = first.running, first.t, first.episode
    for action in actions:
        given = masked.allowed(action, seen, info)
        if given is None:
            return
        step, other = first.step(given), second.step(given)
        if not same(tuple(step[:4]), tuple(other[:4])):
            subject.report.error(
                "state-lost",
                f"{first.where} leads elsewhere in a copy that load_state put into the state of save_state, "
                "expected the same: a resumed run goes on from there; save all that step changes",
            )
            return
        if not first.running:
            return
        seen, info = step.seen, step.info


def _restored(subject: Subject, first: Player, second: Player) -> bool:
    """Put the second into the state of the first; a finding where that raises."""
    call: Any = "save_state()"
    try:
        subject.doing(call)
        state = save_env(first.env)
        call = "load_state(...) of a new copy"
        subject.doing(call)
        restore_env(second.env, state)
    except subject.raises as error:
        subject.report.error(
            "state-fails",
            f"{call} raises {failure(error)}, expected a state that a new copy takes before its first reset: "
            "a resumed run asks for it; set what step needs in __init__ or in load_state",
        )
        return False
    return True
