"""A run's folder: unique, locked while a process writes to it, and with the status of the run."""

from __future__ import annotations

import difflib
import json
import logging
import os
import re
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rlox.configs import RunConfig, to_plain, upgrade_saved_config
from rlox.configs.secrets import redact
from rlox.disk import FolderIdentity, is_transient, lock_file, read_file, replace_file
from rlox.envs.mujoco_log import clear_warnings, repeat_warnings
from rlox.errors import ConfigError, RloxError, StorageError
from rlox_cli.config import plain_yaml
from rlox_cli.runs.signals import SignalInterrupt

RUNNING, DONE, FAILED, KILLED, PRUNED = "running", "done", "failed", "killed", "pruned"
UNREADABLE = "unreadable"  # the state of a run whose status or result cannot be read
HEARTBEAT_SECONDS = 5.0
RETRY_SECONDS = 0.5
LOCK_TRIES = 5

log = logging.getLogger("rlox.cli")


class BusyError(ConfigError):
    """Another process is writing to the run folder."""


def slug(text: str) -> str:
    """Keep letters, digits, dot, underscore and dash; anything else breaks overrides or paths."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-")


def run_path(config: RunConfig) -> Path:
    """Return a new path `run_root/env/algo/date-time_seed_id`."""
    name = f"{datetime.now():%Y%m%d-%H%M%S}_s{config.seed}_{secrets.token_hex(2)}"
    return Path(config.run_root) / slug(config.env.id) / config.algo.name / name


def write_text(path: Path, text: str, retry_seconds: float = 0.0) -> None:
    """Replace a file atomically, so that a reader sees the old or the new content, never half.

    After a transient error of the disk, the write is retried for `retry_seconds`.
    """
    start = time.monotonic()
    while True:
        try:
            replace_file(path, text.encode())
            return
        except StorageError as error:
            if time.monotonic() - start >= retry_seconds or not is_transient(error):
                raise
        time.sleep(RETRY_SECONDS)


@contextmanager
def translate_os_errors(path: Path) -> Iterator[None]:
    """Raise `StorageError` if the block cannot create or move something at `path`."""
    try:
        yield
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(
            f"{error.filename or path} cannot be written: {error.strerror}; make room there, or write "
            "elsewhere"
        ) from error


def write_json(path: Path, data: Any, retry_seconds: float = 0.0) -> None:
    """Replace a JSON file atomically."""
    write_text(path, json.dumps(data, indent=2, allow_nan=False) + "\n", retry_seconds)


def read_status(folder: Path) -> dict[str, Any]:
    """Return `status.json` of a run folder; errors as in `read_json`."""
    return _read_mapping(folder / "status.json")


def read_result(folder: Path) -> dict[str, Any] | None:
    """Return `result.json` of a run folder; `None` if no session has ended; errors as in `read_json`."""
    path = folder / "result.json"
    return _read_mapping(path) if path.exists() else None


def read_state(folder: Path) -> str:
    """Return the state in a run's `status.json`; `UNREADABLE` if there is none."""
    with suppress(OSError, ValueError, KeyError):
        return str(read_status(folder)["status"])
    return UNREADABLE


