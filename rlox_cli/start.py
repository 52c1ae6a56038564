"""The script `rlox`: from its first moment on, Ctrl-C ends it without a traceback."""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    """Run the command line; its exit code."""
    # until the command has handlers of its own: imports take a while, and there is nothing to save
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(130))
    try:
        from rlox_cli.main import main
    except ImportError as error:
        if error.name != "rlox":  # rlox itself, where another package shares its folder
            raise
        print(f"rlox: {error}", file=sys.stderr)
        return 1
    return main()
