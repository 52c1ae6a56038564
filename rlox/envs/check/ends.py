"""How episodes end: by the task, by a time limit, or never."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from rlox.envs.base import WrongKindError, flag_of
from rlox.envs.check.player import Step
from rlox.envs.check.subject import Subject
from rlox.envs.check.values import brief, same

__all__ = ["Ends"]


@dataclass(frozen=True)
class Ended:
    """One episode that was played to its end."""

    length: int
    terminated: bool
    truncated: bool
    as_begun: bool  # its last observation is its first, and others were not


class Ends:
    """Keeps how each episode ended, and says what is odd about all of them."""

    def __init__(self, subject: Subject, env: Any) -> None:
        self.subject = subject
        self.spec = env.spec
        self.limit: int | None = env.spec.max_episode_steps if env.spec is not None else None
        self.ended: list[Ended] = []
        self.longest = 0
        self._first: Any = None
        self._varied = False

    def begin(self, seen: Any) -> None:
        """An episode begins."""
        self._first, self._varied = copy.deepcopy(seen), False

    def step(self, step: Step, t: int) -> None:
        """It goes on, or ends, with its step `t`."""
        self.longest = max(self.longest, t)
        as_begun = same(step.seen, self._first)
        info = step.info if isinstance(step.info, dict) else {}
        if step.terminated or step.truncated:
            back = as_begun and self._varied
            self.ended.append(Ended(t, bool(step.terminated), bool(step.truncated), back))
            self._look_at_success(info.get("is_success"), t)
        self._varied |= not as_begun
        if info.get("TimeLimit.truncated") and step.terminated and not step.truncated:
            self.subject.report.warning(
                "limit-in-info",
                f"step {t} tells a time limit by terminated=True and info['TimeLimit.truncated'], as Gym "
                "did, expected terminated=False, truncated=True: else its last state counts as worth 0",
            )

    def _look_at_success(self, success: Any, t: int) -> None:
        try:
            flag_of("is_success", False if success is None else success)
        except WrongKindError:
            self.subject.report.error(
                "success-kind",
                f"info['is_success'] of step {t}, the last of an episode, is {brief(success)} "
                f"({type(success).__name__}), expected a bool: whether it reached its goal; return bool(...)",
            )

    def look(self) -> None:
        """What all episodes together say."""
        report, ended = self.subject.report, self.ended
        if len(ended) > 2 and all(e.as_begun for e in ended):
            report.warning(
                "restarts-itself",
                f"the last observation of each of {len(ended)} episodes is its first one, expected the state "
                "that ended it: does step call reset? Leave that to whoever steps it (by design, such as a "
                "way home, it is no mistake)",
            )
        if self.limit is not None:
            self._look_at_limit(self.limit)
        elif not ended and self.longest >= self.subject.limits.endless:
            report.warning(
                "never-ends",
                f"no episode ended within {self.longest:,} steps and there is no time limit, expected ends, "
                "as returns are known at the end of episodes only; register it with max_episode_steps=N, or "
                "wrap it with gymnasium.wrappers.TimeLimit",
            )

    def _look_at_limit(self, limit: int) -> None:
        report = self.subject.report
        at_limit = [e for e in self.ended if e.length == limit]
        if limit > 1 and len(at_limit) > 1 and all(e.terminated for e in at_limit):
            report.warning(
                "limit-terminates",
                f"all {len(at_limit)} episodes that reached the time limit of {limit} steps tell "
                "terminated=True, expected truncated=True alone: else the value of the last state counts "
                "as 0; leave the limit to max_episode_steps",
            )
        cut = [e.length for e in self.ended if e.truncated and not e.terminated]
        if len(cut) > 1 and len(set(cut)) == 1 and cut[0] < limit:
            report.warning(
                "limit-earlier",
                f"each truncation comes at step {cut[0]}, expected at step {limit}, the max_episode_steps "
                "that it is registered with; let both be the same",
            )
        if self.longest > limit:
            report.warning(
                "limit-not-kept",
                f"an episode went on for {self.longest} steps, expected an end at {limit}, the "
                "max_episode_steps of its spec, which nothing keeps; make it with gymnasium.make, or wrap it "
                "with gymnasium.wrappers.TimeLimit",
            )
