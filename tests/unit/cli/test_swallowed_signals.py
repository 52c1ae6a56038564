"""Tests that the command stops even if a library catches the exception of the signal handler."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from helpers.cli import TINY, Cli

import rlox.build
from rlox_cli.config import validate
from rlox_cli.runs import provenance
from rlox_cli.runs.run_folder import read_status
from rlox_cli.runs.signals import SignalInterrupt, Signals


def swallowing(real: Any, otherwise: Exception | None) -> Any:
    """Return a function that sends a signal, suppresses its exception, and then raises or calls `real`."""

    def called(*args: Any) -> Any:
        with contextlib.suppress(BaseException):
            os.kill(os.getpid(), signal.SIGHUP)
        if otherwise:
            raise otherwise
        return real(*args)

    return called


@pytest.mark.parametrize("otherwise", [AttributeError("no such node"), None])
@pytest.mark.parametrize("place", [(validate, "run_config"), (rlox.build, "build")])
def test_a_signal_before_the_run_stops_rlox_train_without_a_folder(
    cli: Cli, tmp_path: Path, monkeypatch: Any, place: tuple[Any, str], otherwise: Exception | None
) -> None:
    owner, name = place
    monkeypatch.setattr(owner, name, swallowing(getattr(owner, name), otherwise))
    result = cli("train", *TINY)
    assert (result.code, result.out, result.err) == (129, "", "rlox train: stopped\n")
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_has_begun_is_killed_and_can_be_resumed(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(provenance, "collect", swallowing(provenance.collect, None))
        assert cli("train", *TINY, "hydra.run.dir=run").code == 129
    assert read_status(Path("run"))["status"] == "killed"
    assert not list(tmp_path.rglob("step-*"))
    assert cli("resume", "run").code == 0
    assert read_status(Path("run"))["status"] == "done"


@pytest.mark.parametrize("command", [("list", "algo"), ("evaluate", "nowhere")])
def test_a_command_reports_stopped_and_not_the_error_after_a_signal(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setattr("rlox_cli.main._require_current_dir", swallowing(None, ValueError("half made")))
    result = cli(*command)
    assert (result.code, result.err) == (129, f"rlox {command[0]}: stopped\n")


def test_signals_passes_on_errors_and_raises_interrupted_on_sigterm() -> None:
    with pytest.raises(ValueError, match="its own"), Signals():
        raise ValueError("its own")
    with pytest.raises(SignalInterrupt), Signals():
        os.kill(os.getpid(), signal.SIGTERM)


class Dropped:
    """Its destructor sends a signal, or raises an error."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def __del__(self) -> None:
        if self.error:
            raise self.error
        os.kill(os.getpid(), signal.SIGINT)


def test_a_signal_in_a_destructor_is_not_shown_and_not_lost(monkeypatch: Any) -> None:
    shown: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", lambda found: shown.append(found.exc_value))
    signals = Signals()
    with pytest.raises(SignalInterrupt), signals:
        Dropped()
        assert (shown, signals.received_signal) == ([], signal.SIGINT)
        signals.raise_pending()
    with Signals():
        Dropped(ValueError("its own"))
    assert [str(error) for error in shown] == ["its own"]
