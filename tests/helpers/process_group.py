"""Runs a program in several processes of one group, as torchrun does."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from helpers.waiting import PATIENCE

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}


def start_group(arguments: Sequence[str | Path], size: int, folder: Path) -> list[subprocess.Popen[str]]:
    """Start `python ARGUMENTS` in `size` processes of one group, in `folder`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(size)}
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return [
        subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            env={
                **os.environ,
                **ONE_THREAD,
                **variables,
                **path,
                "RANK": str(r),
                "LOCAL_RANK": str(r),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
        )
        for r in range(size)
    ]


def wait_all(
    processes: Sequence[subprocess.Popen[str]], seconds: float = 4 * PATIENCE
) -> list[tuple[int, str, str]]:
    """Return exit code, standard output and error of each process; all of them have ended."""
    try:
        outputs = [process.communicate(timeout=seconds) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(p.returncode, *streams) for p, streams in zip(processes, outputs, strict=True)]
