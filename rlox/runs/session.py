"""A training session in a run folder: logs, evaluations, checkpoints, and reasons to stop."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from safetensors import SafetensorError
from safetensors.numpy import save_file

from rlox.errors import NonFiniteError, StorageError
from rlox.loggers import Delivery, read_rows
from rlox.runs.algorithm import Algorithm
from rlox.runs.checkpoint import REPLAY, Checkpoint, checkpoint_bytes
from rlox.runs.checkpoint_store import CheckpointStore, replay_name
from rlox.runs.evaluating import Evaluating, between_updates
from rlox.runs.journal import METRICS, Journal, best_evaluation, keep_films, offsets_of
from rlox.runs.means import Means, Passed
from rlox.runs.outcome import Outcome
from rlox.runs.preflight import require_disk
from rlox.runs.progress import Snapshot, word
from rlox.runs.saver import Saver
from rlox.sources.store import Nowhere, Segments
from rlox.stopping import Abandoned, Patience
from rlox.training.evaluate import Evaluation, Evaluator
from rlox.training.loop import Timings
from rlox.types import Clock, Progress, Update

__all__ = ["Outcome", "Session", "Snapshot"]

log = logging.getLogger("rlox.session")

PRUNED = "pruned"  # the reason of a run that was stopped for being worse than others
STOPPED = "stopped before the final evaluation"  # why a run has no score
# What the last evaluation may take once `stop.minutes` are over: a part of them, at least so many seconds.
GRACE, LEAST_GRACE = 0.1, 10.0
NONFINITE = "nonfinite_batch.safetensors"  # written when a non-finite number stops the run


class Session:
    """Runs an algorithm to its end and leaves everything in `folder`.

    Parameters
    ----------
    algorithm : as built from its config
    folder : an existing run folder
    progress : called with a `Snapshot` at every tick, and every few seconds of a long evaluation, rollout
        or update
    evaluated : called with each evaluation on the way, and whether it is the best until then
    resumed : the checkpoint that the algorithm was restored from; log rows after it are cut off.
        Without one the session starts the folder's logs anew.
    prune : called with the step and the mean return of each evaluation on the way, those of earlier sessions
        again; true ends the run. It is not asked about returns that are not finite
    delivers : without it the loggers go on when the run has ended: the caller has files to write that
        they are to send, and calls `deliver()` then
    """

    def __init__(
        self,
        algorithm: Algorithm,
        folder: Path,
        progress: Callable[[Snapshot], None] | None = None,
        resumed: Checkpoint | None = None,
        prune: Callable[[int, float], bool] | None = None,
        delivers: bool = True,
        evaluated: Callable[[Evaluation, bool], None] | None = None,
    ) -> None:
        self._delivers = delivers
        self.algorithm = algorithm
        self.config = algorithm.config
        self.folder = folder
        self._progress = progress
        self._prune, self._told = prune, evaluated
        self._signalled = False
        self._resumed = resumed
        earlier = resumed.state.get("session", {}) if resumed else {}
        self._seconds_before = float(earlier.get("seconds", 0.0))
        algorithm.timings = Timings(**earlier.get("timings", {}))
        self._best = float("-inf")
        self._means = Means()
        if "means" in earlier:
            self._means.restore(earlier["means"])
        self._row_at = (-1, -1)  # where the last row stands: step of the unit, update
        self._before = algorithm.clock.now  # at the tick before
        # an evaluation during training that a signal cut short: the first thing to do on resuming
        self._evaluation_owed = bool(earlier.get("evaluation_owed", False))
        self._started = 0.0
        self._start = algorithm.clock
        self._patience = Patience(self._alive)
        self._unscored = ""  # why the last evaluation came to nothing

    def request_stop(self, reason: str) -> None:
        """Ask the session to save and end at the next tick, or, where that is more than a moment away, to
        end without a save; safe to call from a signal handler.
        """
        self._signalled = True
        self._patience.ask()
        self.algorithm.stop(reason)

    @property
    def deliveries(self) -> dict[str, Delivery]:
        """What came of each logger, once the session has run."""
        return self._journal.deliveries

    def run(self) -> Outcome:
        """Train, save, evaluate the final policy; the caller closes the algorithm."""
        self._started = time.perf_counter()
        alone = checkpoint_bytes(self.algorithm.checkpoint(store=Nowhere()))
        require_disk(self.folder, 2 * alone + self.algorithm.source.stored_bytes)
        if isinstance(self.algorithm.parts.evaluate, Evaluator):
            self.algorithm.parts.evaluate.require_room()
        self._open()
        try:
            with self._patience.kept():
                self._train()
            checkpoint = self._save(wait=True)
            evaluation = self._final()
            if evaluation is not None:
                best = bool(self.config.eval.every) and self._is_best(evaluation)
                checkpoint = self._save(best, wait=True)
            full = "while the disk took no checkpoint" if checkpoint is None else ""
            return self._outcome(evaluation, checkpoint, full)
        except Abandoned:
            return self._outcome(None, None, "in the middle of an update or a rollout")
        except NonFiniteError:
            with suppress(OSError, SafetensorError):  # a help to whoever looks for the cause
                save_file(self.algorithm.source.last_batch(), self.folder / NONFINITE)
            raise
        finally:
            failed = sys.exc_info()[0] is not None
            self._close(failed, self._delivers or failed)

    def deliver(self) -> dict[str, Delivery]:
        """Have the loggers send what the folder has by now; what came of each."""
        self._journal.deliver()
        return self._journal.deliveries

    def _close(self, failed: bool, deliver: bool) -> None:
        """Close the logs; what ended the run is not replaced by a disk that has no room for rows."""
        try:
            self._journal.close(deliver, self._patience.over)
        except StorageError as error:
            if not failed:
                raise
            log.warning("%s", error)

    def _open(self) -> None:
        """Cut the logs back to the checkpoint, and put right what a kill left half done."""
        resumed, settings = self._resumed, self.config.checkpoint
        finished = not self._start.left
        offsets = offsets_of(self.folder, resumed, finished) if resumed else {}
        self._journal = Journal(self.folder, self.config, offsets)
        try:
            store = CheckpointStore(
                self.folder / "checkpoints", settings.keep, resumed=resumed, unit=self._start.unit
            )
            wait = (settings.storage_timeout, self._patience.over)
            self._saver = Saver(store, self._journal, *wait)
            if self.config.eval.every:
                # a run that was killed between a save and moving the links has the row and not the link
                self._best, step = best_evaluation(self.folder, self._start.unit)
                store.link_best(step)
        except BaseException:
            self._close(failed=True, deliver=True)
            raise

    def _train(self) -> None:
        """Run the loop, unless a resumed run had only its evaluation left."""
        self._prune_again()
        if self._evaluation_owed and not self._pruned:
            mean = self._evaluated()
            if mean is None:
                self._judge(self._evaluate())
            else:
                self._evaluation_owed = False
                self._stop_at(mean)
        if (
            self._signalled
            or not self.algorithm.clock.left
            or self.algorithm.stop_reason is not None
        ):
            return
        self.algorithm.fit(hooks=(self._tick,))
        self._last_row()

    def _evaluated(self) -> float | None:
        """The owed evaluation that the log has: killed after it, before the next checkpoint."""
        means = [mean for step, mean in self._evaluations() if step == self.algorithm.clock.now]
        return means[-1] if means else None

    def _evaluations(self) -> list[tuple[int, float]]:
        """Step and mean return of the evaluations in the log; NaN where a return was not finite."""
        unit, rows = self.algorithm.clock.unit, read_rows(self.folder / METRICS)
        means = [(row[unit], row["eval/return_mean"]) for row in rows if "eval/return_mean" in row]
        return [(int(at), math.nan if mean is None else float(mean)) for at, mean in means]

    def _prune_again(self) -> None:
        """What was thought of each evaluation before: the session may have ended before it was done."""
        known = self._evaluations() if self._prune and self.algorithm.clock.left else []
        if any(self._prunes(step, mean) for step, mean in known):
            self.algorithm.stop(PRUNED)

    def _prunes(self, step: int, mean: float) -> bool:
        """Whether an evaluation ends the run as worse than others, with which NaN cannot be compared."""
        return self._prune is not None and math.isfinite(mean) and self._prune(step, mean)

    @property
    def _pruned(self) -> bool:
        return self.algorithm.stop_reason == PRUNED

    def _tick(self, clock: Clock, progress: Progress, update: Update) -> None:
        self._means.add(update.metrics)
        self._journal.write_episodes(progress.episodes)
        keep_films(self.folder, progress.episodes)
        passed, finished = Passed(self._before, clock.now), not clock.left
        self._before = clock.now
        if self._seconds() >= self._limit:
            self.algorithm.stop("minutes")
        if passed(self.config.log.every) or finished:
            self._journal.write(self._row())
        self._last_row()
        if passed(self.config.eval.every) and not finished:
            self._judge(self._evaluate())
        if (passed(self.config.checkpoint.every) or self._saver.due) and not finished:
            self._save()
        if self._signalled:
            self.algorithm.stop("signal")
        self._patience.signed()
        if self._progress:
            self._progress(self._snapshot(clock))

    def _last_row(self) -> None:
        """The row of a run that ends here, before the checkpoint that holds what no row has yet.

        A run that was stopped by a signal goes on later and logs what one never stopped would.
        """
        ends = self.algorithm.stop_reason is not None and not self._signalled
        clock = self.algorithm.clock
        if ends and self._row_at != (clock.now, clock.updates):
            self._journal.write(self._row())

    def _judge(self, evaluation: Evaluation | None) -> None:
        """Keep the best policy so far, and stop at the score that was asked for."""
        if evaluation is None:
            self._evaluation_owed = self._signalled
            return
        self._evaluation_owed = False
        self._stop_at(evaluation.mean)
        self._last_row()
        best = self._is_best(evaluation)
        if self._told:
            self._told(evaluation, best)
        if best:
            self._save(best=True)

    def _stop_at(self, mean: float) -> None:
        score = self.config.stop.score
        if score is not None and math.isfinite(mean) and mean >= score:
            self.algorithm.stop("score")
        elif self._prunes(self.algorithm.clock.now, mean):
            self.algorithm.stop(PRUNED)

    @property
    def _limit(self) -> float:
        """The seconds that the run may take."""
        minutes = self.config.stop.minutes
        return math.inf if minutes is None else 60 * minutes

    def _final(self) -> Evaluation | None:
        """Evaluate the policy that the run ends with, unless it goes on later, or nobody wants to know."""
        if self._signalled or self._pruned:
            self._unscored = STOPPED
            return None
        grace = max(GRACE * self._limit, LEAST_GRACE)
        return self._evaluate(max(self._limit, self._seconds()) + grace)

    def _evaluate(self, until: float | None = None) -> Evaluation | None:
        """Evaluate and log; `None` when a signal came in between, where there is no environment, and where
        it was not over after `until` seconds of the run (`stop.minutes`).
        """
        if self.algorithm.parts.evaluate is None:
            self._unscored = "there is no environment to play in"
            return None
        begun, clock = time.perf_counter(), self.algorithm.clock
        settings, most = self.config.eval, self._limit if until is None else until
        way = Evaluating(lambda: self._signalled or self._seconds() >= most, self._sign)
        try:
            evaluation = self.algorithm.evaluate(settings.episodes, settings.seed, stopped=way)
        except Exception as error:
            error.add_note(f"in the evaluation at {word(clock.unit)} {clock.now}")
            raise
        self.algorithm.timings.evaluate += time.perf_counter() - begun
        if way.broken_off or self._signalled:
            if not self._signalled and clock.left:
                self.algorithm.stop("minutes")
            by = "stopped" if self._signalled else "stop.minutes were over"
            self._unscored = f"{by} within the final evaluation"
            return None
        if evaluation.flaw:
            log.warning(
                "in the evaluation at %s %d %s", word(clock.unit), clock.now, evaluation.flaw
            )
        self._journal.write({**self._position(), "seconds": self._seconds(), **evaluation.row()})
        self._journal.write_samples(evaluation.samples, self._position())
        return evaluation

    def _sign(self, evaluating: float) -> None:
        """Show that an evaluation goes on, and for how many seconds by now."""
        if self._progress:
            self._progress(replace(self._snapshot(self.algorithm.clock), evaluating=evaluating))

    def _alive(self) -> None:
        """Show that a rollout or an update goes on, and how far the rollout is."""
        if self._progress:
            clock = self.algorithm.clock
            words = between_updates(self.algorithm.source, clock, self.config.quantum)
            self._progress(replace(self._snapshot(clock), under_way=words))

    def _is_best(self, evaluation: Evaluation) -> bool:
        if not (math.isfinite(evaluation.mean) and evaluation.mean > self._best):
            return False
        self._best = evaluation.mean
        return True

    def _save(self, best: bool = False, wait: bool = False) -> Path | None:
        with Patience().kept():  # a save is finished, however long ago the run was asked to stop
            return self._saver.save(self._checkpoint, best, wait)

    def _checkpoint(self, logs: dict[str, int], rows: bool) -> Checkpoint:
        clock = self.algorithm.clock
        session = {
            "seconds": self._seconds(),
            "timings": asdict(self.algorithm.timings),
            "means": self._means.state(),
            "evaluation_owed": self._evaluation_owed,
        }
        store = Segments(self.folder / REPLAY, replay_name(clock)) if rows else Nowhere()
        return self.algorithm.checkpoint(logs, session, store)

    def _row(self) -> dict[str, float | int | None]:
        algorithm, seconds = self.algorithm, self._seconds()
        rate = algorithm.recent.success_rate
        self._row_at = (algorithm.clock.now, algorithm.clock.updates)
        return {
            **self._position(),
            "seconds": seconds,
            "train/return_mean": algorithm.recent.mean_return,
            "train/length_mean": algorithm.recent.mean_length,
            "train/episodes": algorithm.recent.count,
            **({} if rate is None else {"train/success_rate": rate}),
            **algorithm.recent.failures,
            **self._means.row(),
            "time/steps_per_second": self._speed(),
        }

    def _position(self) -> dict[str, int]:
        """Where a row of the log stands; the samples only where the run counts them."""
        clock = self.algorithm.clock
        names = ("env_steps", "updates", *({clock.unit} - {"env_steps", "updates"}))
        return {name: clock.counters[name] for name in names}

    def _seconds(self) -> float:
        """Seconds of the run, earlier sessions included."""
        return self._seconds_before + time.perf_counter() - self._started

    def _speed(self) -> float:
        """Steps a second, in the run's unit, since it was started or resumed."""
        seconds = max(time.perf_counter() - self._started, 1e-9)
        return (self.algorithm.clock.now - self._start.now) / seconds

    def _snapshot(self, clock: Clock) -> Snapshot:
        mean = self.algorithm.recent.mean_return
        return Snapshot.of(clock, mean, self._speed(), self._seconds())

    def _outcome(
        self, evaluation: Evaluation | None, checkpoint: Path | None, abandoned: str
    ) -> Outcome:
        timings = self.algorithm.timings
        return Outcome(
            reason="signal" if self._signalled else self.algorithm.stop_reason or "total_steps",
            clock=self.algorithm.clock,
            evaluation=evaluation,
            unscored="" if evaluation is not None else self._unscored or STOPPED,
            train_return_last100=self.algorithm.recent.mean_return,
            seconds={
                "total": self._seconds(),
                "collect": timings.collect,
                "update": timings.update,
                "evaluate": timings.evaluate,
            },
            checkpoint=checkpoint or self.folder,
            abandoned=abandoned,
        )
