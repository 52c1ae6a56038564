"""Tests that a failing server costs a run nothing, and that it has each row once afterwards."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from faults.dead_server import MODES, dead_server, marked_processes
from faults.mlflow_server import rows_in_store
from faults.outage import LOGGERS, campaign, command, healthy, point, sync_and_count, with_loggers
from faults.wandb_server import WandbServer
from helpers.selection import FULL
from helpers.waiting import PATIENCE, until

from rlox.loggers import read_rows

SMALL = (
    "env=CartPole-v1", "algo.n_steps=16", "algo.n_epochs=1", "algo.net_arch=[16]", "tuned=null",
    "algo.batch_size=64", "log.every=128", "eval.episodes=1", "device=cpu", "hydra.run.dir=run",
    *with_loggers(("csv", *LOGGERS)),
)  # fmt: skip


IN_CI = [("refuses", False), ("500", False), ("hangs", True)]


def require_gone(mark: str) -> None:
    """Wait until every process with the mark ends; kill those that remain."""
    try:
        until(lambda: not marked_processes(mark), f"end of the processes marked {mark}")
    finally:
        for pid in marked_processes(mark):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("mode", "healthy"),
    [
        pytest.param(*case, marks=[] if case in IN_CI else pytest.mark.slow)
        for case in (*((mode, False) for mode in MODES), ("500", True), ("hangs", True))
    ],
)
def test_a_run_without_its_servers_is_whole_and_sync_sends_each_row_once(
    mode: str, healthy: bool, tmp_path: Path
) -> None:
    mark = f"outage-{tmp_path.name}-{os.getpid()}"
    with dead_server(mode, healthy=healthy) as url:
        run = command(tmp_path, ["train", "total_steps=1280", *SMALL], url, url, mark)
        _, told = run.communicate(timeout=5 * PATIENCE)
    assert run.returncode == 0, told
    for name in ("wandb", "mlflow"):
        assert f"logger {name} lacks 11 rows" in told
    assert "rlox sync" in told and "Traceback" not in told and url not in told
    require_gone(mark)
    rows = read_rows(tmp_path / "run" / "metrics.jsonl")
    assert len(rows) == 11
    assert json.loads((tmp_path / "run" / "result.json").read_text())["status"] == "done"

    store = tmp_path / "elsewhere.db"
    with WandbServer().serving() as server:
        args = ("sync", "run", f"mlflow.tracking_uri=sqlite:///{store}")
        sync = command(tmp_path, args, server.url, server.url, mark)
        out, told = sync.communicate(timeout=5 * PATIENCE)
        assert (sync.returncode, "catch up, in 300 s at most" in told) == (0, True)
        assert len(told.splitlines()) == 1
    assert [line.split(": ", 1)[1] for line in sorted(out.splitlines())] == [
        "csv has every row, 0 sent now",
        "mlflow has every row, 11 sent now",
        "wandb (online) has every row, 11 sent now",
    ]
    assert rows_in_store(store) == [point(row) for row in rows]
    (there,) = server.runs
    assert [point(row) for row in server.rows(there)] == [point(row) for row in rows]
    require_gone(mark)


@pytest.mark.skipif(not FULL, reason="pairs of runs, minutes; set RLOX_FULL=1")
def test_a_server_outage_costs_a_run_almost_no_cpu_time(tmp_path: Path) -> None:
    """The test runs one outage of `benchmarks/reliability/logger_outage.py`, which has all of them."""
    pairs = campaign("refuses", 0.0, LOGGERS, 16384, tmp_path)
    assert [pair.by_cpu >= 0.98 for pair in pairs] == [True, True]
    with healthy(tmp_path) as (wandb, url, store):
        sent = [sync_and_count(pair.folder, LOGGERS, wandb, url, store) for pair in pairs]
    assert [(s.code, s.rows, s.n_missing, s.n_duplicated) for s in sent] == [(0, 9, 0, 0)] * 2


def test_a_run_that_is_killed_while_its_servers_hang_leaves_no_process(tmp_path: Path) -> None:
    mark = f"killed-{tmp_path.name}-{os.getpid()}"
    with dead_server("hangs", healthy=True) as url:
        run = command(tmp_path, ["train", "total_steps=10000000", *SMALL], url, url, mark)
        # the run, two senders, W&B's service
        until(lambda: len(marked_processes(mark)) >= 4, "fourth process", 2 * PATIENCE)
        run.send_signal(signal.SIGKILL)
        run.communicate()
        require_gone(mark)
        assert marked_processes(mark) == []
