"""Tests that rlox writes no server address to a run's files and reads none from them."""

from __future__ import annotations

from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from rlox.configs import RunConfig, make_run, to_plain
from rlox.configs.loggers import MlflowConfig, WandbConfig
from rlox.errors import ConfigError, MissingExtraError, StorageError
from rlox.loggers import check_loggers, hyperparameters
from rlox.loggers.follow import Position, _read_position
from rlox.loggers.mlflow_store import as_storage_errors
from rlox.loggers.remote import SyncRecord, read_result, run_info
from rlox_cli.commands.sync import SyncConfig, WandbTarget
from rlox_cli.config import plain_yaml, validate
from rlox_cli.runs import syncing

URL = "http://tracking.example:5000/secret-path"
ASKS = "${oc.env:MLFLOW_TRACKING_URI}"


def run_with(uri: str | None) -> RunConfig:
    return make_run({"logger": {"mlflow": {"name": "mlflow", "tracking_uri": uri}}})


def test_a_written_configuration_has_a_variable_in_place_of_the_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = run_with(URL)
    text = plain_yaml.dump(to_plain(config))
    assert URL not in text and URL not in repr(config) and ASKS in text
    assert config.logger["mlflow"].address == URL
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://of.the.process")
    assert make_run(to_plain(config)).logger["mlflow"].address == "http://of.the.process"
    assert replace(config.logger["mlflow"], checkpoints=True).address == URL


def test_without_the_variable_a_run_that_asks_for_it_is_refused_before_it_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    pytest.importorskip("mlflow")
    with pytest.raises(ConfigError, match="export MLFLOW_TRACKING_URI=") as raised:
        check_loggers(run_with(ASKS).logger)
    assert not isinstance(raised.value, MissingExtraError)
    assert run_with(None).logger["mlflow"].address is None


@pytest.mark.parametrize("uri", ["http://me:hunter2@host", "postgresql://me:hunter2@host/db"])
def test_a_password_in_an_address_is_refused_unless_the_process_has_it(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(ConfigError, match="has a password") as raised:
        run_with(uri)
    assert "hunter2" not in str(raised.value)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert run_with(uri).logger["mlflow"].address == uri


def test_an_address_in_a_run_folder_is_refused_and_so_is_another_variable() -> None:
    data = to_plain(run_with(None))
    data["logger"]["mlflow"]["tracking_uri"] = "http://evil.example"
    with pytest.raises(ConfigError, match=r"which is not used from there"):
        validate.saved_config(data)
    data["logger"]["mlflow"]["tracking_uri"] = "http://${oc.env:AWS_SECRET_ACCESS_KEY}.evil.example"
    with pytest.raises(ConfigError, match="expected an address"):
        validate.saved_config(data)
    data["logger"]["mlflow"]["tracking_uri"] = ASKS
    assert isinstance(validate.saved_config(data).logger["mlflow"], MlflowConfig)


REFUSED = (
    "API request to http://h:5000/p/api/2.0/x failed with exception HTTPConnectionPool(host='h'): Max "
    "retries exceeded (Caused by NewConnectionError('... [Errno 111] Connection refused'))"
)


@pytest.mark.parametrize(
    ("error", "address", "said"),
    [
        (
            RuntimeError(REFUSED),
            "http://me:hidden@h:5000/p",
            "http://h:5000 cannot be reached: Connection refused; is it running? look at the address",
        ),
        (RuntimeError("Read timed out."), "https://h", "https://h does not answer in time"),
        (
            RuntimeError("API request to endpoint /x failed with error code 401 != 200. Body: 'no'"),
            "http://h",
            "http://h refuses the login (HTTP 401): export MLFLOW_TRACKING_USERNAME=",
        ),
        (RuntimeError("failed with error code 404 != 200"), "http://h", "is it an MLflow server?"),
        (RuntimeError("failed with error code 503 != 200"), "http://h", "its log says more"),
        (
            RuntimeError("(sqlite3.DatabaseError) file is not a database\n[SQL: SELECT 1]\n(more)"),
            "sqlite:////data/x.db",
            "sqlite:////data/x.db fails: RuntimeError: file is not a database; look at the address",
        ),
        (
            ModuleNotFoundError("No module named 'psycopg2'", name="psycopg2"),
            "postgresql://me:hidden@h/x",
            "postgresql://h/x needs a package that is not installed: pip install 'psycopg2-binary'",
        ),
        (
            OSError(28, "No space left"),
            None,
            "the store in the run folder fails: OSError: [Errno 28]",
        ),
        (ValueError(""), None, "the store in the run folder fails: ValueError"),
    ],
)
def test_an_mlflow_error_becomes_one_line_naming_the_store_and_the_remedy(
    error: Exception, address: str | None, said: str
) -> None:
    class Sink:
        _address = address

        @as_storage_errors
        def write(self) -> None:
            raise error

    with pytest.raises(StorageError) as raised:
        Sink().write()
    told = str(raised.value)
    assert said in told and "hidden" not in told and "SQL" not in told
    assert len(told.splitlines()) == 1


def test_a_folder_called_wandb_is_not_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ModuleSpec("wandb", None, is_package=True)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: folder)
    config = make_run({"logger": {"wandb": {"name": "wandb"}}})
    with pytest.raises(MissingExtraError, match="pip install 'wandb"):
        check_loggers(config.logger)


