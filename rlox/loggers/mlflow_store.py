"""MLflow's store: errors in one line, and deletion of rows in a database."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import urlsplit

from rlox.errors import StorageError

__all__ = ["as_storage_errors", "delete_points_after", "describe_mlflow_error"]

P = ParamSpec("P")
R = TypeVar("R")

MAX_LENGTH = 160  # characters of an unknown error
FOLDER = "the store in the run folder"
# Database drivers whose package and module names differ.
PACKAGES = {"psycopg": "psycopg[binary]", "psycopg2": "psycopg2-binary", "MySQLdb": "mysqlclient"}
ERRNO = re.compile(r"\[Errno -?\d+\] ([\w ,]+)")
STATUS_PATTERN = re.compile(r"error code (\d{3})|response code (\d{3})")
TIMEOUT_PATTERN = re.compile(r"timed out|timeout", re.IGNORECASE)
LOGIN_REMEDY = (
    "export MLFLOW_TRACKING_USERNAME=... MLFLOW_TRACKING_PASSWORD=..., or MLFLOW_TRACKING_TOKEN=..."
)
ADDRESS_REMEDY = "look at the address, logger.mlflow.tracking_uri or MLFLOW_TRACKING_URI"


def as_storage_errors(call: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Decorate a method of the sink so that its errors are one-line `StorageError`s."""

    @functools.wraps(call)
    def wrapped(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return call(self, *args, **kwargs)
        except StorageError:
            raise
        except Exception as error:
            raise StorageError(describe_mlflow_error(error, self._address)) from error

    return wrapped


def describe_mlflow_error(error: Exception, address: str | None) -> str:
    """Describe an error in one line, without user, password and a server's path, which may be secret."""
    store, text = _store_name(address), str(error)
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = PACKAGES.get(error.name, error.name)
        return f"{store} needs a package that is not installed: pip install '{package}'"
    if match := STATUS_PATTERN.search(text):
        return _http_error_text(store, match[1] or match[2])
    if address is None or not urlsplit(address).netloc:  # a local file
        return f"{store} fails: {_first_line(error)}{'' if address is None else f'; {ADDRESS_REMEDY}'}"
    if match := ERRNO.search(text):
        return f"{store} cannot be reached: {match[1].strip()}; is it running? {ADDRESS_REMEDY}"
    if TIMEOUT_PATTERN.search(text):
        return f"{store} does not answer in time; is it running? {ADDRESS_REMEDY}"
    return f"{store} fails: {_first_line(error)}; {ADDRESS_REMEDY}"


def _store_name(address: str | None) -> str:
    if address is None:
        return FOLDER
    parts = urlsplit(address)
    path = "" if parts.scheme.startswith("http") else parts.path
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{path}"


def _http_error_text(store: str, code: str) -> str:
    if code in ("401", "403"):
        return f"{store} refuses the login (HTTP {code}): {LOGIN_REMEDY}"
    if code[0] == "4":
        return f"{store} refuses the request (HTTP {code}); is it an MLflow server? {ADDRESS_REMEDY}"
    return f"{store} has an error of its own (HTTP {code}); its log says more"


def _first_line(error: Exception) -> str:
    """Return the first line of an error, without the SQL statement and links that follow it."""
    line = next((line for line in str(error).splitlines() if line.strip()), "")
    line = re.sub(r"^\([\w.]+\)\s*", "", line.strip())  # the original error's class, added by SQLAlchemy
    text = f"{type(error).__name__}: {line}" if line else type(error).__name__
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH - 1]}…"


def delete_points_after(uri: str, run_id: str, last_ms: int) -> int:
    """Delete a run's points with a time after `last_ms`; return their number."""
    sql = import_module("sqlalchemy")
    models = import_module("mlflow.store.tracking.dbmodels.models")
    points, latest_table = models.SqlMetric.__table__, models.SqlLatestMetric.__table__
    engine = sql.create_engine(uri)
    try:
        with engine.begin() as connection:
            of_run = points.c.run_uuid == run_id
            result = connection.execute(sql.delete(points).where(of_run, points.c.timestamp > last_ms))
            if result.rowcount:
                _update_latest(sql, connection, points, latest_table, run_id)
            return int(result.rowcount)
    finally:
        engine.dispose()


def _update_latest(sql: Any, connection: Any, points: Any, latest_table: Any, run_id: str) -> None:
    """Rebuild the table of each metric's newest point from the remaining points."""
    names = ("key", "value", "timestamp", "step", "is_nan", "run_uuid")
    query = sql.select(*(points.c[name] for name in names)).where(points.c.run_uuid == run_id)
    remaining_points = connection.execute(query.order_by(points.c.step, points.c.timestamp))
    latest = {row.key: dict(zip(names, row, strict=True)) for row in remaining_points}
    connection.execute(sql.delete(latest_table).where(latest_table.c.run_uuid == run_id))
    if latest:
        connection.execute(sql.insert(latest_table), list(latest.values()))
