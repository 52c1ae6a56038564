"""A training session in a run folder: logs, evaluations, checkpoints, and reasons to stop."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from rlox.errors import StorageError
from rlox.loggers import JsonLines, open_loggers, read_rows
from rlox.training.algorithm import Algorithm
from rlox.training.checkpoint import Checkpoint, CheckpointStore, checkpoint_bytes
from rlox.training.evaluate import Evaluation
from rlox.training.loop import Timings
from rlox.training.preflight import require_disk
from rlox.types import Clock, Progress, Update

__all__ = ["Outcome", "Session", "Snapshot"]

log = logging.getLogger("rlox.session")

RETRY_SECONDS = 0.5
METRICS, EPISODES = "metrics.jsonl", "episodes.jsonl"


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
    resumed : the checkpoint that the algorithm was restored from; log rows after it are cut off.
        Without one the session starts the folder's logs anew.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        folder: Path,
        progress: Callable[[Snapshot], None] | None = None,
        resumed: Checkpoint | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.config = algorithm.config
        self.folder = folder
        self._progress = progress
        self._signalled = False
        self._store = CheckpointStore(
            folder / "checkpoints", self.config.checkpoint.keep, resumed=resumed
        )
        self._logs = self._logs_of(resumed) if resumed else {}
        earlier = resumed.state.get("session", {}) if resumed else {}
        self._seconds_before = float(earlier.get("seconds", 0.0))
        algorithm.timings = Timings(**earlier.get("timings", {}))
        self._best = float("-inf")
        self._update = Update()
        self._row_at = -1
        self._owed = self._owed_best = False  # a save that the disk refused
        self._owed_since = 0.0
        # an evaluation during training that a signal cut short: the first thing to do on resuming
        self._evaluation_owed = bool(earlier.get("evaluation_owed", False))
        self._started = 0.0
        self._start_steps = algorithm.clock.env_steps

    def request_stop(self, reason: str) -> None:
        """Ask the session to save and end at the next tick; safe to call from a signal handler."""
        self._signalled = True
        self.algorithm.stop(reason)

    def run(self) -> Outcome:
        """Train, save, evaluate the final policy; the caller closes the algorithm."""
        self._started = time.perf_counter()
        require_disk(self.folder, 2 * checkpoint_bytes(self.algorithm.checkpoint()))
        patience = self.config.checkpoint.storage_timeout
        self._metrics = JsonLines(self.folder / METRICS, self._logs.get(METRICS, 0), patience)
        self._episodes = JsonLines(self.folder / EPISODES, self._logs.get(EPISODES, 0), patience)
        self._best = self._best_before()
        self._sinks = open_loggers(self.config.logger, self.folder, self._start_steps)
        try:
            self._train()
            checkpoint = self._save(wait=True)
            evaluation = None if self._signalled else self._evaluate()
            if evaluation is not None:
                best = bool(self.config.eval.every) and self._is_best(evaluation)
                checkpoint = self._save(best, wait=True)
            return self._outcome(evaluation, checkpoint)
        finally:
            self._metrics.close()
            self._episodes.close()
            for sink in self._sinks:
                sink.close()

    def _train(self) -> None:
        """Run the loop, unless a resumed run had only its evaluation left."""
        if self._evaluation_owed and not self._evaluated():
            self._judge(self._evaluate())
        reached = self.algorithm.clock.env_steps >= self.config.total_steps
        if self._signalled or reached or self.algorithm.stop_reason is not None:
            return
        self.algorithm.fit(hooks=(self._tick,))
        # A run that was stopped by a signal goes on later and logs what one never stopped would.
        if not self._signalled and self._row_at != self.algorithm.clock.env_steps:
            self._write(self._row())

    def _evaluated(self) -> bool:
        """Whether the log has the owed evaluation: killed after it, before the next checkpoint."""
        now, rows = self.algorithm.clock.env_steps, read_rows(self.folder / METRICS)
        return any("eval/return_mean" in row and row["env_steps"] == now for row in rows)

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
            self._judge(self._evaluate())
        if (passed(self.config.checkpoint.every) or self._owed) and not finished:
            self._save()
        minutes = self.config.stop.minutes
        if minutes is not None and self._seconds() >= 60 * minutes:
            self.algorithm.stop("minutes")
        if self._signalled:
            self.algorithm.stop("signal")
        if self._progress:
            self._progress(self._snapshot(clock))

    def _judge(self, evaluation: Evaluation | None) -> None:
        """Keep the best policy so far, and stop at the score that was asked for."""
        self._evaluation_owed = evaluation is None
        if evaluation is None:
            return
        if self._is_best(evaluation):
            self._save(best=True)
        score = self.config.stop.score
        if score is not None and evaluation.mean >= score:
            self.algorithm.stop("score")

    def _evaluate(self) -> Evaluation | None:
        """Evaluate and log; `None` when a signal came in between."""
        begun = time.perf_counter()
        settings = self.config.eval
        evaluation = self.algorithm.evaluate(
            settings.episodes, settings.seed, stopped=lambda: self._signalled
        )
        self.algorithm.timings.evaluate += time.perf_counter() - begun
        if self._signalled:
            return None
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
        if evaluation.mean <= self._best:
            return False
        self._best = evaluation.mean
        return True

    def _best_before(self) -> float:
        """The best evaluation of a run that is being resumed; `best` is made to point at it.

        A run that was killed between a save and moving the links has the row and not the link.
        """
        best, step = float("-inf"), 0
        for row in read_rows(self.folder / METRICS) if self.config.eval.every else ():
            mean = row.get("eval/return_mean")
            if mean is not None and mean > best:
                best, step = float(mean), int(row["env_steps"])
        self._store.link_best(step)
        return best

    def _logs_of(self, resumed: Checkpoint) -> dict[str, int]:
        """The log offsets to go on from.

        A run that was killed after its last save has its final evaluation in the log already, and
        will evaluate again: that row is cut off.
        """
        logs, path = dict(resumed.logs), self.folder / METRICS
        unfinished = self.algorithm.clock.env_steps < self.config.total_steps
        if unfinished or METRICS not in logs or not path.is_file():
            return logs
        for line in reversed(path.read_bytes()[: logs[METRICS]].splitlines(True)):
            if b'"eval/return_mean"' not in line:
                break
            logs[METRICS] -= len(line)
        return logs

    def _save(self, best: bool = False, wait: bool = False) -> Path | None:
        """Save, or owe it to the next tick while the disk refuses (`wait`: try until it does not)."""
        while True:
            try:
                return self._save_now(best or self._owed_best)
            except StorageError as error:
                self._owe(error, best)
            if not wait:
                return None
            time.sleep(RETRY_SECONDS)

    def _owe(self, error: StorageError, best: bool) -> None:
        now = time.monotonic()
        if not self._owed:
            self._owed_since = now
            log.warning("%s; trying again at every update", error)
        self._owed, self._owed_best = True, self._owed_best or best
        if now - self._owed_since >= self.config.checkpoint.storage_timeout:
            raise error

    def _save_now(self, best: bool) -> Path:
        for rows in (self._metrics, self._episodes):
            if not rows.flush():  # the checkpoint's log offsets must be on disk before it is
                raise StorageError(f"{rows.path} has rows that the disk has not taken yet")
            rows.sync()
        logs = {METRICS: self._metrics.offset, EPISODES: self._episodes.offset}
        session = {
            "seconds": self._seconds(),
            "timings": asdict(self.algorithm.timings),
            "evaluation_owed": self._evaluation_owed,
        }
        folder = self._store.save(self.algorithm.checkpoint(logs, session), best)
        self._owed = self._owed_best = False
        return folder

    def _write(self, row: dict[str, float | int | None]) -> None:
        self._metrics.write(row)
        for sink in self._sinks:
            sink.write(row)

    def _row(self) -> dict[str, float | int | None]:
        algorithm, seconds = self.algorithm, self._seconds()
        self._row_at = algorithm.clock.env_steps
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
        """Seconds of the run, earlier sessions included."""
        return self._seconds_before + time.perf_counter() - self._started

    def _speed(self) -> float:
        """Environment steps a second of this session."""
        seconds = max(time.perf_counter() - self._started, 1e-9)
        return (self.algorithm.clock.env_steps - self._start_steps) / seconds

    def _snapshot(self, clock: Clock) -> Snapshot:
        speed, total = self._speed(), self.config.total_steps
        left = max(total - clock.env_steps, 0) / speed if speed else float("inf")
        mean = self.algorithm.recent.mean_return
        return Snapshot(clock.env_steps, total, mean, speed, self._seconds(), left)

    def _outcome(self, evaluation: Evaluation | None, checkpoint: Path | None) -> Outcome:
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
            checkpoint=checkpoint or self.folder,
        )


@dataclass(frozen=True)
class _Passed:
    """Whether a tick from `before` to `after` passed a multiple of `every`; never for 0."""

    before: int
    after: int

    def __call__(self, every: int) -> bool:
        return every > 0 and self.after // every > self.before // every
