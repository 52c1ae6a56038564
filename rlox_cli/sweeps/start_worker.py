"""The start script of a sweep's worker: signals are blocked, and `sys.path` is its parent's.

Standard input carries orders and standard output events. Both are moved to other descriptors, which the
rest of the process and its children do not use.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> int:
    """Run the ordered jobs and return the exit code."""
    orders, events = os.fdopen(os.dup(0), "rb"), os.dup(1)
    devnull = os.open(os.devnull, os.O_RDWR)
    os.dup2(devnull, 0)
    os.dup2(2, 1)  # output that bypasses Python's streams is text, not events
    os.close(devnull)
    first = orders.readline()
    if not first:
        return 1
    worker_init = json.loads(first)
    sys.path[:] = worker_init["path"]
    from rlox_cli.sweeps.worker import serve

    return serve(worker_init, orders, events)


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # a thread still waits for orders, and threads of libraries may never end
