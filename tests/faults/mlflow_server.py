"""Runs a real MLflow server in a separate process and reads its store."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from helpers.waiting import PATIENCE, until

STORE = "m.db"


@contextmanager
def mlflow_server(home: Path) -> Iterator[str]:
    """Yield the address of a server with its store in `home`; it runs until the block ends."""
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    store = ["--backend-store-uri", f"sqlite:///{home / STORE}"]
    files = ["--artifacts-destination", str(home / "files"), "--workers", "1"]
    command = [sys.executable, "-m", "mlflow", "server", "--port", str(port), *store, *files]
    env = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env=env, start_new_session=True, **quiet)
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        assert process.poll() is None, f"the server has ended with code {process.returncode}"
        with suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=PATIENCE):
            return True
        return False

    try:
        until(answers, "answer of the MLflow server", 3 * PATIENCE)
        yield url
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def rows_in_store(store: Path, run: str | None = None) -> list[tuple[int, float]]:
    """Return step and `seconds` of each row in a store, in order; of one run if its name is given."""
    query = (
        "SELECT step, value FROM metrics JOIN runs USING (run_uuid) "
        "WHERE key = 'seconds' AND coalesce(?, runs.name) = runs.name ORDER BY timestamp"
    )
    with closing(sqlite3.connect(store)) as opened:
        return [(step, value) for step, value in opened.execute(query, (run,))]
