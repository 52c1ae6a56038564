"""Episodes that do not begin or end as they should."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from .kinds import Line, broken


@broken("reset-keeps-state")
class WalksOn(Line):
    """The time goes on where the last episode left it."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        t = self.t
        super().reset(seed=seed)
        self.t = t % 20
        return self.seen(), {}


@broken("reset-refused")
class NoWayOut(Line):
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
    """Sound with a time limit around it: walks in a ring."""

    limit = 0

    def step(self, action: Any) -> Any:
        result = super().step(action)
        self.x = (self.x + 2) % 4 - 2
        return result

    def seen(self) -> Any:
        seen = super().seen()
        seen[1] = 0
        return seen

    def over(self) -> Any:
        return False

    def late(self) -> Any:
        return False


class CutsItself(Endless):
    """Sound where its limit is the one that it is registered with."""

    limit = 8

    def late(self) -> Any:
        return self.t >= self.limit


class TellsTerminated(Endless):
    def over(self) -> Any:
        return self.t >= 12


def registered(make: Any, steps: int) -> Any:
    """An environment as `gymnasium.make` gives it, with a time limit."""
    spec = gym.envs.registration.EnvSpec("Checked-v0", entry_point=make, max_episode_steps=steps)
    return gym.make(spec, disable_env_checker=True)


@broken("limit-terminates", "warning")
def limit_told_as_terminated() -> Any:
    return registered(TellsTerminated, 12)


@broken("limit-earlier", "warning")
def another_limit_inside() -> Any:
    return registered(CutsItself, 12)


@broken("limit-not-kept", "warning")
def limit_that_nobody_keeps() -> Any:
    env = Endless()
    env.spec = gym.envs.registration.EnvSpec("Checked-v0", max_episode_steps=12)
    return env


@broken("limit-in-info", "warning")
class OldTimeLimit(Line):
    """As Gym had it: a time limit is a termination with a word in the info."""

    def over(self) -> Any:
        return super().over() or self.t >= 20

    def late(self) -> Any:
        return False

    def told(self) -> Any:
        return {"TimeLimit.truncated": True} if self.t >= 20 else {}


@broken("never-ends", "warning")
class NeverEnds(Endless):
    pass


@broken("restarts-itself", "warning")
class BeginsAnew(Line):
    """The observation of an episode's last step is the first of the next one."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.x = 0.0
        return self.seen(), {}

    def step(self, action: Any) -> Any:
        seen, *rest = super().step(action)
        return self.reset()[0] if rest[1] or rest[2] else seen, *rest
