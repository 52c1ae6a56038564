"""MLflow: a store in the run folder, or any store or server that has an address."""

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
from rlox.loggers.base import Row, Told
from rlox.loggers.mlflow_errors import explained
from rlox.loggers.mlflow_rows import taken_back
from rlox.loggers.remote import Record, first_rows, result_of

__all__ = ["MlflowSink"]

# Before the package is imported. The follower tries again by itself, so a request need not.
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "60",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "GIT_PYTHON_REFRESH": "quiet",
}
COUNTED = "seconds"  # every row has one, and a row is there once this is
PER_REQUEST = 1000  # MLflow's limit of metrics in one request
PER_PARAMS = 100
LONGEST_PARAM = 6000
MARK = "rlox.run"  # the tag by which a run is found whose id a kill kept from being noted
HTTP = ("http://", "https://")
ENDED = {"done": "FINISHED", "killed": "KILLED", "failed": "FAILED"}

Point = tuple[str, int, float]


class MlflowSink:
    """One MLflow run, also of a run that is resumed; a point a metric and row, at the row's `unit`.

    The rows there are counted by reading them back. A store that is a database (the run's own, or an address
    such as `postgresql://`) has rows taken back by deleting them. A server has no request for that: there,
    what a resumed run logs again with the same number is not sent again, and what differs is there twice, the
    newer one with the later time. Times are strictly increasing, so that points of one step keep their order.
    """

    def __init__(self, folder: Path, told: Told) -> None:
        for name, value in QUIET.items():
            os.environ.setdefault(name, value)
        self._entities = import_module("mlflow.entities")
        self._folder, self._told = folder, told
        self._address: str | None = told.own["tracking_uri"]
        self._record = Record(folder, "mlflow", _target(self._address), MARK)
        self._there: Counter[Point] = (
            Counter()
        )  # points that are there beyond the rows that are held
        self._begun = self._last = 0  # milliseconds of the epoch: of the run, of the newest point
        self._client: Any = None
        self._run = ""
        known = MARK in self._record.data  # else nothing says which run of the store is this one
        if self._address is None and not (known and _is_own(folder)):
            shutil.rmtree(folder / "mlruns", ignore_errors=True)
            self._record.save(sent={})

    @explained
    def open(self, rows: int) -> int:
        """Find the run or make it, and keep the first `rows` rows as far as the store can."""
        self._client = import_module("mlflow.tracking").MlflowClient(self._uri())
        run = self._found() or self._made()
        self._run = run.info.run_id
        self._begun = int(run.info.start_time)
        self._describe(run)
        wanted = first_rows(self._folder, rows)
        history = sorted(self._history(COUNTED), key=lambda m: m.timestamp)
        if (self._address or "sqlite").startswith(HTTP):
            return self._counted(wanted, history, run)
        held = 0
        for metric, row in zip(history, wanted, strict=False):
            if (metric.step, metric.value) != (self._step(row), row[COUNTED]):
                break
            held += 1
        self._last = int(history[held - 1].timestamp) if held else 0
        taken_back(self._client.tracking_uri, self._run, self._last)
        return held

    @explained
    def write(self, rows: Sequence[Row]) -> None:
        """Send the next rows, as few requests as their limits allow and whole rows in each."""
        batch: list[Any] = []
        for row in rows:
            points = self._points(row)
            if batch and len(batch) + len(points) > PER_REQUEST:
                self._send(batch)
                batch = []
            batch += points
        self._send(batch)

    @explained
    def finish(self) -> None:
        """Send what has changed besides rows, and say how the run ended."""
        files = self._record.unsent(bool(self._told.own["checkpoints"]))
        for name, path in files.items():
            where = name if path.is_dir() else Path(name).parent.as_posix().removeprefix(".")
            log = self._client.log_artifacts if path.is_dir() else self._client.log_artifact
            log(self._run, str(path), where or None)
        result = result_of(self._folder)
        if files:
            self._client.log_dict(self._run, dict(self._told.config), "config.yaml")
            self._record.note_sent(files)
        # also where the file was sent before: a score is newer than all rows, so `open` takes it back
        self._send([m for m in self._scores(result) if not self._is_there(m)])
        status = ENDED.get(str(result.get("status")), "FINISHED")
        if self._client.get_run(self._run).info.status != status:
            self._client.set_terminated(self._run, status)

    def close(self) -> None:
        """No connection is kept between requests."""

    def abandon(self) -> None:
        """Whoever runs this ends the process."""

    def _uri(self) -> str:
        """The address; that of the store in the run folder is relative, as folders may be called anything."""
        if self._address is not None:
            return self._address
        home = self._folder / "mlruns"
        home.mkdir(exist_ok=True)
        os.chdir(home)
        return "sqlite:///mlflow.db"

    def _found(self) -> Any:
        """The run of an earlier session, if there was one."""
        self._experiment = self._experiment_id()
        asked = f"tags.`{MARK}` = '{self._record.id(new=uuid.uuid4().hex)}'"
        found = self._client.search_runs([self._experiment], asked, max_results=1)
        return found[0] if found else None

    def _experiment_id(self) -> str:
        name = str(self._told.own["experiment"])
        place = None if self._address else _artifacts(self._folder)
        found = self._client.get_experiment_by_name(name)
        if found is None:
            with suppress(Exception):  # another run may have made it just now
                return str(self._client.create_experiment(name, artifact_location=place))
            found = self._client.get_experiment_by_name(name)
        if place is not None and not _inside(str(found.artifact_location), self._folder):
            raise StorageError(
                f"experiment={name}: the store in the run folder keeps its files elsewhere; give another name"
            )
        return str(found.experiment_id)

    def _made(self) -> Any:
        tags = {MARK: self._record.data[MARK], "mlflow.source.name": "rlox"}
        if self._told.tags:
            tags["tags"] = ",".join(self._told.tags)
        now = int(time.time() * 1000)
        return self._client.create_run(self._experiment, now, tags, self._told.name)

    def _describe(self, run: Any) -> None:
        """Hyperparameters, once: where a resumed run has others, they are tags, as those cannot change."""
        if run.info.status != "RUNNING":
            self._client.update_run(self._run, status="RUNNING")
        given = {_name(k): str(v)[:LONGEST_PARAM] for k, v in self._told.hyperparameters.items()}
        known = run.data.params
        new = [self._entities.Param(k, v) for k, v in given.items() if k not in known]
        for start in range(0, len(new), PER_PARAMS):
            self._client.log_batch(self._run, params=new[start : start + PER_PARAMS])
        for key, value in given.items():
            if known.get(key, value) != value and run.data.tags.get(f"resumed.{key}") != value:
                self._client.set_tag(self._run, f"resumed.{key}", value)

    def _history(self, key: str) -> Sequence[Any]:
        found: Sequence[Any] = self._client.get_metric_history(self._run, key)
        return found

    def _counted(self, wanted: Sequence[Row], history: Sequence[Any], run: Any) -> int:
        """How many of the wanted rows the server has, in order; what it has besides stays there."""
        marks = Counter((m.step, m.value) for m in history)
        held = 0
        for row in wanted:
            mark = (self._step(row), row[COUNTED])
            if not marks[mark]:
                break
            marks[mark] -= 1
            held += 1
        self._last = max((int(m.timestamp) for m in history), default=0)
        self._there = Counter()
        if held < len(history):
            there = chain.from_iterable(self._history(key) for key in run.data.metrics)
            self._there.update((m.key, m.step, m.value) for m in there)
            for row in wanted[:held]:
                self._there.subtract(self._named(row))
        return held

    def _points(self, row: Row) -> list[Any]:
        """The metrics to send of a row, the one that rows are counted by last."""
        when = self._begun + int(1000 * float(row.get(COUNTED) or 0.0))
        self._last = max(when, self._last + 1)
        new: list[Any] = []
        for point in sorted(self._named(row), key=lambda p: p[0] == COUNTED):
            if self._there[point] > 0:
                self._there[point] -= 1
            else:
                new.append(self._entities.Metric(point[0], point[2], self._last, point[1]))
        return new

    def _named(self, row: Row) -> Iterator[Point]:
        step = self._step(row)
        return ((_name(k), step, float(v)) for k, v in row.items() if v is not None)

    def _send(self, metrics: Sequence[Any]) -> None:
        for start in range(0, len(metrics), PER_REQUEST):
            self._client.log_batch(self._run, metrics=metrics[start : start + PER_REQUEST])

    def _scores(self, result: Mapping[str, Any]) -> Iterator[Any]:
        step = int(result.get(self._told.unit) or 0)
        for key in ("score", "score_iqm"):
            if isinstance(value := result.get(key), (int, float)):
                yield self._entities.Metric(f"result/{key}", float(value), self._last + 1, step)

    def _is_there(self, metric: Any) -> bool:
        """A result that was sent before has another time."""
        return any(
            (m.step, m.value) == (metric.step, metric.value) for m in self._history(metric.key)
        )

    def _step(self, row: Row) -> int:
        return int(row.get(self._told.unit) or 0)


