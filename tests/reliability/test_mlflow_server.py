"""Tests that a real MLflow server has the rows of a run, also after the run was resumed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.mlflow_server import mlflow_server

from rlox.configs import make_run
from rlox.loggers import METRICS, JsonLines, catch_up
from rlox.loggers.follow import Delivery

mlflow = pytest.importorskip("mlflow")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a server process and return its address."""
    with mlflow_server(tmp_path_factory.mktemp("mlflow")) as url:
        yield url


def write(folder: Path, losses: dict[int, float], cut: int = 0) -> None:
    """Write rows after the first `cut` rows, and move the logger's position back to there."""
    file = folder / METRICS
    kept = file.read_bytes().splitlines(True)[:cut] if cut else []
    offset = sum(map(len, kept))
    log = JsonLines(file, offset)
    for step, loss in losses.items():
        log.write({"env_steps": step, "updates": step, "seconds": step / 7, "loss/policy": loss})
    log.close()
    (folder / "loggers").mkdir(exist_ok=True)
    (folder / "loggers" / "mlflow.json").write_text(f'{{"offset": {offset}, "rows": {cut}}}')


def series(client: Any, run: str, key: str) -> list[tuple[int, float]]:
    history = client.get_metric_history(run, key)
    return [(m.step, m.value) for m in sorted(history, key=lambda m: m.timestamp)]


@pytest.mark.slow
def test_mlflow_has_each_row_once_and_adds_changed_rows_of_a_resumed_run(server: str, tmp_path: Path) -> None:
    own = {"name": "mlflow", "tracking_uri": server, "experiment": "poles"}
    config = make_run({"logger": {"mlflow": own}, "run": {"name": "a run"}})
    (tmp_path / "result.json").write_text('{"score": 3.5, "status": "done", "env_steps": 256}')
    write(tmp_path, {64: 0.5, 128: 0.25, 192: 0.125, 256: 0.0625})
    assert catch_up(tmp_path, config, 200)["mlflow"] == Delivery(4, 0, None)
    client = mlflow.MlflowClient(server)
    (experiment,) = [e for e in client.search_experiments() if e.name == "poles"]
    (run,) = client.search_runs([experiment.experiment_id])
    there = run.info.run_id
    first = [(64, 0.5), (128, 0.25), (192, 0.125), (256, 0.0625)]
    assert series(client, there, "loss/policy") == first
    assert (run.info.run_name, run.info.status) == ("a run", "FINISHED")
    assert run.data.params["algo.name"] == "ppo"
    assert run.data.metrics["result/score"] == 3.5
    assert {f.path for f in client.list_artifacts(there)} == {"config.yaml", "result.json"}

    write(tmp_path, {192: 0.125, 256: 0.75, 320: 1.5}, cut=2)  # only the loss of 256 differs
    assert catch_up(tmp_path, config, 200)["mlflow"] == Delivery(3, 0, None)
    assert series(client, there, "loss/policy") == [*first, (256, 0.75), (320, 1.5)]
    steps = [64, 128, 192, 256, 320]
    assert series(client, there, "seconds") == [(step, step / 7) for step in steps]
    assert catch_up(tmp_path, config, 200)["mlflow"] == Delivery(0, 0, None)
    assert len(client.search_runs([experiment.experiment_id])) == 1


@pytest.mark.slow
def test_a_copied_folder_leaves_the_original_its_rows_and_every_sync_leaves_a_score(
    tmp_path: Path,
) -> None:
    address = f"sqlite:///{tmp_path}/ml.db"
    config = make_run({"logger": {"mlflow": {"name": "mlflow", "tracking_uri": address}}})
    first, copy = tmp_path / "first", tmp_path / "copy"
    first.mkdir()
    (first / "result.json").write_text('{"score": 3.5, "status": "done", "env_steps": 128}')
    write(first, {64: 0.5, 128: 0.25})
    assert catch_up(first, config, 200)["mlflow"] == Delivery(2, 0, None)
    shutil.copytree(first, copy)
    (copy / "result.json").write_text('{"score": 4.5, "status": "done", "env_steps": 192}')
    write(copy, {192: 0.125}, cut=2)
    assert catch_up(copy, config, 200)["mlflow"] == Delivery(3, 0, None)
    assert catch_up(first, config, 200)["mlflow"] == Delivery(0, 0, None)
    assert catch_up(copy, config, 200)["mlflow"] == Delivery(0, 0, None)
    client = mlflow.MlflowClient(address)
    (experiment,) = [e for e in client.search_experiments() if e.name == "rlox"]
    runs = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    rows = [(64, 0.5), (128, 0.25)]
    assert {name: series(client, run.info.run_id, "loss/policy") for name, run in runs.items()} == {
        "first": rows,
        "copy": [*rows, (192, 0.125)],
    }
    assert {name: series(client, run.info.run_id, "result/score") for name, run in runs.items()} == {
        "first": [(128, 3.5)],
        "copy": [(192, 4.5)],
    }
