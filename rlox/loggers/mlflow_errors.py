"""Errors of MLflow and its libraries in one line: the store, the problem, the remedy."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import urlsplit

from rlox.errors import StorageError

__all__ = ["as_storage_errors", "describe_mlflow_error"]

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
