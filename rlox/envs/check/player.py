"""Calls an environment as a run would, and makes a finding of a call that goes wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from rlox.envs.base import WrongKindError, flag_of
from rlox.envs.check.subject import Subject
from rlox.envs.check.surroundings import seed_globally
from rlox.envs.check.values import brief
from rlox.importing import failure

__all__ = ["Masked", "Moment", "Player", "Step", "flag_text", "trace"]

EPISODES, STEPS_OF_ONE = 3, 40  # of a trace
MEANING = {
    "terminated": "whether the task is over; return bool(...)",
    "truncated": "whether a time limit or the like cut the episode; False where there is none",
}


class Step(NamedTuple):
    """What one step gave."""

    seen: Any
    reward: Any
    terminated: Any
    truncated: Any
    info: Any


def flag_text(where: str, name: str, flag: Any) -> str:
    """What is said of a flag that is no bool."""
    return f"{name} of {where} is {brief(flag)} ({type(flag).__name__}), expected bool: {MEANING[name]}"


class Moment(NamedTuple):
    """One entry of a trace, copied: what a reset gave has no reward."""

    where: str
    episode: int
    seen: Any
    reward: Any = None
    ends: Any = None


class Player:
    """One environment, called with a word on each call to whoever waits for its answer."""

    def __init__(
        self,
        subject: Subject,
        env: Any,
        around: Callable[[str], AbstractContextManager[Any]] = lambda call: nullcontext(),
    ) -> None:
        self.subject, self.env = subject, env
        self.episode = self.t = 0
        self.running = False
        self.around = around

    @property
    def where(self) -> str:
        """The last call, in words."""
        return f"step {self.t} of episode {self.episode}" if self.t else f"reset {self.episode}"

    def reset(self, seed: int | None = None) -> tuple[Any, Any]:
        """The first observation and its info."""
        midway = self.running and self.t > 0
        asked = f"reset(seed={seed})" if seed is not None else "reset()"
        self.subject.doing(asked)
        if seed is not None:
            seed_globally()
        try:
            with self.around(asked):
                result = self.env.reset() if seed is None else self.env.reset(seed=seed)
        except self.subject.raises as error:
            self._reset_failed(error, asked, midway)
        self.episode, self.t, self.running = self.episode + 1, 0, True
        report = self.subject.report
        if not isinstance(result, tuple) or len(result) != 2:
            report.stop(
                "reset-no-pair",
                f"reset returns {_kind(result)}, expected the pair (observation, info); end it with "
                "return observation, {}",
            )
        if not isinstance(result[1], dict):
            report.error(
                "reset-info",
                f"the info of reset is {_kind(result[1])}, expected a dict; return observation, {{}}",
            )
        return result

    def step(self, action: Any, given: Any = None) -> Step:
        """One step; `given` is the very object to hand over, where it is to be looked at afterwards."""
        self.t += 1
        self.subject.doing(self.where)
        try:
            with self.around(self.where):
                result = self.env.step(copy.deepcopy(action) if given is None else given)
        except self.subject.raises as error:
            self._step_failed(error, action)
        if not isinstance(result, tuple) or len(result) != 5:
            self.subject.report.stop(
                "step-length",
                f"step returns {_kind(result)}, expected (observation, reward, terminated, truncated, info); "
                "terminated: the task is over, truncated: a time limit cut it (they were one `done` in Gym)",
            )
        step = Step(*result)
        self.running = not (self._over("terminated", step) or self._over("truncated", step))
        return step

    def _over(self, name: str, step: Step) -> bool:
        """A flag of a step; a finding, with which it ends, for what is neither true nor false."""
        flag = getattr(step, name)
        try:
            return flag_of(name, flag)
        except WrongKindError:
            self.subject.report.stop(f"{name}-kind", flag_text(self.where, name, flag))

    def mask(self, seen: Any, info: Any) -> Any:
        """The mask after the last call, `None` where there is none."""
        place, asked = self.subject.mask, f"{self.subject.mask.told} after {self.where}"
        if place.source == "method":
            self.subject.doing(asked)
        try:
            return place.mask(self.env, seen, info)
        except self.subject.raises as error:
            self.subject.report.stop(
                "mask-fails",
                f"{asked} raises {failure(error)}, expected a mask: it is asked for after each reset and "
                "each step that an action follows; answer there too",
            )

    def _reset_failed(self, error: BaseException, asked: str, midway: bool) -> Any:
        if midway:
            self.subject.report.stop(
                "reset-refused",
                f"{asked} in the middle of an episode, after step {self.t}, raises {failure(error)}, "
                "expected a new episode: a run that is stopped or goes on resets at any time; begin anew in "
                "reset, whatever came before",
            )
        self.subject.report.stop(
            "reset-fails",
            f"{asked} raises {failure(error)}, expected an observation and an info; call it by hand",
        )

    def _step_failed(self, error: BaseException, action: Any) -> Any:
        report, said = self.subject.report, f"{self.where}, with action {brief(action)},"
        if isinstance(error, SystemExit | KeyboardInterrupt):
            how = "sys.exit" if isinstance(error, SystemExit) else "raises KeyboardInterrupt"
            report.stop(
                "step-exits",
                f"{said} ends the process ({how}), expected an observation; raise an error where it "
                "cannot go on",
            )
        if self.subject.mask.source != "none":
            report.stop(
                "allowed-refused",
                f"{said} which its mask allows, raises {failure(error)}, expected an observation; let the "
                "mask forbid the action there",
            )
        report.stop(
            "step-fails",
            f"{said} raises {failure(error)}, expected an observation: the action is of its action_space",
        )


def trace(
    player: Player,
    seed: int,
    actions: Sequence[Any],
    between: Callable[[], Any] = lambda: None,
    spoilt: Sequence[Any] | None = None,
) -> list[Moment]:
    """What the actions lead to from a seed on, over some episodes, the later ones without a seed.

    `between` is called before each step. With `spoilt` each action array is overwritten after its step.
    """
    player.episode = 0
    seen, info = player.reset(seed)
    moments = [Moment("its first observation", 1, copy.deepcopy(seen))]
    masked = Masked(player)
    for i, action in enumerate(actions):
        between()
        given = copy.deepcopy(masked.allowed(action, seen, info))
        if given is not None:
            step = player.step(given, given)
            if spoilt is not None:
                given[...] = spoilt[i]
            seen, info = step.seen, step.info
            ends = (bool(step.terminated), bool(step.truncated))
            copied = copy.deepcopy((seen, step.reward))
            moments.append(Moment(player.where, player.episode, *copied, ends))
        if given is None or not player.running or player.t >= STEPS_OF_ONE:
            if player.episode == EPISODES:
                break
            seen, info = player.reset()
            moments.append(Moment(player.where, player.episode, copy.deepcopy(seen)))
    return moments


class Masked:
    """Turns an action that a mask forbids into one that it allows, the same one each time, or none."""

    def __init__(self, player: Player) -> None:
        self._player, self._place = player, player.subject.mask

    def allowed(self, action: Any, seen: Any, info: Any) -> Any:
        """The action to take after this observation and info."""
        mask = self._player.mask(seen, info)
        if mask is None:
            return action
        return self._place.kept(mask, self._player.env.action_space, action)


def _kind(value: Any) -> str:
    """What something is, in words."""
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return "None" if value is None else f"a {type(value).__name__}"
