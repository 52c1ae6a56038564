"""The script `rlox`: Ctrl-C ends it without a traceback, also while it starts."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path


def main() -> int:
    """Run the command line and return its exit code."""
    # for the time until the command has its own handlers: imports take a while, and nothing is to save yet
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(130))
    site_packages = Path(__file__).resolve().parents[1]
    # rlox/__init__.py checks this, too, but it is the other project's file if that was installed later
    for metadata_dir in site_packages.glob("rlox-*.dist-info"):
        print(
            f"rlox: the package {metadata_dir.stem}, another project or an rlox from before its package was "
            f"called rlox-runner, shares the folder {site_packages / 'rlox'} with this one: pip uninstall "
            "rlox rlox-runner, then install this one again",
            file=sys.stderr,
        )
        return 1
    from rlox_cli.main import main

    return main()
