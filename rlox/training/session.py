"""A training session in a run folder: logs, evaluations, checkpoints, and reasons to stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rlox.loggers import JsonLines, open_loggers, read_rows
from rlox.training.algorithm import Algorithm
from rlox.training.checkpoint import CheckpointStore
from rlox.training.evaluate import Evaluation
from rlox.types import Clock, Progress, Update

__all__ = ["Outcome", "Session", "Snapshot"]


@dataclass(frozen=True)
class Snapshot:
    """How far a session is, for a progress display."""

    env_steps: int
    total_steps: int
    return_mean: float | None
    steps_per_second: float
    seconds: float
    seconds_left: float


@dataclass(frozen=True)
class Outcome:
    """How a session ended."""

    reason: str  # total_steps, score, minutes, callback, signal
    clock: Clock
    evaluation: Evaluation | None  # of the final policy; None when a signal stopped the run
    train_return_last100: float | None
    seconds: dict[str, float]  # total, collect, update, evaluate
    checkpoint: Path


class Session:
    """Runs an algorithm to its end and leaves everything in `folder`.

    Parameters
    ----------
    algorithm : as built from its config
    folder : an existing run folder
    progress : called with a `Snapshot` at every tick
    """

    def __init__(
        self,
        algorithm: Algorithm,
        folder: Path,
        progress: Callable[[Snapshot], None] | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.config = algorithm.config
        self.folder = folder
        self._progress = progress
        self._signalled = False
        self._store = CheckpointStore(folder / "checkpoints", self.config.checkpoint.keep)
        self._best = self._best_before()
        self._update = Update()
        self._saved: Path | None = None
        self._started = 0.0
        self._start_steps = algorithm.clock.env_steps

    def request_stop(self, reason: str) -> None:
        """Ask the session to save and end at the next tick; safe to call from a signal handler."""
        self._signalled = True
        self.algorithm.stop(reason)

    def run(self) -> Outcome:
        """Train, save, evaluate the final policy; the caller closes the algorithm."""
        self._started = time.perf_counter()
        self._metrics = JsonLines(self.folder / "metrics.jsonl")
        self._episodes = JsonLines(self.folder / "episodes.jsonl")
        self._sinks = open_loggers(self.config.logger, self.folder)
        try:
            if not self._signalled:
                self.algorithm.fit(hooks=(self._tick,))
            checkpoint = self._save()
            evaluation = None if self._signalled else self._evaluate(final=True)
            if evaluation is not None and self.config.eval.every:
                self._save(best=self._is_best(evaluation))
            return self._outcome(evaluation, checkpoint)
        finally:
            self._metrics.close()
            self._episodes.close()
            for sink in self._sinks:
                sink.close()

    def _tick(self, clock: Clock, progress: Progress, update: Update) -> None:
        self._update = update
        for e in progress.episodes:
            self._episodes.write(
                {
                    "env_steps": e.env_steps,
                    "env": e.env,
                    "return": e.total_reward,
                    "length": e.length,
                }
            )
        passed = _Passed(clock.env_steps - progress.env_steps, clock.env_steps)
        finished = clock.env_steps >= self.config.total_steps
        if passed(self.config.log.every) or finished:
            self._write(self._row())
        if passed(self.config.eval.every) and not finished:
            evaluation = self._evaluate()
            if self._is_best(evaluation):
                self._save(best=True)
            score = self.config.stop.score
            if score is not None and evaluation.mean >= score:
                self.algorithm.stop("score")
        if passed(self.config.checkpoint.every) and not finished:
            self._save()
        minutes = self.config.stop.minutes
        if minutes is not None and self._seconds() >= 60 * minutes:
            self.algorithm.stop("minutes")
        if self._signalled:
            self.algorithm.stop("signal")
        if self._progress:
            self._progress(self._snapshot(clock))

    def _evaluate(self, final: bool = False) -> Evaluation:
        begun = time.perf_counter()
        settings = self.config.eval
        evaluation = self.algorithm.evaluate(
            settings.episodes, settings.seed, stopped=lambda: self._signalled and not final
        )
        self.algorithm.timings.evaluate += time.perf_counter() - begun
        if not self._signalled or final:
            self._write(
                {
                    "env_steps": self.algorithm.clock.env_steps,
                    "updates": self.algorithm.clock.updates,
                    "seconds": self._seconds(),
                    "eval/return_mean": evaluation.mean,
                    "eval/return_iqm": evaluation.iqm,
                    "eval/return_std": evaluation.std,
                    "eval/episodes": len(evaluation.returns),
                }
            )
        return evaluation

    def _is_best(self, evaluation: Evaluation) -> bool:
        if self._signalled or evaluation.mean <= self._best:
            return False
        self._best = evaluation.mean
        return True

    def _best_before(self) -> float:
        """The best evaluation of a run that is being resumed."""
        if not (self.folder / "checkpoints" / "best").exists():
            return float("-inf")
        means = [row.get("eval/return_mean") for row in read_rows(self.folder / "metrics.jsonl")]
        return max((float(m) for m in means if m is not None), default=float("-inf"))

    def _save(self, best: bool = False) -> Path:
        logs = {"metrics.jsonl": self._metrics.offset, "episodes.jsonl": self._episodes.offset}
        return self._store.save(self.algorithm.checkpoint(logs), best)

    def _write(self, row: dict[str, float | int | None]) -> None:
        self._metrics.write(row)
        for sink in self._sinks:
            sink.write(row)

    def _row(self) -> dict[str, float | int | None]:
        algorithm, seconds = self.algorithm, self._seconds()
        return {
            "env_steps": algorithm.clock.env_steps,
            "updates": algorithm.clock.updates,
            "seconds": seconds,
            "train/return_mean": algorithm.recent.mean_return,
            "train/length_mean": algorithm.recent.mean_length,
            "train/episodes": algorithm.recent.count,
            **self._update.metrics,
            "time/steps_per_second": self._speed(),
        }

    def _seconds(self) -> float:
        return time.perf_counter() - self._started

    def _speed(self) -> float:
        """Environment steps a second of this session."""
        return (self.algorithm.clock.env_steps - self._start_steps) / max(self._seconds(), 1e-9)

    def _snapshot(self, clock: Clock) -> Snapshot:
        speed, total = self._speed(), self.config.total_steps
        left = max(total - clock.env_steps, 0) / speed if speed else float("inf")
        mean = self.algorithm.recent.mean_return
        return Snapshot(clock.env_steps, total, mean, speed, self._seconds(), left)

    def _outcome(self, evaluation: Evaluation | None, checkpoint: Path) -> Outcome:
        timings = self.algorithm.timings
        return Outcome(
            reason="signal" if self._signalled else self.algorithm.stop_reason or "total_steps",
            clock=self.algorithm.clock,
            evaluation=evaluation,
            train_return_last100=self.algorithm.recent.mean_return,
            seconds={
                "total": self._seconds(),
                "collect": timings.collect,
                "update": timings.update,
                "evaluate": timings.evaluate,
            },
            checkpoint=checkpoint,
        )


@dataclass(frozen=True)
class _Passed:
    """Whether a tick from `before` to `after` passed a multiple of `every`; never for 0."""

    before: int
    after: int

    def __call__(self, every: int) -> bool:
        return every > 0 and self.after // every > self.before // every
