"""The growing files of a run folder (metrics, episodes, samples), and the loggers that follow the metrics."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rlox.configs import RunConfig
from rlox.disk import replace_file
from rlox.envs.videos import VIDEO
from rlox.errors import StorageError
from rlox.loggers import METRICS, Delivery, JsonLines, Row, finish, open_loggers, read_rows
from rlox.runs.checkpoint import Checkpoint
from rlox.types import Clock, Episode, Unit

__all__ = [
    "EPISODES",
    "METRICS",
    "SAMPLES",
    "Journal",
    "best_evaluation",
    "resume_offsets",
    "row_position",
    "save_videos",
]

log = logging.getLogger("rlox.session")

EPISODES, SAMPLES = "episodes.jsonl", "samples.jsonl"
VIDEOS = "videos"
CLOSE_SECONDS = 4.0  # wait for loggers after the last row, so that a run ends within 5 s
MIN_SECONDS = 2.0  # minimum wait for loggers, even if drawing plots has used up CLOSE_SECONDS


class Journal:
    """Writes the log files; `offsets` has the byte at which a resumed run continues each file.

    The loggers follow `metrics.jsonl` by themselves; the journal only tells them where it is cut.
    """

    def __init__(self, run_dir: Path, config: RunConfig, offsets: dict[str, int]) -> None:
        storage_timeout = config.checkpoint.storage_timeout
        self._loggers = open_loggers(run_dir, config)
        for logger in self._loggers:
            logger.rewind(offsets.get(METRICS, 0))
        names = [METRICS, EPISODES, *[SAMPLES] * (config.algo.unit == "samples")]
        self._files: dict[str, JsonLines] = {}
        with ExitStack() as opened:
            for name in names:
                self._files[name] = JsonLines(run_dir / name, offsets.get(name, 0), storage_timeout)
                opened.callback(self._files[name].close)
            opened.pop_all()
        self.deliveries: dict[str, Delivery] = {}  # what each logger received; set by `deliver`
        self._closed_at: float | None = None  # time of the last row
        # an episode's line says when it ended: at which sample for texts, else at which environment step
        self._step_key = "samples" if config.algo.unit == "samples" else "env_steps"
        for logger in self._loggers:
            logger.start()

    def write(self, row: Row) -> None:
        """Write a row of metrics to `metrics.jsonl`, which every logger follows."""
        self._files[METRICS].write(row)

    def write_episodes(self, episodes: Iterable[Episode]) -> None:
        """Write one line per finished episode, with `is_success` if its environment reported it."""
        for e in episodes:
            success_field = {} if e.is_success is None else {"is_success": e.is_success}
            self._files[EPISODES].write(
                {
                    self._step_key: e.env_steps,
                    "env": e.env,
                    "return": e.total_reward,
                    "length": e.length,
                    **success_field,
                }
            )

    def write_samples(self, samples: Iterable[Mapping[str, Any]], position: Row) -> None:
        """Write one line per sample text of an evaluation, with the position of the run."""
        if SAMPLES in self._files:
            for sample in samples:
                self._files[SAMPLES].write({**position, **sample})

    def end_offsets(self) -> dict[str, int]:
        """Return the size of each file once every row is written; a checkpoint saves these offsets."""
        return {name: rows.end_offset for name, rows in self._files.items()}

    def sync(self) -> None:
        """Force every row to the disk, before a checkpoint that relies on it."""
        for rows in self._files.values():
            if not rows.flush():
                raise StorageError(f"{rows.path} has rows that the disk has not taken yet")
            rows.sync()

    def close(self, deliver: bool = True, should_give_up: Callable[[], bool] = lambda: False) -> None:
        """Write pending rows and close every file, even if one of them cannot be written."""
        with ExitStack() as stack:
            if deliver:
                stack.callback(self.deliver)
            for rows in reversed(self._files.values()):
                stack.callback(rows.close, should_give_up)
            self._closed_at = time.monotonic()

    def deliver(self) -> None:
        """Let the loggers catch up and send other files of the folder, as far as time allows."""
        since = time.monotonic() - self._closed_at if self._closed_at is not None else 0.0
        self.deliveries = finish(self._loggers, max(CLOSE_SECONDS - since, min(MIN_SECONDS, CLOSE_SECONDS)))


def save_videos(run_dir: Path, episodes: Iterable[Episode]) -> None:
    """Write videos of training episodes to `videos/`; a full disk loses only the video."""
    for episode in episodes:
        video = (episode.info or {}).get(VIDEO)
        if video is None:
            continue
        path = run_dir / VIDEOS / f"train-{episode.env_steps:012d}.mp4"
        try:
            path.parent.mkdir(exist_ok=True)
            replace_file(path, video)
        except (OSError, StorageError) as error:
            log.warning("%s: a video of a training episode was not written: %s", path, error)


def resume_offsets(run_dir: Path, resume_checkpoint: Checkpoint, is_finished: bool) -> dict[str, int]:
    """Return the log offsets to continue from.

    If a finished run was killed after its last save, the log already has its final evaluation. The resumed
    run evaluates again, so that row is cut off.
    """
    logs, path = dict(resume_checkpoint.logs), run_dir / METRICS
    if not is_finished or METRICS not in logs or not path.is_file():
        return logs
    for line in reversed(path.read_bytes()[: logs[METRICS]].splitlines(True)):
        if b'"eval/return_mean"' not in line:
            break
        logs[METRICS] -= len(line)
    return logs


def row_position(clock: Clock) -> dict[str, int]:
    """Return the counters of a log row; `samples` only if it is the run's unit."""
    names = ("env_steps", "updates", *({clock.unit} - {"env_steps", "updates"}))
    return {name: clock.counters[name] for name in names}


def best_evaluation(run_dir: Path, unit: Unit) -> tuple[float, int]:
    """Return the highest mean return of evaluations in the log and its step; -inf and 0 without any.

    Non-finite means are null in the log and never the best.
    """
    best, step = float("-inf"), 0
    for row in read_rows(run_dir / METRICS):
        mean = row.get("eval/return_mean")
        if mean is not None and mean > best:
            best, step = float(mean), int(row[unit])
    return best, step
