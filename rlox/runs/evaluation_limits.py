"""Limits of an evaluation, its early stop, and its progress reports."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rlox.configs import EvalConfig
from rlox.configs.check import check_integer
from rlox.errors import ConfigError
from rlox.sources.rollout import RolloutSource
from rlox.stopping import HEARTBEAT_SECONDS
from rlox.training.components import EvaluateFunction
from rlox.training.evaluate import Evaluator
from rlox.types import Clock

__all__ = ["EvaluationMonitor", "current_activity", "with_eval_limits"]


class EvaluationMonitor:
    """The `is_stopped` callback of an evaluation, called at every step.

    Parameters
    ----------
    should_stop : whether to end now
    report : called every few seconds with the elapsed seconds
    """

    def __init__(self, should_stop: Callable[[], bool], report: Callable[[float], None]) -> None:
        self._should_stop, self._report = should_stop, report
        self._start_time = self._last_report_time = time.monotonic()
        self.was_stopped = False

    def __call__(self) -> bool:
        """Return whether to end the evaluation now, before its last episode."""
        now = time.monotonic()
        if now - self._last_report_time >= HEARTBEAT_SECONDS:
            self._last_report_time = now
            self._report(now - self._start_time)
        self.was_stopped = self._should_stop()
        return self.was_stopped


def with_eval_limits(
    evaluate: EvaluateFunction | None, name: str, n_envs: int | None, max_steps: int | None
) -> EvaluateFunction:
    """Replace `eval.n_envs` and `eval.max_steps` of the evaluator of algorithm `name`.

    `None` keeps the run's value. Raises `ConfigError` without an environment, for numbers out of range, and
    for an algorithm that plays no episodes.
    """
    if evaluate is None:
        raise ConfigError(
            f"{name} was made without an environment; give it one: env=... (in Python env_id=...)"
        )
    limits: dict[str, Any] = {
        field: check_integer(EvalConfig, field, value, field)
        for field, value in (("n_envs", n_envs), ("max_steps", max_steps))
        if value is not None
    }
    if not limits:
        return evaluate
    if not isinstance(evaluate, Evaluator):
        field, value = next(iter(limits.items()))
        raise ConfigError(f"{field}={value}: {name} writes text; leave it out")
    return replace(evaluate, settings=replace(evaluate.settings, **limits))


def current_activity(source: Any, clock: Clock, batch: int) -> str:
    """Describe what the run does now: how far a rollout of `batch` steps is, or that it learns from one."""
    if not isinstance(source, RolloutSource):
        return "working"
    steps_done = source.collector.env_steps - clock.env_steps
    return f"rollout {steps_done:,} of {batch:,}" if steps_done < batch else "learning"
