"""What is checked, how far, and how copies of it are made."""

from __future__ import annotations

import copy
import inspect
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from rlox.envs.check.algorithm_fit import algorithm_obstacles
from rlox.envs.check.findings import Report
from rlox.envs.check.masks import MaskLocation
from rlox.envs.check.side_effects import seed_global_generators
from rlox.envs.make import is_not_gym_env_error
from rlox.envs.seeding import SEED_LIMIT
from rlox.errors import ConfigError, EnvError
from rlox.importing import describe_error

__all__ = ["Limits", "Subject", "close_quietly", "takes_render_mode"]

Env = gym.Env[Any, Any]


@dataclass(frozen=True)
class Limits:
    """From where on numbers are told of."""

    slow_step: float = 1.0  # seconds of a step, their median
    huge_reward: float = 1e6
    large_observation: int = 2**20  # bytes
    endless: int = 1000  # steps without an end, where there is no time limit
    stage_seconds: float = 20.0  # what one part of the check spends on calls at most


def exceptions_of_env() -> tuple[type[BaseException], ...]:
    """What only an environment raises: KeyboardInterrupt too, where this process has no Ctrl-C."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return Exception, SystemExit, KeyboardInterrupt
    return Exception, SystemExit


@dataclass
class Subject:
    """An environment under examination.

    `maker` makes a fresh one, with a render mode or without; `instance` is one that was handed over, of
    which copies are made.
    """

    maker: Callable[[str | None], Any]
    report: Report
    steps: int
    seed: int
    limits: Limits
    mask_location: MaskLocation = field(default_factory=MaskLocation)
    is_run_config: bool = False  # as it is configured, with wrappers, and masks or none
    ignores_masks: bool = False  # the run keeps to no mask, should there be one
    instance: Env | None = None
    accepts_render_mode: bool = True  # whether the maker takes a render mode
    env_exceptions: tuple[type[BaseException], ...] = field(default_factory=exceptions_of_env)
    on_call: Callable[[str], None] = lambda call: None  # is told of each call before it is made
    is_shortened: bool = False  # after something was slow or large: few steps are enough
    is_uncopyable: bool = False  # no copies can be made of the instance
    observation_space: Any = None  # as it was at first
    action_space: Any = None
    n_frames: int = 1  # that an observation is a stack of
    steps_done: int = 0
    episodes_done: int = 0

    def make(self, render_mode: str | None = None) -> Any:
        """A fresh environment; what fails is a finding, after which there is nothing to check."""
        if self.is_uncopyable:
            return self.instance
        self.on_call("being made")
        seed_global_generators()
        try:
            return self.maker(render_mode)
        except ConfigError:  # of what was asked for, which is for whoever asked
            raise
        except self.env_exceptions as error:
            cause = error.__cause__ if isinstance(error, EnvError) and error.__cause__ else error
            if is_not_gym_env_error(cause):
                self.report.stop("no-environment", str(error))
            self.report.stop(
                "made-fails",
                f"it cannot be made: {describe_error(cause)}, expected an environment; call its class by "
                "hand with the same arguments and correct what fails",
            )

    def algorithm_obstacles(self, name: str, native: bool = False) -> dict[str, str]:
        """Of each algorithm why it does not take the spaces; empty text where it does."""
        return algorithm_obstacles(name, self.observation_space, self.action_space, self.n_frames, native)

    def seeds(self, n: int) -> list[int]:
        """Different seeds below 2^31, none of them 0."""
        return [1 + (self.seed + 1000 * i) % (SEED_LIMIT - 1) for i in range(n)]

    def length(self, steps: int) -> int:
        """How many steps a trial takes."""
        return min(steps, 3 if self.is_shortened else max(self.steps, 3))

    def actions(self, n: int, salt: int = 0) -> list[Any]:
        """Actions of the space, the same ones for the same salt."""
        space = copy.deepcopy(self.action_space)
        space.seed(self.seed + salt)
        return [space.sample() for _ in range(n)]


def takes_render_mode(make: Callable[..., Any]) -> bool:
    """Whether a callable that makes environments can be asked for a render mode."""
    with suppress(TypeError, ValueError):
        parameters = inspect.signature(make).parameters.values()
        return any(p.name == "render_mode" or p.kind is p.VAR_KEYWORD for p in parameters)
    return False


def close_quietly(env: Any) -> None:
    """Close what is not needed any more; whether that works is looked at elsewhere."""
    with suppress(*exceptions_of_env()):
        env.close()
