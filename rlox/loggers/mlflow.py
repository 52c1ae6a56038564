"""MLflow: a store in the run folder, or any store or server with an address."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sqlite3
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from rlox.errors import StorageError
from rlox.loggers.base import Row, RunInfo
from rlox.loggers.mlflow_store import as_storage_errors, delete_points_after
from rlox.loggers.remote import SyncRecord, first_rows, read_result

__all__ = ["MlflowSink"]

# Set before the package is imported. Requests need no retries, since the follower retries.
ENV_DEFAULTS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "60",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "GIT_PYTHON_REFRESH": "quiet",
}
ROW_METRIC = "seconds"  # in every row, and sent last: a row is complete once this metric is there
MAX_METRICS_PER_REQUEST = 1000  # MLflow's limit
MAX_PARAMS_PER_REQUEST = 100
MAX_PARAM_LENGTH = 6000
RUN_TAG = "rlox.run"  # finds a run whose id was not stored because of a kill
HTTP = ("http://", "https://")
STATUSES = {"done": "FINISHED", "killed": "KILLED", "failed": "FAILED"}

Point = tuple[str, int, float]


class MlflowSink:
    """Writes one MLflow run, also after a resume; each metric of a row is a point, at the row's `unit`.

    Stored rows are counted by reading them back. In a database store (the run's own, or an address such as
    `postgresql://`) rows are removed by deleting them. A server cannot delete metrics: there, points that a
    resumed run logs again with the same value are not sent again, and points that differ exist twice, the
    newer one with the later time. Times strictly increase, so that points of one step keep their order.
    """

    def __init__(self, run_dir: Path, run_info: RunInfo) -> None:
        for name, value in ENV_DEFAULTS.items():
            os.environ.setdefault(name, value)
        self._entities = import_module("mlflow.entities")
        self._run_dir, self._run_info = run_dir, run_info
        self._address: str | None = run_info.logger_config["tracking_uri"]
        self._sync_record = SyncRecord(run_dir, "mlflow", _target_key(self._address), RUN_TAG)
        self._extra_points: Counter[Point] = Counter()  # stored points beyond the kept rows
        self._start_ms = self._last_ms = 0  # epoch milliseconds: run start, newest point
        self._client: Any = None
        self._run_id = ""
        has_tag = RUN_TAG in self._sync_record.data  # else the store's run is unknown
        if self._address is None and not (has_tag and _is_intact_store(run_dir)):
            shutil.rmtree(run_dir / "mlruns", ignore_errors=True)
            self._sync_record.save(sent={})

    @as_storage_errors
    def open(self, rows: int) -> int:
        """Find or create the run, and keep the first `rows` rows as far as the store can."""
        self._client = import_module("mlflow.tracking").MlflowClient(self._uri())
        run = self._find_run() or self._create_run()
        self._run_id = run.info.run_id
        self._start_ms = int(run.info.start_time)
        self._log_hyperparameters(run)
        rows_to_keep = first_rows(self._run_dir, rows)
        history = sorted(self._history(ROW_METRIC), key=lambda m: m.timestamp)
        if (self._address or "sqlite").startswith(HTTP):
            return self._count_rows(rows_to_keep, history, run)
        n_rows = 0
        for metric, row in zip(history, rows_to_keep, strict=False):
            if (metric.step, metric.value) != (self._step(row), row[ROW_METRIC]):
                break
            n_rows += 1
        self._last_ms = int(history[n_rows - 1].timestamp) if n_rows else 0
        delete_points_after(self._client.tracking_uri, self._run_id, self._last_ms)
        return n_rows

    @as_storage_errors
    def write(self, rows: Sequence[Row]) -> None:
        """Send the next rows in as few requests as possible, without splitting a row."""
        batch: list[Any] = []
        for row in rows:
            points = self._new_points(row)
            if batch and len(batch) + len(points) > MAX_METRICS_PER_REQUEST:
                self._send(batch)
                batch = []
            batch += points
        self._send(batch)

    @as_storage_errors
    def finish(self) -> None:
        """Send changed files and the score, and set the run's final status."""
        files = self._sync_record.unsent(bool(self._run_info.logger_config["checkpoints"]))
        for name, path in files.items():
            artifact_path = name if path.is_dir() else Path(name).parent.as_posix().removeprefix(".")
            log = self._client.log_artifacts if path.is_dir() else self._client.log_artifact
            log(self._run_id, str(path), artifact_path or None)
        result = read_result(self._run_dir)
        if files:
            self._client.log_dict(self._run_id, dict(self._run_info.config), "config.yaml")
            self._sync_record.note_sent(files)
        # even if result.json was sent before: a score is newer than all rows, so `open` has deleted it
        self._send([m for m in self._score_metrics(result) if not self._is_logged(m)])
        status = STATUSES.get(str(result.get("status")), "FINISHED")
        if self._client.get_run(self._run_id).info.status != status:
            self._client.set_terminated(self._run_id, status)

    def close(self) -> None:
        """Do nothing: no connection is kept between requests."""

    def abandon(self) -> None:
        """Do nothing: the caller ends the process."""

    def _uri(self) -> str:
        """Return the store's address; in the run folder it is relative, as names of folders are arbitrary."""
        if self._address is not None:
            return self._address
        store_dir = self._run_dir / "mlruns"
        store_dir.mkdir(exist_ok=True)
        os.chdir(store_dir)
        return "sqlite:///mlflow.db"

    def _find_run(self) -> Any:
        """Return the run of an earlier session, if there is one."""
        self._experiment = self._experiment_id()
        query = f"tags.`{RUN_TAG}` = '{self._sync_record.ensure_id(new_id=uuid.uuid4().hex)}'"
        runs = self._client.search_runs([self._experiment], query, max_results=1)
        return runs[0] if runs else None

    def _experiment_id(self) -> str:
        name = str(self._run_info.logger_config["experiment"])
        location = None if self._address else _artifacts_uri(self._run_dir)
        experiment = self._client.get_experiment_by_name(name)
        if experiment is None:
            with suppress(Exception):  # another run may have created it just now
                return str(self._client.create_experiment(name, artifact_location=location))
            experiment = self._client.get_experiment_by_name(name)
        if location is not None and not _is_inside(str(experiment.artifact_location), self._run_dir):
            raise StorageError(
                f"experiment={name}: the store in the run folder keeps its files elsewhere; give another name"
            )
        return str(experiment.experiment_id)

    def _create_run(self) -> Any:
        tags = {RUN_TAG: self._sync_record.data[RUN_TAG], "mlflow.source.name": "rlox"}
        if self._run_info.tags:
            tags["tags"] = ",".join(self._run_info.tags)
        now = int(time.time() * 1000)
        return self._client.create_run(self._experiment, now, tags, self._run_info.name)

    def _log_hyperparameters(self, run: Any) -> None:
        """Log hyperparameters once; those that a resume changed become tags, as MLflow fixes parameters."""
        if run.info.status != "RUNNING":
            self._client.update_run(self._run_id, status="RUNNING")
        params = {_name(k): str(v)[:MAX_PARAM_LENGTH] for k, v in self._run_info.hyperparameters.items()}
        logged_params = run.data.params
        new = [self._entities.Param(k, v) for k, v in params.items() if k not in logged_params]
        for start in range(0, len(new), MAX_PARAMS_PER_REQUEST):
            self._client.log_batch(self._run_id, params=new[start : start + MAX_PARAMS_PER_REQUEST])
        for key, value in params.items():
            if logged_params.get(key, value) != value and run.data.tags.get(f"resumed.{key}") != value:
                self._client.set_tag(self._run_id, f"resumed.{key}", value)

    def _history(self, key: str) -> Sequence[Any]:
        history: Sequence[Any] = self._client.get_metric_history(self._run_id, key)
        return history

    def _count_rows(self, rows: Sequence[Row], history: Sequence[Any], run: Any) -> int:
        """Count how many of `rows` the server has, in order; its other points stay there."""
        counts = Counter((m.step, m.value) for m in history)
        n_rows = 0
        for row in rows:
            row_key = (self._step(row), row[ROW_METRIC])
            if not counts[row_key]:
                break
            counts[row_key] -= 1
            n_rows += 1
        self._last_ms = max((int(m.timestamp) for m in history), default=0)
        self._extra_points = Counter()
        if n_rows < len(history):
            points = chain.from_iterable(self._history(key) for key in run.data.metrics)
            self._extra_points.update((m.key, m.step, m.value) for m in points)
            for row in rows[:n_rows]:
                self._extra_points.subtract(self._row_points(row))
        return n_rows

    def _new_points(self, row: Row) -> list[Any]:
        """Return the metrics of a row that are to be sent; the one by which rows are counted is last."""
        time_ms = self._start_ms + int(1000 * float(row.get(ROW_METRIC) or 0.0))
        self._last_ms = max(time_ms, self._last_ms + 1)
        new: list[Any] = []
        for point in sorted(self._row_points(row), key=lambda p: p[0] == ROW_METRIC):
            if self._extra_points[point] > 0:
                self._extra_points[point] -= 1
            else:
                new.append(self._entities.Metric(point[0], point[2], self._last_ms, point[1]))
        return new

    def _row_points(self, row: Row) -> Iterator[Point]:
        step = self._step(row)
        return ((_name(k), step, float(v)) for k, v in row.items() if v is not None)

    def _send(self, metrics: Sequence[Any]) -> None:
        for start in range(0, len(metrics), MAX_METRICS_PER_REQUEST):
            self._client.log_batch(self._run_id, metrics=metrics[start : start + MAX_METRICS_PER_REQUEST])

    def _score_metrics(self, result: Mapping[str, Any]) -> Iterator[Any]:
        step = int(result.get(self._run_info.unit) or 0)
        for key in ("score", "score_iqm"):
            if isinstance(value := result.get(key), (int, float)):
                yield self._entities.Metric(f"result/{key}", float(value), self._last_ms + 1, step)

    def _is_logged(self, metric: Any) -> bool:
        """Whether the metric was sent before, perhaps with another time."""
        return any((m.step, m.value) == (metric.step, metric.value) for m in self._history(metric.key))

    def _step(self, row: Row) -> int:
        return int(row.get(self._run_info.unit) or 0)


