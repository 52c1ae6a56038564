"""The environment under check, the limits of the check, and how copies are made."""

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
from rlox.errors import ConfigError, EnvError, describe_error

__all__ = ["Limits", "Subject", "close_quietly", "takes_render_mode"]

Env = gym.Env[Any, Any]


@dataclass(frozen=True)
class Limits:
    """Thresholds above which the check reports a number, and its time limit."""

    slow_step: float = 1.0  # seconds per step, median
    huge_reward: float = 1e6
    large_observation: int = 2**20  # bytes
    endless: int = 1000  # steps without an end, if there is no time limit
    stage_seconds: float = 20.0  # maximum time that one part of the check spends on calls


def exceptions_of_env() -> tuple[type[BaseException], ...]:
    """Return the exceptions that count as the environment's: KeyboardInterrupt only if Ctrl-C is ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return Exception, SystemExit, KeyboardInterrupt
    return Exception, SystemExit


@dataclass
class Subject:
    """An environment under check.

    `maker` makes a new one, with or without a render mode; `instance` is one that the user passed, which is
    copied.
    """

    maker: Callable[[str | None], Any]
    report: Report
    steps: int
    seed: int
    limits: Limits
    mask_location: MaskLocation = field(default_factory=MaskLocation)
    is_run_config: bool = False  # whether it is checked as configured, with wrappers and masks
    ignores_masks: bool = False  # whether the run ignores masks, if there are any
    instance: Env | None = None
    accepts_render_mode: bool = True  # whether the maker takes a render mode
    env_exceptions: tuple[type[BaseException], ...] = field(default_factory=exceptions_of_env)
    on_call: Callable[[str], None] = lambda call: None  # told each call of the environment beforehand
    is_shortened: bool = False  # set for slow steps or large observations; then fewer steps are taken
    is_uncopyable: bool = False  # whether the instance cannot be copied
    observation_space: Any = None  # as it was before any step
    action_space: Any = None
    n_frames: int = 1  # stacked in an observation
    steps_done: int = 0
    episodes_done: int = 0

    def make(self, render_mode: str | None = None) -> Any:
        """Make a new environment; a failure is reported and ends the check.

        An instance that cannot be copied is returned itself.
        """
        if self.is_uncopyable:
            return self.instance
        self.on_call("being made")
        seed_global_generators()
        try:
            return self.maker(render_mode)
        except ConfigError:  # an error in the user's request
            raise
        except self.env_exceptions as error:
            cause = error.__cause__ if isinstance(error, EnvError) and error.__cause__ else error
            if is_not_gym_env_error(cause):
                self.report.stop("no-environment", str(error))
            self.report.stop(
                "made-fails",
                f"it cannot be made: {describe_error(cause)}, expected an environment; create it by "
                "hand with the same arguments and correct what fails",
            )

    def algorithm_obstacles(self, name: str, native: bool = False) -> dict[str, str]:
        """Return for each algorithm why it does not accept the spaces; empty text if it does."""
        return algorithm_obstacles(name, self.observation_space, self.action_space, self.n_frames, native)

    def seeds(self, n: int) -> list[int]:
        """Return different seeds below 2^31, without 0."""
        return [1 + (self.seed + 1000 * i) % (SEED_LIMIT - 1) for i in range(n)]

    def limited_steps(self, steps: int) -> int:
        """Return `steps`, or a lower number if the check has fewer steps or was shortened."""
        return min(steps, 3 if self.is_shortened else max(self.steps, 3))

    def actions(self, n: int, salt: int = 0) -> list[Any]:
        """Return actions of the space, the same for the same salt."""
        space = copy.deepcopy(self.action_space)
        space.seed(self.seed + salt)
        return [space.sample() for _ in range(n)]


def takes_render_mode(make: Callable[..., Any]) -> bool:
    """Tell whether a callable that makes environments accepts a render mode."""
    with suppress(TypeError, ValueError):
        parameters = inspect.signature(make).parameters.values()
        return any(p.name == "render_mode" or p.kind is p.VAR_KEYWORD for p in parameters)
    return False


def close_quietly(env: Any) -> None:
    """Close an environment; errors are ignored here, as `check_closing` reports them."""
    with suppress(*exceptions_of_env()):
        env.close()
