"""The other end of `ChildSink`: a process that has one sink and does what it is told."""

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
from rlox.loggers.base import Sink, Spent, Told

__all__ = ["SINKS", "main"]

SINKS = {"wandb": "WandbSink", "mlflow": "MlflowSink"}  # module of this package: class
LOOKS = 0.5  # seconds between looks at whether the parent lives
NICE = 10  # the run goes first


def main(hello: Mapping[str, Any]) -> None:
    """Serve calls until the standard input ends; leaves the process without waiting for any thread."""
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    nothing = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # what libraries print
        os.dup2(nothing, stream)
    threading.Thread(target=_outlive_nobody, args=(hello["parent"],), daemon=True).start()
    os.nice(NICE)
    sink: Sink | None = None
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        answer: dict[str, Any]
        last = asked["call"] == "close"
        try:
            sink = sink or _made(hello)
            answer = {"result": _called(sink, asked)}
        except Exception as error:  # it is the other side that decides what to do
            last = last or isinstance(error, Spent)
            said = last or isinstance(error, RloxError)
            answer = {"error": f"{error if said else f'{type(error).__name__}: {error}'}"}
        answers.write(json.dumps(answer).encode() + b"\n")
        if last:
            break
    os._exit(0)


def _made(hello: Mapping[str, Any]) -> Sink:
    module = import_module(f"rlox.loggers.{hello['sink']}")
    made: Sink = getattr(module, SINKS[hello["sink"]])(Path(hello["folder"]), Told(**hello["told"]))
    return made


def _called(sink: Sink, asked: Mapping[str, Any]) -> int | None:
    if asked["call"] == "open":
        return sink.open(int(asked["rows"]))
    if asked["call"] == "write":
        sink.write(asked["rows"])
    elif asked["call"] == "finish":
        sink.finish()
    else:
        sink.close()
    return None


def _outlive_nobody(parent: int) -> None:
    """End with the parent, however it ends and whatever the other thread hangs in."""
    while os.getppid() == parent:
        time.sleep(LOOKS)
    os._exit(1)
