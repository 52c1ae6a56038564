"""The description of a broken environment, and the sound environment from which each differs in one thing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces

Env = gym.Env[Any, Any]
Factory = TypeVar("Factory", bound=Callable[..., Any])


@dataclass(frozen=True)
class BrokenEnv:
    """One fault, and the code of the only finding that a check must report."""

    code: str
    make: Callable[..., Any]
    severity: str = "error"
    is_instance: bool = False  # the check gets the instance itself, not its maker
    is_isolated: bool = False  # it ends its process


BROKEN: list[BrokenEnv] = []


def register_broken(code: str, severity: str = "error", **options: bool) -> Callable[[Factory], Factory]:
    """Return a decorator that lists a maker of environments that the check must report with `code`."""

    def register(make: Factory) -> Factory:
        BROKEN.append(BrokenEnv(code, make, severity, **options))
        return make

    return register


class Line(gym.Env[Any, Any]):
    """A sound walk on a line, of at most 20 steps."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        self.observation_space: Any = spaces.Box(-10, 10, (2,), np.float32)
        self.action_space: Any = spaces.Discrete(3)
        self.render_mode = render_mode
        self.x, self.t = 0.0, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.x, self.t = float(self.np_random.uniform(-1, 1)), 0
        return self.observe(), self.make_info()

    def step(self, action: Any) -> Any:
        self.t += 1
        self.x += 0.4 * self.action_force(action) + 0.1 * float(self.np_random.normal())
        return (
            self.observe(),
            self.compute_reward(),
            self.is_terminated(),
            self.is_truncated(),
            self.make_info(),
        )

    def render(self) -> Any:
        frame = np.zeros((8, 64, 3), np.uint8)
        frame[:, int(32 + 6 * np.clip(self.x, -5, 5))] = 255
        return frame

    def action_force(self, action: Any) -> float:
        return float(action) - 1

    def observe(self) -> Any:
        return np.array([self.x, self.t / 20], np.float32)

    def compute_reward(self) -> Any:
        return -abs(self.x)

    def is_terminated(self) -> Any:
        return abs(self.x) > 2

    def is_truncated(self) -> Any:
        return self.t >= 20

    def make_info(self) -> Any:
        return {}


class VectorLine(Line):
    """The same with a vector as action."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)

    def action_force(self, action: Any) -> float:
        return float(np.mean(action))
