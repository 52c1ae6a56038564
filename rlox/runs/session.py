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
from rlox.runs.evaluation_limits import EvaluationMonitor, current_activity
from rlox.runs.journal import METRICS, Journal, best_evaluation, resume_offsets, row_position, save_videos
from rlox.runs.metric_means import DueCheck, MetricMeans
from rlox.runs.outcome import Outcome
from rlox.runs.preflight import require_disk
from rlox.runs.progress import ProgressSnapshot, unit_label
from rlox.runs.saver import Saver
from rlox.sources.store import NullStore, SegmentStore
from rlox.stopping import StopDeadline, StopRequested
from rlox.training.evaluate import Evaluation, Evaluator
from rlox.training.loop import Timings
from rlox.types import Clock, Progress, Update

__all__ = ["Outcome", "ProgressSnapshot", "Session"]

log = logging.getLogger("rlox.session")

PRUNED = "pruned"  # stop reason of a run that was worse than others
STOPPED_EARLY = "stopped before the final evaluation"  # why a run has no score
# How long the final evaluation may go on after `stop.minutes`: a fraction of that time, at least 10 seconds.
GRACE_FRACTION, MIN_GRACE_SECONDS = 0.1, 10.0
NONFINITE_FILE = "nonfinite_batch.safetensors"  # written when a non-finite number stops the run


