"""Tests the data that a W&B server gets from online, resumed and synced runs, and from `wandb sync`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from faults.wandb_server import KEY, WandbServer
from helpers.waiting import PATIENCE

from rlox.configs import RunConfig, make_run
from rlox.loggers import METRICS, JsonLines, catch_up, read_rows
from rlox.loggers.follow import Delivery

pytest.importorskip("wandb")


@pytest.fixture
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[WandbServer]:
    with WandbServer(getattr(request, "param", True)).serving() as made:
        monkeypatch.setenv("WANDB_BASE_URL", made.url)
        monkeypatch.setenv("WANDB_API_KEY", KEY)
        yield made


def config(mode: str) -> RunConfig:
    own = {"name": "wandb", "mode": mode, "project": "poles", "group": "first"}
    labels = {"name": "a run", "tags": ["baseline", "v2"]}
    kwargs = {"api_token": "hunter2-hunter2", "g": 9.5}
    return make_run({"logger": {"wandb": own}, "run": labels, "env": {"kwargs": kwargs}})


def write(folder: Path, steps: list[int], mark: float = 0.0, cut: int = 0) -> None:
    """Write rows after the first `cut` rows."""
    file = folder / METRICS
    kept = file.read_bytes().splitlines(True)[:cut] if cut else []
    log = JsonLines(file, sum(map(len, kept)))
    for step in steps:
        log.write({"env_steps": step, "updates": step, "seconds": step / 7, "loss/policy": mark})
    log.close()


def losses(rows: list[dict[str, Any]]) -> list[tuple[int, float]]:
    return [(row["env_steps"], row["loss/policy"]) for row in rows]


def test_a_run_is_there_with_its_rows_configuration_result_and_files(
    server: WandbServer, tmp_path: Path
) -> None:
    write(tmp_path, [64, 128, 192])
    (tmp_path / "result.json").write_text('{"score": 3.5, "status": "done"}')
    assert catch_up(tmp_path, config("online"))["wandb"] == Delivery(3, 0, None)
    ((_, run),) = server.runs.items()
    assert losses(list(run["history"].values())) == [(64, 0.0), (128, 0.0), (192, 0.0)]
    assert (run["project"], run["displayName"], run["group"]) == ("poles", "a run", "first")
    assert run["tags"] == ["baseline", "v2"]
    assert run["config"]["algo"]["value"]["name"] == "ppo"
    assert run["config"]["env"]["value"]["kwargs"] == {"api_token": "***", "g": 9.5}
    assert run["summary"]["result/score"] == 3.5
    assert run["files"]["result.json"] == (tmp_path / "result.json").read_bytes()
    assert run["complete"] is True


@pytest.mark.slow
@pytest.mark.parametrize("server", [True, False], indirect=True, ids=["rewinds", "does not"])
def test_wandb_rewinds_removed_rows_or_appends_the_new_ones(server: WandbServer, tmp_path: Path) -> None:
    write(tmp_path, [64, 128, 192, 256])
    assert catch_up(tmp_path, config("online"))["wandb"] == Delivery(4, 0, None)
    write(tmp_path, [192, 256, 320], mark=1.0, cut=2)
    first = (tmp_path / METRICS).read_bytes().splitlines(True)[:2]
    position = f'{{"offset": {sum(map(len, first))}, "rows": 2}}'
    (tmp_path / "loggers" / "wandb.json").write_text(position)
    assert catch_up(tmp_path, config("online"))["wandb"] == Delivery(3, 0, None)
    (run,) = server.runs  # its id is the same
    old = [] if server.rewinds else [(192, 0.0), (256, 0.0)]
    new = [(192, 1.0), (256, 1.0), (320, 1.0)]
    assert losses(server.rows(run)) == [(64, 0.0), (128, 0.0), *old, *new]
    assert catch_up(tmp_path, config("online"))["wandb"] == Delivery(0, 0, None)
    assert len(server.rows(run)) == 5 + len(old)


def test_a_run_that_was_offline_is_sent_once_by_rlox_or_by_wandb_sync(
    server: WandbServer, tmp_path: Path
) -> None:
    write(tmp_path, [64, 128, 192])
    assert catch_up(tmp_path, config("offline"))["wandb"] == Delivery(3, 0, None)
    assert server.runs == {}
    (file,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    command = [sys.executable, "-m", "wandb", "sync", str(file.parent)]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        env={**os.environ},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = server.runs
    expected = losses(read_rows(tmp_path / METRICS))
    assert losses(server.rows(run)) == expected
    online = replace(config("offline"), logger=config("online").logger)
    assert catch_up(tmp_path, online)["wandb"] == Delivery(0, 0, None)
    assert losses(server.rows(run)) == expected
    assert list(server.runs) == [run]
    assert file.with_name(f"{file.name}.synced").exists()
