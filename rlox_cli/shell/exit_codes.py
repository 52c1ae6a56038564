"""Exit codes: their meanings, and the exit code of an error."""

from __future__ import annotations

import errno
import signal

from rlox.errors import ConfigError, EnvError, NonFiniteError, ShapeError, StorageError

OK, FAILED, WRONG_USE, NON_FINITE, ENVIRONMENT, STORAGE = 0, 1, 2, 3, 4, 5
SIGHUP, SIGINT, SIGTERM, SIGUSR1 = SIGNALS = 129, 130, 143, 128 + signal.SIGUSR1
DISK_FULL_ERRORS = (errno.EDQUOT, errno.EFBIG, errno.ENOSPC)  # no space left
# Disk errors that can arrive without a StorageError, as when the last lines of a log are written.
_DISK_ERRORS = (*DISK_FULL_ERRORS, errno.EIO, errno.EROFS)

MEANINGS = {
    OK: "done",
    FAILED: "failed",
    WRONG_USE: "wrong use: configuration, unknown names, a missing optional package",
    NON_FINITE: "stopped at a non-finite number",
    ENVIRONMENT: "the environment failed",
    STORAGE: "a file cannot be written",
    SIGHUP: "the terminal was closed (SIGHUP)",
    SIGINT: "Ctrl-C",
    SIGTERM: "SIGTERM",
    SIGUSR1: "SIGUSR1, which schedulers send before a job's time limit",
}


def is_disk_error(error: OSError) -> bool:
    """Return whether this is an error of the disk that no rlox error wraps."""
    return type(error) is OSError and error.errno in _DISK_ERRORS


def exit_code(error: BaseException) -> int:
    """Return the exit code for an error."""
    table = (
        (ConfigError, WRONG_USE),
        (ShapeError, WRONG_USE),  # a dataset or a policy from another environment
        (NonFiniteError, NON_FINITE),
        (EnvError, ENVIRONMENT),
        (StorageError, STORAGE),
    )
    if isinstance(error, OSError) and is_disk_error(error):
        return STORAGE
    return next((code for kind, code in table if isinstance(error, kind)), FAILED)