class Session:
    """Runs an algorithm to its end and writes everything into `run_dir`.

    Parameters
    ----------
    algorithm : as built from its config
    run_dir : an existing run folder
    on_progress : called with a `ProgressSnapshot` at every tick, and every few seconds during a long
        evaluation, rollout or update
    on_evaluation : called with each evaluation during training, and whether it is the best so far
    resume_checkpoint : the checkpoint that the algorithm was restored from; log rows after it are cut off.
        Without a checkpoint the session starts the folder's logs anew
    should_prune : called with the step and the mean return of each evaluation during training, also those of
        earlier sessions; true ends the run. Not called for non-finite returns
    deliver_at_end : if false, the loggers continue after the run: the caller writes more files for them to
        send, then calls `deliver()`
    """

    def __init__(
        self,
        algorithm: Algorithm,
        run_dir: Path,
        on_progress: Callable[[ProgressSnapshot], None] | None = None,
        resume_checkpoint: Checkpoint | None = None,
        should_prune: Callable[[int, float], bool] | None = None,
        deliver_at_end: bool = True,
        on_evaluation: Callable[[Evaluation, bool], None] | None = None,
    ) -> None:
        self._deliver_at_end = deliver_at_end
        self.algorithm = algorithm
        self.config = algorithm.config
        self.run_dir = run_dir
        self._on_progress = on_progress
        self._should_prune, self._on_evaluation = should_prune, on_evaluation
        self._is_stop_requested = False
        self._resume_checkpoint = resume_checkpoint
        earlier_state = resume_checkpoint.state.get("session", {}) if resume_checkpoint else {}
        self._seconds_before = float(earlier_state.get("seconds", 0.0))
        algorithm.timings = Timings(**earlier_state.get("timings", {}))
        self._best_return = float("-inf")
        self._metric_means = MetricMeans()
        if "means" in earlier_state:
            self._metric_means.restore(earlier_state["means"])
        self._last_row_clock = (-1, -1)  # `(clock.now, clock.updates)` of the last row
        self._previous_step = algorithm.clock.now  # at the previous tick
        # whether a signal cut short an evaluation during training; a resumed run repeats it first
        self._evaluation_owed = bool(earlier_state.get("evaluation_owed", False))
        self._start_time = 0.0
        self._start_clock = algorithm.clock
        self._stop_deadline = StopDeadline(self._report_activity)
        self._no_score_reason = ""  # why there is no final score

    def request_stop(self, reason: str) -> None:
        """Save and end at the next tick; if that takes longer than a grace period, end without a save.

        Safe to call from a signal handler.
        """
        self._is_stop_requested = True
        self._stop_deadline.start()
        self.algorithm.stop(reason)

    @property
    def deliveries(self) -> dict[str, Delivery]:
        """What each logger had received when the session ended."""
        return self._journal.deliveries

    def run(self) -> Outcome:
        """Train, save and evaluate the final policy; the caller closes the algorithm."""
        self._start_time = time.perf_counter()
        checkpoint_size = checkpoint_bytes(self.algorithm.checkpoint(store=NullStore()))
        require_disk(self.run_dir, 2 * checkpoint_size + self.algorithm.source.stored_bytes)
        if isinstance(self.algorithm.components.evaluate, Evaluator):
            self.algorithm.components.evaluate.require_envs_fit()
        self._open()
        try:
            with self._stop_deadline.active():
                self._train()
            checkpoint = self._save_checkpoint(wait=True)
            evaluation = self._final_evaluation()
            if evaluation is not None:
                best = bool(self.config.eval.every) and self._is_best(evaluation)
                checkpoint = self._save_checkpoint(best, wait=True)
            abandoned_during = "" if checkpoint else "while no checkpoint could be written to the disk"
            return self._make_outcome(evaluation, checkpoint, abandoned_during)
        except StopRequested:
            return self._make_outcome(None, None, "in the middle of an update or a rollout")
        except NonFiniteError:
            with suppress(OSError, SafetensorError):  # for finding the cause
                save_file(self.algorithm.source.last_batch(), self.run_dir / NONFINITE_FILE)
            raise
        finally:
            failed = sys.exc_info()[0] is not None
            self._close(failed, self._deliver_at_end or failed)

    def deliver(self) -> dict[str, Delivery]:
        """Let the loggers send the folder's present content; return what each has received."""
        self._journal.deliver()
        return self._journal.deliveries

    def _close(self, failed: bool, deliver: bool) -> None:
        """Close the logs; a full disk must not hide the error that ended the run."""
        try:
            self._journal.close(deliver, self._stop_deadline.is_expired)
        except StorageError as error:
            if not failed:
                raise
            log.warning("%s", error)

    def _open(self) -> None:
        """Open the logs, cut back to the checkpoint, and repair what a killed run left unfinished."""
        resume_checkpoint, settings = self._resume_checkpoint, self.config.checkpoint
        is_finished = not self._start_clock.units_left
        offsets = resume_offsets(self.run_dir, resume_checkpoint, is_finished) if resume_checkpoint else {}
        self._journal = Journal(self.run_dir, self.config, offsets)
        try:
            store = CheckpointStore(
                self.run_dir / "checkpoints",
                settings.keep,
                resume_checkpoint=resume_checkpoint,
                unit=self._start_clock.unit,
            )
            wait = (settings.storage_timeout, self._stop_deadline.is_expired)
            self._saver = Saver(store, self._journal, *wait)
            if self.config.eval.every:
                # a run may have been killed after it saved its best checkpoint, before it set the link `best`
                self._best_return, step = best_evaluation(self.run_dir, self._start_clock.unit)
                store.link_best(step)
        except BaseException:
            self._close(failed=True, deliver=True)
            raise

    def _train(self) -> None:
        """Run the loop, unless a resumed run has only its evaluation left."""
        self._replay_pruning()
        if self._evaluation_owed and not self._is_pruned:
            mean = self._logged_evaluation()
            if mean is None:
                self._handle_evaluation(self._evaluate())
            else:
                self._evaluation_owed = False
                self._stop_after_evaluation(mean)
        if (
            self._is_stop_requested
            or not self.algorithm.clock.units_left
            or self.algorithm.stop_reason is not None
        ):
            return
        self.algorithm.fit(hooks=(self._tick,), hook_intervals=self.config.hook_intervals)
        self._write_last_row()

    def _logged_evaluation(self) -> float | None:
        """Return the mean of the owed evaluation if it is in the log: the run was killed after making it."""
        means = [mean for step, mean in self._logged_evaluations() if step == self.algorithm.clock.now]
        return means[-1] if means else None

    def _logged_evaluations(self) -> list[tuple[int, float]]:
        """Return step and mean return of the evaluations in the log; NaN if a return was not finite."""
        unit, rows = self.algorithm.clock.unit, read_rows(self.run_dir / METRICS)
        means = [(row[unit], row["eval/return_mean"]) for row in rows if "eval/return_mean" in row]
        return [(int(at), math.nan if mean is None else float(mean)) for at, mean in means]

    def _replay_pruning(self) -> None:
        """Ask `should_prune` again about logged evaluations: a killed run may have missed some."""
        pairs = self._logged_evaluations() if self._should_prune and self.algorithm.clock.units_left else []
        if any(self._should_stop_as_worse(step, mean) for step, mean in pairs):
            self.algorithm.stop(PRUNED)

    def _should_stop_as_worse(self, step: int, mean: float) -> bool:
        """Whether an evaluation prunes the run; NaN cannot be compared and does not."""
        return self._should_prune is not None and math.isfinite(mean) and self._should_prune(step, mean)

    @property
    def _is_pruned(self) -> bool:
        return self.algorithm.stop_reason == PRUNED

    def _tick(self, clock: Clock, progress: Progress, update: Update) -> None:
        self._metric_means.add(*update.earlier_metrics, update.metrics)
        self._journal.write_episodes(progress.episodes)
        save_videos(self.run_dir, progress.episodes)
        is_due, is_finished = DueCheck(self._previous_step, clock.now), not clock.units_left
        self._previous_step = clock.now
        if self._elapsed_seconds() >= self._time_limit:
            self.algorithm.stop("minutes")
        if is_due(self.config.log.every) or is_finished:
            self._journal.write(self._metrics_row())
        self._write_last_row()
        if is_due(self.config.eval.every) and not is_finished:
            self._handle_evaluation(self._evaluate())
        if (is_due(self.config.checkpoint.every) or self._saver.is_retry_due) and not is_finished:
            self._save_checkpoint()
        if self._is_stop_requested:
            self.algorithm.stop("signal")
        self._stop_deadline.record_heartbeat()
        if self._on_progress:
            self._on_progress(self._snapshot(clock))

    def _write_last_row(self) -> None:
        """If the run ends here, write its last metrics row, before the checkpoint.

        A run stopped by a signal gets no such row: resumed later, it logs the rows of an uninterrupted run.
        """
        is_over = self.algorithm.stop_reason is not None and not self._is_stop_requested
        clock = self.algorithm.clock
        if is_over and self._last_row_clock != (clock.now, clock.updates):
            self._journal.write(self._metrics_row())

    def _handle_evaluation(self, evaluation: Evaluation | None) -> None:
        """Save the best policy so far, and stop if the requested score is reached."""
        if evaluation is None:
            self._evaluation_owed = self._is_stop_requested
            return
        self._evaluation_owed = False
        self._stop_after_evaluation(evaluation.mean)
        self._write_last_row()
        is_best = self._is_best(evaluation)
        if self._on_evaluation:
            self._on_evaluation(evaluation, is_best)
        if is_best:
            self._save_checkpoint(best=True)

    def _stop_after_evaluation(self, mean: float) -> None:
        score = self.config.stop.score
        if score is not None and math.isfinite(mean) and mean >= score:
            self.algorithm.stop("score")
        elif self._should_stop_as_worse(self.algorithm.clock.now, mean):
            self.algorithm.stop(PRUNED)

    @property
    def _time_limit(self) -> float:
        """The time limit of the run in seconds."""
        minutes = self.config.stop.minutes
        return math.inf if minutes is None else 60 * minutes

    def _final_evaluation(self) -> Evaluation | None:
        """Evaluate the final policy, unless a signal or pruning stopped the run."""
        if self._is_stop_requested or self._is_pruned:
            self._no_score_reason = STOPPED_EARLY
            return None
        grace = max(GRACE_FRACTION * self._time_limit, MIN_GRACE_SECONDS)
        return self._evaluate(max(self._time_limit, self._elapsed_seconds()) + grace)

    def _evaluate(self, deadline: float | None = None) -> Evaluation | None:
        """Evaluate and log; `None` if it was stopped, is out of time, or has no environment.

        `deadline` is in seconds of the run (default: `stop.minutes`).
        """
        if self.algorithm.components.evaluate is None:
            self._no_score_reason = "there is no environment to play in"
            return None
        start_time, clock = time.perf_counter(), self.algorithm.clock
        step_text = f"{unit_label(clock.unit)} {clock.now}"
        settings, max_seconds = self.config.eval, self._time_limit if deadline is None else deadline
        monitor = EvaluationMonitor(
            lambda: self._is_stop_requested or self._elapsed_seconds() >= max_seconds, self._report_evaluation
        )
        try:
            evaluation = self.algorithm.evaluate(settings.episodes, settings.seed, is_stopped=monitor)
        except Exception as error:
            error.add_note(f"in the evaluation at {step_text}")
            raise
        self.algorithm.timings.evaluate += time.perf_counter() - start_time
        if monitor.was_stopped or self._is_stop_requested:
            if not self._is_stop_requested and clock.units_left:
                self.algorithm.stop("minutes")
            reason = "stopped" if self._is_stop_requested else "stop.minutes were over"
            self._no_score_reason = f"{reason} within the final evaluation"
            return None
        if evaluation.non_finite_message:
            log.warning("in the evaluation at %s %s", step_text, evaluation.non_finite_message)
        position = row_position(clock)
        self._journal.write({**position, "seconds": self._elapsed_seconds(), **evaluation.metrics()})
        self._journal.write_samples(evaluation.samples, position)
        return evaluation

    def _report_evaluation(self, seconds: float) -> None:
        """Report that an evaluation runs, and for how many seconds."""
        if self._on_progress:
            self._on_progress(replace(self._snapshot(self.algorithm.clock), evaluating=seconds))

    def _report_activity(self) -> None:
        """Report that a rollout or an update runs, and how far the rollout is."""
        if self._on_progress:
            clock = self.algorithm.clock
            activity = current_activity(self.algorithm.source, clock, self.config.batch_steps)
            self._on_progress(replace(self._snapshot(clock), under_way=activity))

    def _is_best(self, evaluation: Evaluation) -> bool:
        if not (math.isfinite(evaluation.mean) and evaluation.mean > self._best_return):
            return False
        self._best_return = evaluation.mean
        return True

    def _save_checkpoint(self, best: bool = False, wait: bool = False) -> Path | None:
        with StopDeadline().active():  # this one never starts, so it interrupts no save
            return self._saver.save(self._make_checkpoint, best, wait)

    def _make_checkpoint(self, log_offsets: dict[str, int], with_rows: bool) -> Checkpoint:
        clock = self.algorithm.clock
        session = {
            "seconds": self._elapsed_seconds(),
            "timings": asdict(self.algorithm.timings),
            "means": self._metric_means.state(),
            "evaluation_owed": self._evaluation_owed,
        }
        store = SegmentStore(self.run_dir / REPLAY, replay_name(clock)) if with_rows else NullStore()
        return self.algorithm.checkpoint(log_offsets, session, store)

    def _metrics_row(self) -> dict[str, float | int | None]:
        algorithm, seconds = self.algorithm, self._elapsed_seconds()
        rate = algorithm.recent.success_rate
        self._last_row_clock = (algorithm.clock.now, algorithm.clock.updates)
        return {
            **row_position(algorithm.clock),
            "seconds": seconds,
            "train/return_mean": algorithm.recent.mean_return,
            "train/length_mean": algorithm.recent.mean_length,
            "train/episodes": algorithm.recent.count,
            **({} if rate is None else {"train/success_rate": rate}),
            **algorithm.recent.failure_metrics,
            **self._metric_means.row(),
            "time/steps_per_second": self._steps_per_second(),
        }

    def _elapsed_seconds(self) -> float:
        """Seconds of the run, earlier sessions included."""
        return self._seconds_before + time.perf_counter() - self._start_time

    def _steps_per_second(self) -> float:
        """Steps per second, in the run's unit, since it was started or resumed."""
        seconds = max(time.perf_counter() - self._start_time, 1e-9)
        return (self.algorithm.clock.now - self._start_clock.now) / seconds

    def _snapshot(self, clock: Clock) -> ProgressSnapshot:
        mean = self.algorithm.recent.mean_return
        return ProgressSnapshot.of(clock, mean, self._steps_per_second(), self._elapsed_seconds())

    def _make_outcome(
        self, evaluation: Evaluation | None, checkpoint: Path | None, abandoned_during: str
    ) -> Outcome:
        timings = self.algorithm.timings
        return Outcome(
            reason="signal" if self._is_stop_requested else self.algorithm.stop_reason or "total_steps",
            clock=self.algorithm.clock,
            evaluation=evaluation,
            no_score_reason="" if evaluation is not None else self._no_score_reason or STOPPED_EARLY,
            train_return_last100=self.algorithm.recent.mean_return,
            seconds={
                "total": self._elapsed_seconds(),
                "collect": timings.collect,
                "update": timings.update,
                "evaluate": timings.evaluate,
            },
            checkpoint=checkpoint or self.run_dir,
            abandoned_during=abandoned_during,
        )
