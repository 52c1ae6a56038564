"""Tests that rlox asks a logger's server for an answer before it imports the logger's library."""

from __future__ import annotations

from pathlib import Path

import pytest
from faults.dead_server import dead_server
from faults.wandb_server import WandbServer
from helpers.waiting import PATIENCE

from rlox.errors import StorageError
from rlox.loggers import child_sink
from rlox.loggers.child_sink import ChildSink, require_answer


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("refuses", "no answer from its server: .*refused"),
        ("500", "its server answers with an error: 500"),
        ("slow", "its server answers with an error: 500"),
        ("hangs", "no answer from its server: timed out"),
        ("no such name", "no answer from its server: .*"),
    ],
)
def test_require_answer_reports_how_a_server_fails(mode: str, told: str) -> None:
    with dead_server(mode, slow=0.05) as url, pytest.raises(StorageError, match=told) as raised:
        require_answer("mlflow", url, timeout=0.3 if mode == "hangs" else PATIENCE)
    assert url not in str(raised.value)


def test_require_answer_accepts_every_answer_except_a_server_error() -> None:
    with WandbServer().serving() as server:
        require_answer("wandb", server.url)
    with dead_server("500", healthy=True) as url:
        require_answer("wandb", f"{url}/")
        require_answer("mlflow", url)
        with pytest.raises(StorageError, match="500"):  # /below/health belongs to another server
            require_answer("mlflow", f"{url}/below/")


@pytest.mark.parametrize(
    "address", ["sqlite:///mlflow.db", "postgresql://nowhere.invalid/db", "http://h:port"]
)
def test_require_answer_accepts_addresses_that_are_not_http(address: str) -> None:
    assert require_answer("mlflow", address) is None


def test_require_answer_accepts_a_server_that_does_not_speak_tls() -> None:
    with WandbServer().serving() as server:
        assert require_answer("wandb", server.url.replace("http:", "https:")) is None


def test_a_server_behind_a_proxy_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with dead_server("refuses") as url:
        for name in ("HTTPS_PROXY", "all_proxy", "WANDB_HTTP_PROXY"):
            with monkeypatch.context() as with_proxy:
                with_proxy.setenv(name, "http://proxy.invalid")
                assert require_answer("wandb", url) is None
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        with pytest.raises(StorageError):
            require_answer("wandb", url)


def test_no_process_is_started_for_a_server_that_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*args: object, **named: object) -> None:
        raise AssertionError("a process")

    monkeypatch.setattr(child_sink.subprocess, "Popen", started)
    with dead_server("refuses") as url:
        sink = ChildSink("mlflow", tmp_path, {}, server=url)
        with pytest.raises(StorageError, match="refused"):
            sink.open(0)
        with pytest.raises(AssertionError, match="a process"):
            ChildSink("mlflow", tmp_path, {}).open(0)
    sink.close()