def test_values_named_like_secrets_are_not_sent(tmp_path: Path) -> None:
    kwargs: dict[str, Any] = {"api_token": "hunter2", "more": [{"password": "hunter2"}], "g": 1}
    run = make_run({"env": {"kwargs": kwargs}})
    sent = run_info({}, tmp_path, run)
    assert "hunter2" not in repr(sent)
    assert sent.hyperparameters["env.kwargs.g"] == 1
    assert "hunter2" not in str(hyperparameters(run))  # TensorBoard gets these


def test_files_are_sent_once_and_links_never(tmp_path: Path) -> None:
    (tmp_path / "plots").mkdir()
    (tmp_path / "plots" / "a.png").write_bytes(b"1")
    (tmp_path / "outside").write_text("private")
    (tmp_path / "result.json").symlink_to(tmp_path / "outside")
    checkpoint = tmp_path / "checkpoints" / "step-1"
    checkpoint.mkdir(parents=True)
    (checkpoint / "manifest.json").write_text("{}")
    (tmp_path / "checkpoints" / "last").symlink_to("step-1")
    (tmp_path / "checkpoints" / "best").symlink_to(tmp_path)
    record = SyncRecord(tmp_path, "wandb", "run")
    assert set(record.unsent(checkpoints=False)) == {"plots/a.png"}
    assert set(record.unsent(checkpoints=True)) == {"plots/a.png", "checkpoints/last"}
    record.note_sent(record.unsent(checkpoints=True))
    assert SyncRecord(tmp_path, "wandb", "run").unsent(checkpoints=True) == {}
    assert set(SyncRecord(tmp_path, "wandb", "another").unsent(checkpoints=True)) != set()
    (tmp_path / "plots" / "a.png").write_bytes(b"2")
    assert set(SyncRecord(tmp_path, "wandb", "run").unsent(checkpoints=True)) == {"plots/a.png"}


@pytest.mark.parametrize("uri", ["mlruns", "./mlruns", "file:///tmp/mlruns", "databricks"])
def test_mlflow_refuses_addresses_that_are_no_server(
    uri: str,
) -> None:
    with pytest.raises(ConfigError, match="expected the address of a server"):
        run_with(uri)


def test_sync_refuses_wandb_online_without_a_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    config = SyncConfig(run=str(tmp_path), wandb=WandbTarget("online"))
    with pytest.raises(ConfigError, match="export WANDB_API_KEY="):
        syncing._with_target(WandbConfig(), config)


def test_sync_ignores_cyclic_links_and_deeply_nested_json(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    for name, to in (("last", "best"), ("best", "last")):
        (tmp_path / "checkpoints" / name).symlink_to(to)
    (tmp_path / "loggers").mkdir()
    for name in ("loggers/wandb.runs.json", "loggers/wandb.json", "result.json"):
        (tmp_path / name).write_text("[" * 200_000)
    assert set(SyncRecord(tmp_path, "wandb", "run").unsent(checkpoints=True)) == {"result.json"}
    assert read_result(tmp_path) == {}
    assert _read_position(tmp_path / "loggers" / "wandb.json") == Position()
