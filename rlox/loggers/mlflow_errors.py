"""What MLflow and the libraries below it raise, in one line: which store, what came of it, what to do."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import urlsplit

from rlox.errors import StorageError

__all__ = ["explained", "in_words"]

P = ParamSpec("P")
R = TypeVar("R")

LONGEST = 160  # characters of what is not known here
FOLDER = "the store in the run folder"
# Drivers of databases, whose packages are not called as they are imported.
PACKAGES = {"psycopg": "psycopg[binary]", "psycopg2": "psycopg2-binary", "MySQLdb": "mysqlclient"}
ERRNO = re.compile(r"\[Errno -?\d+\] ([\w ,]+)")
CODE = re.compile(r"error code (\d{3})|response code (\d{3})")
SLOW = re.compile(r"timed out|timeout", re.IGNORECASE)
LOGIN = (
    "export MLFLOW_TRACKING_USERNAME=... MLFLOW_TRACKING_PASSWORD=..., or MLFLOW_TRACKING_TOKEN=..."
)
ADDRESS = "look at the address, logger.mlflow.tracking_uri or MLFLOW_TRACKING_URI"


def explained(call: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """A method of the sink whose errors are `StorageError`s of one line."""

    @functools.wraps(call)
    def wrapped(self: Any, /, *given: P.args, **named: P.kwargs) -> R:
        try:
            return call(self, *given, **named)
        except StorageError:
            raise
        except Exception as error:
            raise StorageError(in_words(error, self._address)) from error

    return wrapped


def in_words(error: Exception, address: str | None) -> str:
    """The line; an address without the user, the password and the path of a server, which may be secret."""
    place, text = _place(address), str(error)
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = PACKAGES.get(error.name, error.name)
        return f"{place} needs a package that is not installed: pip install '{package}'"
    if found := CODE.search(text):
        return _answered(place, found[1] or found[2])
    if address is None or not urlsplit(address).netloc:  # a file of this machine
        return f"{place} fails: {_first(error)}{'' if address is None else f'; {ADDRESS}'}"
    if found := ERRNO.search(text):
        return f"{place} cannot be reached: {found[1].strip()}; is it running? {ADDRESS}"
    if SLOW.search(text):
        return f"{place} does not answer in time; is it running? {ADDRESS}"
    return f"{place} fails: {_first(error)}; {ADDRESS}"


def _place(address: str | None) -> str:
    if address is None:
        return FOLDER
    parts = urlsplit(address)
    path = "" if parts.scheme.startswith("http") else parts.path
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{path}"


def _answered(place: str, code: str) -> str:
    if code in ("401", "403"):
        return f"{place} refuses the login (HTTP {code}): {LOGIN}"
    if code[0] == "4":
        return f"{place} refuses the request (HTTP {code}); is it an MLflow server? {ADDRESS}"
    return f"{place} has an error of its own (HTTP {code}); its log says more"


def _first(error: Exception) -> str:
    """What an error says before the statement and the links that it repeats."""
    line = next((line for line in str(error).splitlines() if line.strip()), "")
    line = re.sub(r"^\([\w.]+\)\s*", "", line.strip())  # SQLAlchemy's, on whose error it is
    said = f"{type(error).__name__}: {line}" if line else type(error).__name__
    return said if len(said) <= LONGEST else f"{said[: LONGEST - 1]}…"
