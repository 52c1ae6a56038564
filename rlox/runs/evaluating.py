"""An evaluation: its limits, whether it is to end now, and signs of life of a long one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rlox.configs import EvalConfig
from rlox.configs.check import whole_number
from rlox.errors import ConfigError
from rlox.sources.rollout import RolloutSource
from rlox.stopping import SIGN_SECONDS
from rlox.training.evaluate import Evaluator
from rlox.training.parts import Evaluate
from rlox.types import Clock

__all__ = ["Evaluating", "between_updates", "limited"]


class Evaluating:
    """The `stopped` of an evaluation, which asks at every step.

    Parameters
    ----------
    stop : whether to end now
    tell : called every few seconds with the seconds that it has taken
    """

    def __init__(self, stop: Callable[[], bool], tell: Callable[[float], None]) -> None:
        self._stop, self._tell = stop, tell
        self._begun = self._told = time.monotonic()
        self.broken_off = False

    def __call__(self) -> bool:
        """Whether to end; it has ended before its last episode then."""
        now = time.monotonic()
        if now - self._told >= SIGN_SECONDS:
            self._told = now
            self._tell(now - self._begun)
        self.broken_off = self._stop()
        return self.broken_off


def limited(
    evaluate: Evaluate | None, name: str, n_envs: int | None, max_steps: int | None
) -> Evaluate:
    """What evaluates the algorithm `name`, with these in place of the run's `eval.n_envs`, `eval.max_steps`.

    `None` leaves what the run has. `ConfigError` without an environment, for numbers out of their range, and
    for an algorithm that plays no episodes.
    """
    if evaluate is None:
        raise ConfigError(
            f"{name} was made without an environment; give it one: env=... (in Python env_id=...)"
        )
    given: dict[str, Any] = {
        field: whole_number(EvalConfig, field, value, field)
        for field, value in (("n_envs", n_envs), ("max_steps", max_steps))
        if value is not None
    }
    if not given:
        return evaluate
    if not isinstance(evaluate, Evaluator):
        field, value = next(iter(given.items()))
        raise ConfigError(f"{field}={value}: {name} writes text; leave it out")
    return replace(evaluate, settings=replace(evaluate.settings, **given))


def between_updates(source: Any, clock: Clock, batch: int) -> str:
    """What is under way, in words: how much of a rollout of `batch` steps, or learning from it."""
    if not isinstance(source, RolloutSource):
        return "working"
    done = source.collector.env_steps - clock.env_steps
    return f"rollout {done:,} of {batch:,}" if done < batch else "learning"
