"""The process of a `ChildSink`: it holds one sink and executes the calls that it reads."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from rlox.errors import RloxError
from rlox.loggers.base import RunInfo, Sink, SinkBrokenError

__all__ = ["SINKS", "main"]

SINKS = {"wandb": "WandbSink", "mlflow": "MlflowSink"}  # module in this package: class
POLL_SECONDS = 0.5  # seconds between checks of the parent process
NICE = 10  # the run has priority


def main(setup_message: Mapping[str, Any]) -> None:
    """Serve calls until standard input ends; exit the process without waiting for any thread."""
    reply_pipe = os.fdopen(os.dup(1), "wb", buffering=0)
    devnull = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # discard what libraries print
        os.dup2(devnull, stream)
    threading.Thread(target=_exit_with_parent, args=(setup_message["parent"],), daemon=True).start()
    os.nice(NICE)
    sink: Sink | None = None
    for line in sys.stdin.buffer:
        request = json.loads(line)
        reply: dict[str, Any]
        is_last = request["call"] == "close"
        try:
            sink = sink or _make_sink(setup_message)
            reply = {"result": _dispatch(sink, request)}
        except Exception as error:  # the parent process decides what to do
            is_last = is_last or isinstance(error, SinkBrokenError)
            is_explained = is_last or isinstance(error, RloxError)
            reply = {"error": f"{error if is_explained else f'{type(error).__name__}: {error}'}"}
        reply_pipe.write(json.dumps(reply).encode() + b"\n")
        if is_last:
            break
    os._exit(0)


def _make_sink(setup_message: Mapping[str, Any]) -> Sink:
    module = import_module(f"rlox.loggers.{setup_message['sink']}")
    sink: Sink = getattr(module, SINKS[setup_message["sink"]])(
        Path(setup_message["folder"]), RunInfo(**setup_message["run_info"])
    )
    return sink


def _dispatch(sink: Sink, request: Mapping[str, Any]) -> int | None:
    if request["call"] == "open":
        return sink.open(int(request["rows"]))
    if request["call"] == "write":
        sink.write(request["rows"])
    elif request["call"] == "finish":
        sink.finish()
    else:
        sink.close()
    return None


def _exit_with_parent(parent: int) -> None:
    """Exit when the parent process ends, even if the other thread hangs."""
    while os.getppid() == parent:
        time.sleep(POLL_SECONDS)
    os._exit(1)
