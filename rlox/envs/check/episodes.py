"""What resets and steps give over some episodes: each value by itself, and from one to the next."""

from __future__ import annotations

import copy
import numbers
import statistics
import time
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from rlox.envs.base import WrongKindError, reward_of
from rlox.envs.check.digits import Digits
from rlox.envs.check.ends import Ends
from rlox.envs.check.player import Player, Step, flag_text
from rlox.envs.check.subject import Subject
from rlox.envs.check.values import brief, misfit, same

__all__ = ["play_episodes"]

SPACES = ("observation_space", "action_space")


def play_episodes(subject: Subject, player: Player) -> Ends:
    """Random actions for as many steps as were asked for; how the episodes ended."""
    watched = _Watched(subject, player)
    try:
        _play(subject, watched)
    finally:  # also where a call of it raised
        subject.done_steps, subject.done_episodes = watched.steps, len(watched.ends.ended)
    watched.look_at_digits()
    watched.ends.look()
    return watched.ends


def _play(subject: Subject, watched: _Watched) -> None:
    begun = time.monotonic()
    seed: int | None = subject.seeds(1)[0]
    while watched.steps < subject.length(subject.steps):
        seen, info = watched.reset(seed)
        seed = None
        while watched.player.running and watched.steps < subject.length(subject.steps):
            action = watched.action(seen, info)
            if action is None:
                break
            seen, info = watched.step(action)
            if time.monotonic() - begun > subject.limits.stage_seconds:
                subject.brief = True


