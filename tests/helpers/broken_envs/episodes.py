"""Environments whose episodes begin or end wrongly."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from .base import Line, register_broken


@register_broken("reset-keeps-state")
class KeepsTimeOverResets(Line):
    """Continues the time of the last episode."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        t = self.t
        super().reset(seed=seed)
        self.t = t % 20
        return self.observe(), {}


@register_broken("reset-refused")
class NoResetMidEpisode(Line):
    running = False

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if self.running and self.t > 0:
            raise RuntimeError("the episode is not over")
        self.running = True
        return super().reset(seed=seed)

    def step(self, action: Any) -> Any:
        result = super().step(action)
        self.running = not (result[2] or result[3])
        return result


class Endless(Line):
    """A walk in a ring; sound if it has a time limit around it."""

    limit = 0

    def step(self, action: Any) -> Any:
        result = super().step(action)
        self.x = (self.x + 2) % 4 - 2
        return result

    def observe(self) -> Any:
        obs = super().observe()
        obs[1] = 0
        return obs

    def is_terminated(self) -> Any:
        return False

    def is_truncated(self) -> Any:
        return False


class TruncatesItself(Endless):
    """Sound if it is registered with its own limit."""

    limit = 8

    def is_truncated(self) -> Any:
        return self.t >= self.limit


class TruncationAsTermination(Endless):
    def is_terminated(self) -> Any:
        return self.t >= 12


def registered(make: Any, steps: int) -> Any:
    """Return an environment from `gymnasium.make`, with a time limit."""
    spec = gym.envs.registration.EnvSpec("Checked-v0", entry_point=make, max_episode_steps=steps)
    return gym.make(spec, disable_env_checker=True)


@register_broken("limit-terminates", "warning")
def limit_reported_as_termination() -> Any:
    return registered(TruncationAsTermination, 12)


@register_broken("limit-earlier", "warning")
def inner_limit_differs() -> Any:
    return registered(TruncatesItself, 12)


@register_broken("limit-not-kept", "warning")
def limit_not_enforced() -> Any:
    env = Endless()
    env.spec = gym.envs.registration.EnvSpec("Checked-v0", max_episode_steps=12)
    return env


@register_broken("limit-in-info", "warning")
class OldTimeLimit(Line):
    """Reports a time limit as a termination with an entry in the info, as Gym did."""

    def is_terminated(self) -> Any:
        return super().is_terminated() or self.t >= 20

    def is_truncated(self) -> Any:
        return False

    def make_info(self) -> Any:
        return {"TimeLimit.truncated": True} if self.t >= 20 else {}


@register_broken("never-ends", "warning")
class NeverEnds(Endless):
    pass


@register_broken("restarts-itself", "warning")
class ReturnsResetObs(Line):
    """Returns the first observation of the next episode as the last of an episode."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.x = 0.0
        return self.observe(), {}

    def step(self, action: Any) -> Any:
        obs, *rest = super().step(action)
        return self.reset()[0] if rest[1] or rest[2] else obs, *rest
