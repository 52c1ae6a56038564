"""Checks of how episodes end: by the task, by a time limit, or never."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from rlox.envs.base import WrongTypeError, to_flag
from rlox.envs.check.driver import StepResult
from rlox.envs.check.subject import Subject
from rlox.envs.check.values import is_equal, short_repr

__all__ = ["EpisodeEndCheck"]


@dataclass(frozen=True)
class EpisodeEnd:
    """The end of one episode."""

    length: int
    terminated: bool
    truncated: bool
    ends_at_first_obs: bool  # whether its last observation equals its first, and one between differs


class EpisodeEndCheck:
    """Records how each episode ended, and reports oddities over all of them."""

    def __init__(self, subject: Subject, env: Any) -> None:
        self.subject = subject
        self.spec = env.spec
        self.limit: int | None = env.spec.max_episode_steps if env.spec is not None else None
        self.episodes: list[EpisodeEnd] = []
        self.longest = 0
        self._first_obs: Any = None
        self._has_changed = False

    def reset(self, observation: Any) -> None:
        """Record the start of an episode."""
        self._first_obs, self._has_changed = copy.deepcopy(observation), False

    def step(self, step: StepResult, t: int) -> None:
        """Record step `t` of the episode, and its end if it is the last."""
        self.longest = max(self.longest, t)
        is_first_obs = is_equal(step.observation, self._first_obs)
        info = step.info if isinstance(step.info, dict) else {}
        if step.terminated or step.truncated:
            is_first_again = is_first_obs and self._has_changed
            self.episodes.append(EpisodeEnd(t, bool(step.terminated), bool(step.truncated), is_first_again))
            self._check_success(info.get("is_success"), t)
        self._has_changed |= not is_first_obs
        if info.get("TimeLimit.truncated") and step.terminated and not step.truncated:
            self.subject.report.warning(
                "limit-in-info",
                f"step {t} reports a time limit by terminated=True and info['TimeLimit.truncated'], as Gym "
                "did, expected terminated=False, truncated=True: otherwise the value of the last state "
                "counts as 0",
            )

    def _check_success(self, success: Any, t: int) -> None:
        try:
            to_flag("is_success", False if success is None else success)
        except WrongTypeError:
            self.subject.report.error(
                "success-kind",
                f"info['is_success'] of step {t}, the last of an episode, is {short_repr(success)} "
                f"({type(success).__name__}), expected a bool: whether the episode reached its goal; return "
                "bool(...)",
            )

    def report(self) -> None:
        """Report findings over all episodes."""
        report, episodes = self.subject.report, self.episodes
        if len(episodes) > 2 and all(e.ends_at_first_obs for e in episodes):
            report.warning(
                "restarts-itself",
                f"the last observation of each of {len(episodes)} episodes equals its first one, expected "
                "the state that ended the episode: does step call reset? Leave resets to the caller (it is "
                "no mistake if the task leads back to the start)",
            )
        if self.limit is not None:
            self._check_limit(self.limit)
        elif not episodes and self.longest >= self.subject.limits.endless:
            report.warning(
                "never-ends",
                f"no episode ended within {self.longest:,} steps and there is no time limit, expected "
                "episodes that end, as their returns are known only then; register it with "
                "max_episode_steps=N, or wrap it with gymnasium.wrappers.TimeLimit",
            )

    def _check_limit(self, limit: int) -> None:
        report = self.subject.report
        at_limit = [e for e in self.episodes if e.length == limit]
        if limit > 1 and len(at_limit) > 1 and all(e.terminated for e in at_limit):
            report.warning(
                "limit-terminates",
                f"all {len(at_limit)} episodes that reached the time limit of {limit} steps report "
                "terminated=True, expected truncated=True alone: otherwise the value of the last state "
                "counts as 0; leave the limit to max_episode_steps",
            )
        truncated_lengths = [e.length for e in self.episodes if e.truncated and not e.terminated]
        if len(truncated_lengths) > 1 and len(set(truncated_lengths)) == 1 and truncated_lengths[0] < limit:
            report.warning(
                "limit-earlier",
                f"each truncation comes at step {truncated_lengths[0]}, expected at step {limit}, the "
                "max_episode_steps that it is registered with; make both limits equal",
            )
        if self.longest > limit:
            report.warning(
                "limit-not-kept",
                f"an episode went on for {self.longest} steps, expected an end at {limit}, the "
                "max_episode_steps of its spec, which nothing enforces; make it with gymnasium.make, or "
                "wrap it with gymnasium.wrappers.TimeLimit",
            )
