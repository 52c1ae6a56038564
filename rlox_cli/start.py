"""The script `rlox`: from its first moment on, Ctrl-C ends it without a traceback."""

from __future__ import annotations

import os
import signal


def main() -> int:
    """Run the command line; its exit code."""
    # until the command has handlers of its own: imports take a while, and there is nothing to save
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(130))
    from rlox_cli.main import main

    return main()