def _name(metric: str) -> str:
    """Return a metric name that MLflow accepts."""
    return re.sub(r"[^\w.\- :/]", "_", metric)


def _artifacts_uri(run_dir: Path) -> str:
    return (run_dir / "mlruns" / "artifacts").as_uri()


def _is_intact_store(run_dir: Path) -> bool:
    """Whether there is no store in the folder, or an intact one whose files are inside (not if moved)."""
    file = run_dir / "mlruns" / "mlflow.db"
    if not file.exists():
        return True
    try:
        with closing(sqlite3.connect(file)) as store:
            is_intact = store.execute("PRAGMA quick_check").fetchone() == ("ok",)
            query = "SELECT artifact_location FROM experiments WHERE experiment_id > 0"
            addresses = [place for (place,) in store.execute(query)]
            addresses += [place for (place,) in store.execute("SELECT artifact_uri FROM runs")]
    except sqlite3.Error:
        return False
    return is_intact and all(_is_inside(place, run_dir) for place in addresses)


def _is_inside(address: str, run_dir: Path) -> bool:
    """Whether files at that address belong to the run folder's own store."""
    url = urlsplit(address)
    if url.scheme not in ("", "file") or url.netloc:
        return False
    root = urlsplit(_artifacts_uri(run_dir)).path
    return Path(unquote(url.path)).resolve().is_relative_to(Path(unquote(root)).resolve())


def _target_key(address: str | None) -> str:
    """Return a store's key in the sync record, with the address hashed: the record must not contain it."""
    if address is None:
        return "folder"
    return hashlib.sha256(address.split("@")[-1].encode()).hexdigest()[:12]