def read_result_or_none(folder: Path) -> dict[str, Any] | None:
    """Return `result.json` of a run folder; `None` if there is none that can be read."""
    with suppress(OSError, ValueError):
        return read_result(folder)
    return None


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; raise a `ConfigError` that names a damaged file."""
    data = read_file(path)
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        reason = "it is empty" if not data else f"it is not JSON ({error})"
        raise ConfigError(f"{path} is damaged: {reason}; put it back as the run wrote it") from error


def _read_mapping(path: Path) -> dict[str, Any]:
    data = read_json(path)
    if not isinstance(data, dict):
        type_name = type(data).__name__
        raise ConfigError(f"{path} is damaged: found {type_name}, expected a mapping as the run wrote it")
    return data


def read_config(folder: Path) -> dict[str, Any]:
    """Return `config.yaml` of a run folder as plain data: nothing in it is resolved or executed.

    Keys of older versions are renamed to the present keys (`upgrade_saved_config`).
    """
    data = plain_yaml.load(folder / "config.yaml")
    return upgrade_saved_config({key: value for key, value in data.items() if key != "hydra"})


def write_config(folder: Path, config: RunConfig) -> None:
    """Write `config.yaml`."""
    write_text(folder / "config.yaml", plain_yaml.dump(to_plain(config)))


def nearest_runs_hint(run: Path) -> str:
    """Return `; there is ...`: run folders below `run`, or else beside it, the nearest names first."""
    run_configs = [p.parent for depth in ("*", "*/*", "*/*/*") for p in run.glob(f"{depth}/config.yaml")]
    run_dirs = sorted(p for p in run_configs if ".hydra" not in p.parts)[-3:]
    if not run_dirs:
        siblings = {p.parent.name: p.parent for p in sorted(run.parent.glob("*/config.yaml"))}
        near_names = difflib.get_close_matches(run.name, siblings, 3, 0.6) or list(siblings)[-3:]
        run_dirs = [siblings[name] for name in near_names]
    return f"; there is {', '.join(map(str, run_dirs))}" if run_dirs else ""


class RunFolder:
    """The folder of a run, as a context manager: an exception in the block marks the run failed or killed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None
        self._folder_identity: FolderIdentity | None = None  # set once the folder is locked
        self._step = 0
        self._last_heartbeat = 0.0
        self._log: logging.Handler | None = None
        self._has_ended = False  # a final status has been written
        # `has_started`: errors may change the status. `reopen` sets both to False, `restart` sets
        # `has_started` again.
        self.is_new = self.has_started = True
        self._is_resumable = False  # true for a new folder once it has what a resume needs

    @classmethod
    def create(cls, config: RunConfig, path: Path | None = None) -> RunFolder:
        """Create and lock the folder; a new name that is taken gets another id.

        A requested `path` may exist if it is empty.
        """
        while True:
            folder = cls(path or run_path(config))
            try:
                folder.path.mkdir(parents=True, exist_ok=path is not None)
                if path is not None and any(path.iterdir()):
                    raise ConfigError(f"{path} is not empty; name another folder")
                folder._acquire()
                return folder
            except FileExistsError as error:
                if path is not None:
                    raise ConfigError(f"{path} is a file; name a folder") from error
            except OSError as error:
                raise StorageError(
                    f"{folder.path} cannot be written: {error.strerror}; "
                    "choose another place with run_root=FOLDER"
                ) from error

    @classmethod
    def reopen(cls, path: Path) -> RunFolder:
        """Lock the folder of a run that ended or was killed; nothing is changed until `restart`."""
        folder = cls(path)
        folder.is_new = folder.has_started = False
        for attempt in range(LOCK_TRIES):  # `is_locked` in another process takes the lock for a moment
            try:
                folder._acquire()
                return folder
            except BlockingIOError as error:
                folder._release()
                if attempt == LOCK_TRIES - 1:
                    raise BusyError(locked_message(path)) from error
                time.sleep(0.02)
            except OSError as error:
                raise StorageError(f"{path} cannot be written: {error.strerror}") from error
        raise AssertionError

    def restart(self, step: int) -> None:
        """Mark the run as running again, from `step` on."""
        self.has_started, self._step = True, step
        self.write_status(RUNNING)

    def start(self, config: RunConfig, provenance: dict[str, Any]) -> None:
        """Write the configuration, provenance and status before the first step."""
        write_config(self.path, config)
        write_json(self.path / "provenance.json", provenance)
        self.write_status(RUNNING)
        self._is_resumable = True

    def write_status(self, state: str, reason: str = "", retry_seconds: float = 0.0) -> None:
        """Write `status.json`; raise `StorageError` if the folder was moved or replaced."""
        if self._folder_identity is not None:
            self._folder_identity.require_unmoved()
        now = datetime.now(UTC).isoformat(timespec="seconds")
        data = {
            "status": state,
            "step": self._step,
            "reason": reason,
            "time": now,
            "pid": os.getpid(),
        }
        write_json(self.path / "status.json", data, retry_seconds)
        self._has_ended = state != RUNNING
        if state != RUNNING:
            log.info("%s at step %d: %s", state, self._step, reason)

    def update_step(self, step: int) -> None:
        """Record the progress; it is written to `status.json` every few seconds.

        Raise `StorageError` if the folder was moved or replaced.
        """
        self._step = step
        if self._folder_identity is not None:
            self._folder_identity.require_unmoved()
        if time.monotonic() - self._last_heartbeat >= HEARTBEAT_SECONDS:
            self._last_heartbeat = time.monotonic()
            try:
                self.write_status(RUNNING)
            # the session waits for the disk, and reports when it gives up
            except StorageError as error:
                print(f"rlox: {error}; the run goes on; its rows wait in memory", file=sys.stderr)

    def discard(self) -> None:
        """Remove the folder of a run that never started, and parents that are then empty."""
        self._release()
        shutil.rmtree(self.path, ignore_errors=True)
        for parent in list(self.path.parents)[:2]:
            try:
                parent.rmdir()
            except OSError:
                return

    def __enter__(self) -> Self:
        try:
            self._log = _RunLogHandler(self.path / "log.txt", encoding="utf-8")
        except OSError as error:
            if self.is_new:
                self.discard()
            self._release()
            raise StorageError(f"{self.path / 'log.txt'} cannot be written: {error.strerror}") from error
        self._log.setFormatter(_ScrubbingFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logging.getLogger("rlox").setLevel(logging.INFO)
        logging.getLogger("rlox").addHandler(self._log)
        logging.captureWarnings(True)
        logging.getLogger("py.warnings").addHandler(self._log)
        repeat_warnings()  # MuJoCo's, from before this log was open
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if not self.has_started:
                self._log_resume_error(error)
            elif self._has_ended:  # an error while loggers finish does not change the status
                pass
            elif isinstance(error, (SignalInterrupt, KeyboardInterrupt)):
                if self.is_new and not self._is_resumable:
                    self.discard()
                else:
                    self.write_status(KILLED, "signal")
            elif isinstance(error, ConfigError) and self.is_new and self._step == 0:
                self.discard()
            elif error is not None:
                self._mark_failed(error)
        finally:
            self._detach_log()
            self._release()

    def _log_resume_error(self, error: BaseException | None) -> None:
        if isinstance(error, Exception) and not isinstance(error, ConfigError):
            log.error("the run could not be resumed", exc_info=error)

    def _mark_failed(self, error: BaseException) -> None:
        log.error("the run failed", exc_info=error)
        with suppress(StorageError):  # if the disk is full, the error itself says so
            self.write_status(FAILED, redact(f"{type(error).__name__}: {error}"))

    def _detach_log(self) -> None:
        if self._log is None:
            return
        for name in ("rlox", "py.warnings"):
            logging.getLogger(name).removeHandler(self._log)
        logging.captureWarnings(False)
        clear_warnings()  # MuJoCo's
        with suppress(OSError):  # lines that a full disk refuses are lost, like earlier ones
            self._log.close()

    def _acquire(self) -> None:
        # not a marker file: the kernel drops a lock when the process dies
        self._lock = os.open(
            self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        if not lock_file(self._lock):
            print(
                f"rlox: warning: the disk of {self.path} has no locks; nothing keeps another process from "
                "writing to the run as well",
                file=sys.stderr,
            )
        with suppress(OSError):  # only for the message of a process that finds the folder locked
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, str(os.getpid()).encode(), 0)
        self._folder_identity = FolderIdentity(self.path)

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


class _ScrubbingFormatter(logging.Formatter):
    """Formats records and tracebacks without secret values."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        return redact(super().format(record))


class _RunLogHandler(logging.FileHandler):
    """Handler of `log.txt`; while the disk is full, its lines are lost but the run goes on."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Do nothing: the heartbeat reports a full disk."""


def record_death(folder: Path, reason: str) -> None:
    """Mark a run whose process died as killed, unless another process has locked its folder."""
    with suppress(RloxError, OSError, ValueError, KeyError):
        run = RunFolder.reopen(folder)
        try:
            status = read_status(folder)
            if status["status"] == RUNNING:
                run._step = int(status["step"])
                run.write_status(KILLED, reason)
        finally:
            run._release()


def is_locked(folder: Path) -> bool | None:
    """Return whether a living process writes to the run folder; `None` on a disk without locks."""
    try:
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:  # no lock file, or a read-only folder
        return False
    try:
        return False if lock_file(descriptor) else None
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)


def locked_message(folder: Path) -> str:
    """Return the message about a locked folder."""
    pid = ""
    with suppress(OSError, ValueError):
        pid = f" (pid {int((folder / '.lock').read_text()[:20])})"
    return f"{folder} is running{pid}; wait for it, or stop it first"