def _name(metric: str) -> str:
    """A name as MLflow takes it."""
    return re.sub(r"[^\w.\- :/]", "_", metric)


def _artifacts(folder: Path) -> str:
    return (folder / "mlruns" / "artifacts").as_uri()


def _is_own(folder: Path) -> bool:
    """Whether the store in the folder is whole, and keeps files nowhere else, as one that was moved would."""
    file = folder / "mlruns" / "mlflow.db"
    if not file.exists():
        return True
    try:
        with closing(sqlite3.connect(file)) as store:
            whole = store.execute("PRAGMA quick_check").fetchone() == ("ok",)
            asked = "SELECT artifact_location FROM experiments WHERE experiment_id > 0"
            places = [place for (place,) in store.execute(asked)]
            places += [place for (place,) in store.execute("SELECT artifact_uri FROM runs")]
    except sqlite3.Error:
        return False
    return whole and all(_inside(place, folder) for place in places)


def _inside(place: str, folder: Path) -> bool:
    """Whether files of that address are among those of the run folder's own store."""
    found = urlsplit(place)
    if found.scheme not in ("", "file") or found.netloc:
        return False
    home = urlsplit(_artifacts(folder)).path
    return Path(unquote(found.path)).resolve().is_relative_to(Path(unquote(home)).resolve())


def _target(address: str | None) -> str:
    """What tells stores apart in the record, which is no place for addresses."""
    if address is None:
        return "folder"
    return hashlib.sha256(address.split("@")[-1].encode()).hexdigest()[:12]
