"""Environments that change global state, leave resources behind, or are slow."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from faults.envs import hang

from helpers.waiting import PATIENCE

from .base import Line, register_broken


@register_broken("prints", "warning")
class PrintsToStdout(Line):
    def step(self, action: Any) -> Any:
        print(f"step {self.t}, action {action}")
        return super().step(action)


@register_broken("changes-folder")
class ChangesDirectory(Line):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        os.chdir(tempfile.gettempdir())
        return super().reset(seed=seed)


@register_broken("changes-environ", "warning")
class SetsVariables(Line):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        os.environ["RLOX_TEST_CHECKED"] = str(self.np_random.random())
        return super().reset(seed=seed)


@register_broken("changes-signals")
class ReplacesSigint(Line):
    def __init__(self) -> None:
        super().__init__()
        signal.signal(signal.SIGINT, lambda number, frame: None)


@register_broken("changes-numpy-errors", "warning")
class RaisesOnOverflow(Line):
    def step(self, action: Any) -> Any:
        np.seterr(over="raise")
        return super().step(action)


@register_broken("leaves-threads", "warning")
class LeavesAThread(Line):
    def __init__(self) -> None:
        super().__init__()
        self.end = threading.Event()
        threading.Thread(target=self.end.wait, args=(PATIENCE,), daemon=True).start()


@register_broken("leaves-processes", "warning")
class LeavesAProcess(Line):
    def __init__(self) -> None:
        super().__init__()
        process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(PATIENCE,))
        process.daemon = True
        process.start()


@register_broken("leaves-files", "warning")
class LeavesAFileOpen(Line):
    def __init__(self) -> None:
        super().__init__()
        open_files.append(Path(os.devnull).open())  # noqa: SIM115


open_files: list[Any] = []  # so the garbage collector does not close them


@register_broken("close-fails")
class CannotClose(Line):
    def close(self) -> None:
        raise RuntimeError("no window")


@register_broken("close-once")
class ClosesOnce(Line):
    closed = False

    def close(self) -> None:
        if self.closed:
            raise RuntimeError("already closed")
        self.closed = True


@register_broken("slow-step", "warning")
class SlowStep(Line):
    def step(self, action: Any) -> Any:
        time.sleep(0.15)
        return super().step(action)


@register_broken("process-died", is_isolated=True)
class KillsItsProcess(Line):
    def step(self, action: Any) -> Any:
        if self.t == 4:
            os._exit(7)
        return super().step(action)


@register_broken("no-answer", is_isolated=True)
class Hangs(Line):
    def step(self, action: Any) -> Any:
        if self.t == 4:
            hang()
        return super().step(action)
