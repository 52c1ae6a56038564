"""Use one thread everywhere: the libraries read these variables when they are loaded."""

from __future__ import annotations

import os
import sys

from rlox_cli.bench.process import SINGLE_THREAD_ENV


def ensure_single_threaded() -> None:
    """Restart this program with the variables, unless they are already set."""
    if any(os.environ.get(name) != value for name, value in SINGLE_THREAD_ENV.items()):
        os.execve(
            sys.executable,
            [sys.executable, *sys.orig_argv[1:]],
            {**os.environ, **SINGLE_THREAD_ENV},
        )
