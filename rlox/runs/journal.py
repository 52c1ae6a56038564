"""The files of a run folder that grow: metrics and episodes, and the loggers fed beside them."""

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
CLOSE_SECONDS = 4.0  # after the last row, that the end of a run waits for its loggers: it is over within 5 s
MIN_SECONDS = 2.0  # however long the picture took to draw meanwhile


class Journal:
    """Writes rows; `offsets` is where a resumed run goes on in each file.

    The loggers follow `metrics.jsonl` by themselves; here they only learn where it is cut.
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
        self.deliveries: dict[str, Delivery] = {}  # of the loggers, once it is closed
        self._closed_at: float | None = None  # when it had its last row
        # episodes of text end at prompts, others at steps of environments
        self._step_key = "samples" if config.algo.unit == "samples" else "env_steps"
        for logger in self._loggers:
            logger.start()

    def write(self, row: Row) -> None:
        """A row of metrics, for `metrics.jsonl` and so for every logger."""
        self._files[METRICS].write(row)

    def write_episodes(self, episodes: Iterable[Episode]) -> None:
        """One line a finished episode, with `is_success` where its environment said so."""
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
        """One line for each text that an evaluation shows, with where the run stood."""
        if SAMPLES in self._files:
            for sample in samples:
                self._files[SAMPLES].write({**position, **sample})

    def end_offsets(self) -> dict[str, int]:
        """Where each file will end once it has every row: what a checkpoint made now goes on from."""
        return {name: rows.end_offset for name, rows in self._files.items()}

    def sync(self) -> None:
        """Force every row to the device, before a checkpoint that relies on it."""
        for rows in self._files.values():
            if not rows.flush():
                raise StorageError(f"{rows.path} has rows that the disk has not taken yet")
            rows.sync()

    def close(self, deliver: bool = True, should_give_up: Callable[[], bool] = lambda: False) -> None:
        """Write what waits and close every file, also where one of them cannot be written."""
        with ExitStack() as stack:
            if deliver:
                stack.callback(self.deliver)
            for rows in reversed(self._files.values()):
                stack.callback(rows.close, should_give_up)
            self._closed_at = time.monotonic()

    def deliver(self) -> None:
        """Have the loggers catch up and send what else lies in the folder by now, as far as time allows."""
        since = time.monotonic() - self._closed_at if self._closed_at is not None else 0.0
        self.deliveries = finish(self._loggers, max(CLOSE_SECONDS - since, min(MIN_SECONDS, CLOSE_SECONDS)))


def save_videos(run_dir: Path, episodes: Iterable[Episode]) -> None:
    """Write the films of training episodes to `videos/`; a disk that is full costs the film only."""
    for episode in episodes:
        video = (episode.info or {}).get(VIDEO)
        if video is None:
            continue
        path = run_dir / VIDEOS / f"train-{episode.env_steps:012d}.mp4"
        try:
            path.parent.mkdir(exist_ok=True)
            replace_file(path, video)
        except (OSError, StorageError) as error:
            log.warning("%s: a film of a training episode is lost: %s", path, error)


def resume_offsets(run_dir: Path, resume_checkpoint: Checkpoint, is_finished: bool) -> dict[str, int]:
    """The log offsets to go on from.

    A run that was killed after its last save has its final evaluation in the log already, and will
    evaluate again: that row is cut off.
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
    """Where a row of the log stands; the samples only where the run counts them."""
    names = ("env_steps", "updates", *({clock.unit} - {"env_steps", "updates"}))
    return {name: clock.counters[name] for name in names}


def best_evaluation(run_dir: Path, unit: Unit) -> tuple[float, int]:
    """The highest evaluated mean return in the log, and at which step; -inf and 0 without any.

    One that was not finite is null in the log, and never the best.
    """
    best, step = float("-inf"), 0
    for row in read_rows(run_dir / METRICS):
        mean = row.get("eval/return_mean")
        if mean is not None and mean > best:
            best, step = float(mean), int(row[unit])
    return best, step
