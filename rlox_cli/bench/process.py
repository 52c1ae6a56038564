"""Run the measuring process: it takes a request and returns events; it can run under valgrind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from rlox.errors import RloxError

MEASURE_SCRIPT = Path(__file__).resolve().parents[1] / "benchmarks" / "measure_suite.py"
# One thread for everything: libraries read these variables when they are loaded.
SINGLE_THREAD_ENV = {
    name: "1"
    for name in (
        "RLOX_THREADS",
        "RAYON_NUM_THREADS",
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
    )
}
MAX_ERROR_LENGTH = 300  # characters
# Callgrind writes its counts whenever this C function is called. `measure_suite.py` calls it only for that;
# the call itself changes nothing.
DUMP_FUNCTION = "getppid"


def find_valgrind() -> str | None:
    """Return the path of valgrind, if it is installed."""
    return shutil.which("valgrind")


def run_request(request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Start a process for the request and yield the events that it reports.

    With `mode=count` the process runs under callgrind. Raises `RloxError` if it dies or reports a failure.
    """
    with tempfile.TemporaryDirectory(prefix="rlox-bench-") as folder:
        counts_path = Path(folder) / "counts"
        command = [sys.executable, str(MEASURE_SCRIPT)]
        if request["mode"] == "count":
            tool = [
                "--tool=callgrind",
                f"--callgrind-out-file={counts_path}",
                f"--dump-before={DUMP_FUNCTION}",
            ]
            command = [str(find_valgrind()), *tool, *command]
        with (Path(folder) / "stderr").open("w+", encoding="utf-8", errors="replace") as stderr_file:
            yield from _run_process(command, {**request, "counts": str(counts_path)}, stderr_file)


def _run_process(
    command: list[str], request: Mapping[str, Any], stderr_file: Any
) -> Iterator[dict[str, Any]]:
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr_file,
        text=True,
        env={**os.environ, **SINGLE_THREAD_ENV, "PYTHONHASHSEED": "0"},  # a fixed seed: repeatable counts
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.close()
        except BrokenPipeError:
            pass  # the process has ended; its stderr says why
        for line in process.stdout:
            event = _parse_event(line)
            if event.get("event") == "failed":
                raise RloxError(str(event["reason"]))
            if event:
                yield event
        if process.wait() != 0:
            stderr_file.seek(0)
            error_text = stderr_file.read()[-MAX_ERROR_LENGTH:].strip()
            raise RloxError(f"the measuring process ended with {process.returncode}: {error_text}")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()


def _parse_event(line: str) -> dict[str, Any]:
    try:
        parsed = json.loads(line)
    except ValueError:  # a library printed something
        return {}
    return cast(dict[str, Any], parsed) if isinstance(parsed, dict) else {}