class _Watched:
    """A player whose every value is looked at."""

    def __init__(self, subject: Subject, player: Player) -> None:
        self.subject, self.player, self.report = subject, player, subject.report
        self.ends = Ends(subject, player.env)
        self.steps = 0
        self._spaces = {name: copy.deepcopy(getattr(player.env, name)) for name in SPACES}
        self._space = self._spaces["action_space"]
        self._space.seed(subject.seed)
        self._held: tuple[Any, Any] | None = None  # the last observation, and a copy of it
        self._seconds: list[float] = []
        self._pickled = 0
        self._digits = Digits()

    def reset(self, seed: int | None) -> tuple[Any, Any]:
        """Begin an episode."""
        seen, info = self.player.reset(seed)
        self._look_at_observation(seen)
        self._look_at_spaces()
        self._look_at_info(info)
        self._look_at_mask(seen, info)
        self.ends.begin(seen)
        return seen, info

    def action(self, seen: Any, info: Any) -> Any:
        """A random action that is allowed; `None` where none is."""
        mask = self.player.mask(seen, info)
        if mask is None:
            return self._space.sample()
        return self.subject.mask.kept(mask, self._space, self._space.sample())

    def step(self, action: Any) -> tuple[Any, Any]:
        """Take one step and look at all of it."""
        given, since = copy.deepcopy(action), time.monotonic()
        step = self.player.step(action, given)
        self._seconds.append(time.monotonic() - since)
        self.steps += 1
        self._look_at_action(action, given)
        self._look_at_observation(step.seen)
        self._look_at_reward(step.reward)
        self._look_at_flags(step)
        self._look_at_info(step.info, ended=not self.player.running)
        if self.player.running:
            self._look_at_mask(step.seen, step.info)
        if self.steps <= 5:
            self._look_at_spaces()
        self._look_at_time()
        self.ends.step(step, self.player.t)
        return step.seen, step.info

    def look_at_digits(self) -> None:
        """Whether networks can tell apart the numbers that all observations had."""
        for lost in self._digits.lost():
            self.report.warning(lost.code, f"the observation{lost.part} {lost.text}")

    def _look_at_observation(self, seen: Any) -> None:
        where = self.player.where
        wrong = misfit(self.subject.observation_space, seen)
        if wrong is not None:
            self.report.error(wrong.code, f"the observation{wrong.part} of {where} {wrong.text}")
        else:
            self._digits.see(self.subject.observation_space, seen)
        if self._held is not None and not same(*self._held):
            self.report.error(
                "observation-aliased",
                f"{where} changed the observation that was returned before it, expected a new one each time: "
                "what is kept of the old one is lost; return a copy: self.state.copy()",
            )
        self._held = (seen, copy.deepcopy(seen))

    def _look_at_spaces(self) -> None:
        for name, first in self._spaces.items():
            now = getattr(self.player.env, name)
            if first != now:
                self.report.error(
                    f"{name.replace('_', '-')}-changed",
                    f"{self.player.where} changed its {name} from {brief(first)} to {brief(now)}, expected "
                    "the same as long as it lives: networks are made for it once; set it in __init__, at its "
                    "widest",
                )

    def _look_at_info(self, info: Any, ended: bool = False) -> None:
        where = self.player.where
        if not isinstance(info, dict):
            if self.player.t:
                self.report.error(
                    "step-info",
                    f"the info of {where} is a {type(info).__name__}, expected a dict; return {{}} as the "
                    "fifth value where there is nothing to tell",
                )
            return
        self._pickled += 1
        if self._pickled > 4 and not ended:
            return
        try:
            ForkingPickler.dumps(info)
        except Exception as error:
            self.report.warning(
                "info-pickle",
                f"the info of {where} cannot be sent to another process ({error}), expected numbers, text "
                "and arrays: env.workers=subprocess fails on it; leave such objects out of the info",
            )

    def _look_at_mask(self, seen: Any, info: Any) -> None:
        place = self.subject.mask
        if place.source == "none":
            return
        mask = self.player.mask(seen, info)
        wrong = place.misfit(mask, self.subject.action_space)
        if wrong is not None:
            self.report.error(wrong[0], f"after {self.player.where} {wrong[1]}")
            if wrong[0] in ("mask-length", "mask-values"):
                self.report.stop(wrong[0], wrong[1])

    def _look_at_action(self, action: Any, given: Any) -> None:
        if not same(action, given):
            self.report.error(
                "action-changed",
                f"{self.player.where} changed the action that it was given from {brief(action)} to "
                f"{brief(given)}, expected it untouched: rlox hands over a copy, other libraries learn from "
                "it afterwards; work on a copy (np.clip without out=, action = action * 2 rather than "
                "action *= 2)",
            )

    def _look_at_reward(self, reward: Any) -> None:
        where = self.player.where
        if isinstance(reward, np.ndarray) and reward.ndim:
            self.report.error(
                "reward-shape",
                f"the reward of {where} is an array of shape {reward.shape}, expected one number; return "
                "float(reward.sum()), or float(reward[0])",
            )
            return
        number = reward.item() if isinstance(reward, np.ndarray | np.generic) else reward
        if not isinstance(number, numbers.Real) or not _is_taken(reward):
            self.report.error(
                "reward-kind",
                f"the reward of {where} is {brief(reward)} ({type(reward).__name__}), expected a number; "
                "return a float in every branch of step",
            )
        elif number != number:
            self.report.error(
                "reward-nan",
                f"the reward of {where} is NaN, expected a number: it would make all weights NaN; look for "
                "0/0 or a logarithm of a negative number in it",
            )
        elif abs(float(number)) == float("inf"):
            self.report.error(
                "reward-infinite",
                f"the reward of {where} is {number}, expected a finite number: returns and values become "
                "infinite; give a large one, such as -100",
            )
        elif abs(float(number)) > self.subject.limits.huge_reward:
            self.report.warning(
                "reward-huge",
                f"the reward of {where} is {float(number):.3g}, expected less than "
                f"{self.subject.limits.huge_reward:g}: losses of values grow with its square; scale it, or "
                "set env.normalize_reward=true",
            )

    def _look_at_flags(self, step: Step) -> None:
        for name in ("terminated", "truncated"):
            flag = getattr(step, name)
            if not isinstance(flag, bool | np.bool_):
                self.report.error(f"{name}-kind", flag_text(self.player.where, name, flag))

    def _look_at_time(self) -> None:
        limit = self.subject.limits.slow_step
        if len(self._seconds) == 3 and statistics.median(self._seconds) > limit:
            self.subject.brief = True
            self.report.warning(
                "slow-step",
                f"a step takes {statistics.median(self._seconds):.2g} s, expected less than {limit:g}: a run "
                "of 100,000 steps would take days; look for sleeping, rendering or waiting in step",
            )


def _is_taken(reward: Any) -> bool:
    """Whether a run takes it for a number."""
    try:
        reward_of(reward)
    except WrongKindError:
        return False
    return True
