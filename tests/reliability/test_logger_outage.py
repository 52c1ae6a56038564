"""A server that is no help costs a run nothing, and afterwards each row is there once."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from faults.dead_server import MODES, dead_server, marked
from faults.wandb_server import KEY, WandbServer

from rlox.loggers import read_rows

SMALL = (
    "env=CartPole-v1", "algo.n_steps=16", "algo.n_epochs=1", "algo.net_arch=[16]", "tuned=null",
    "algo.batch_size=64", "log.every=128", "eval.episodes=1", "device=cpu", "hydra.run.dir=run",
    "logger=[csv,wandb,mlflow]", "logger.wandb.mode=online",
    "logger.mlflow.tracking_uri='${oc.env:MLFLOW_TRACKING_URI}'",
)  # fmt: skip


def rlox(folder: Path, mark: str, url: str, *args: str) -> subprocess.Popen[str]:
    """A command in a process of its own, marked, both of whose servers are at `url`."""
    env = {
        **os.environ,
        "RLOX_TEST_MARK": mark,
        "WANDB_BASE_URL": url,
        "WANDB_API_KEY": KEY,
        "MLFLOW_TRACKING_URI": url,
    }
    command = [sys.executable, "-m", "rlox_cli.main", *args]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=folder, env=env, text=True, **pipes)


def gone(mark: str) -> bool:
    """Whether every process with the mark ends before long."""
    end = time.monotonic() + 60
    while left := marked(mark):
        if time.monotonic() > end:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            return False
        time.sleep(0.1)
    return True


def steps_at_mlflow(store: Path) -> list[tuple[int, float]]:
    with closing(sqlite3.connect(store)) as opened:
        asked = "SELECT step, value FROM metrics WHERE key = 'seconds' ORDER BY timestamp"
        return [(step, value) for step, value in opened.execute(asked)]


@pytest.mark.parametrize("mode", MODES)
def test_a_run_without_its_servers_is_whole_and_sync_sends_each_row_once(
    mode: str, tmp_path: Path
) -> None:
    mark = f"outage-{tmp_path.name}-{os.getpid()}"
    with dead_server(mode) as url:
        run = rlox(tmp_path, mark, url, "train", "total_steps=1280", *SMALL)
        _, told = run.communicate(timeout=300)
    assert run.returncode == 0, told
    for name in ("wandb", "mlflow"):
        assert f"logger {name} lacks 11 rows" in told
    assert "rlox sync" in told and "Traceback" not in told and url not in told
    assert gone(mark)
    rows = read_rows(tmp_path / "run" / "metrics.jsonl")
    assert len(rows) == 11
    assert json.loads((tmp_path / "run" / "result.json").read_text())["status"] == "done"

    store = tmp_path / "elsewhere.db"
    with WandbServer().serving() as server:
        args = ("sync", "run", f"mlflow.tracking_uri=sqlite:///{store}")
        sync = rlox(tmp_path, mark, server.url, *args)
        out, told = sync.communicate(timeout=300)
        assert (sync.returncode, "catch up, in 300 s at most" in told) == (0, True)
        assert len(told.splitlines()) == 1
    assert [line.split(": ", 1)[1] for line in sorted(out.splitlines())] == [
        "csv has every row, 0 sent now",
        "mlflow has every row, 11 sent now",
        "wandb (online) has every row, 11 sent now",
    ]
    assert steps_at_mlflow(store) == [(row["env_steps"], row["seconds"]) for row in rows]
    (there,) = server.runs
    found = [(row["env_steps"], row["seconds"]) for row in server.rows(there)]
    assert found == [(row["env_steps"], row["seconds"]) for row in rows]
    assert gone(mark)


def test_a_run_that_is_killed_while_its_servers_hang_leaves_no_process(tmp_path: Path) -> None:
    mark = f"killed-{tmp_path.name}-{os.getpid()}"
    with dead_server("hangs") as url:
        run = rlox(tmp_path, mark, url, "train", "total_steps=10000000", *SMALL)
        end = time.monotonic() + 120
        while len(marked(mark)) < 4 and time.monotonic() < end:  # it, two that send, W&B's service
            time.sleep(0.05)
        assert len(marked(mark)) >= 4
        run.send_signal(signal.SIGKILL)
        run.communicate()
        assert gone(mark)
