"""The first moments of a worker of a sweep, as a script: signals wait, and Python's path is its parent's.

Its standard input are orders, its standard output events: both are moved out of the way of whatever else
the process does, and of processes that it starts.
"""

from __future__ import annotations

import json
import os
import sys


def main() -> int:
    """Do the jobs that are ordered; the exit code."""
    orders, events = os.fdopen(os.dup(0), "rb"), os.dup(1)
    devnull = os.open(os.devnull, os.O_RDWR)
    os.dup2(devnull, 0)
    os.dup2(2, 1)  # what no stream of Python's writes is text
    os.close(devnull)
    first = orders.readline()
    if not first:
        return 1
    worker_init = json.loads(first)
    sys.path[:] = worker_init["path"]
    from rlox_cli.worker import serve

    return serve(worker_init, orders, events)


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # a thread still waits for orders, and threads of libraries for nothing
