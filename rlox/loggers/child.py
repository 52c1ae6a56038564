"""Sinks in a process of their own, so that a library that hangs, spins or prints disturbs no run.

The process has no argument that `ps` could show. It reads a line of JSON a call, answers with one, and ends
when its standard input or the process that started it does, whatever it is in the middle of.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, cast

from rlox.errors import StorageError
from rlox.loggers.base import Row
from rlox.loggers.reach import require_answer

__all__ = ["ChildSink"]

PATIENCE = 300.0  # seconds for a call, of several requests; a server may take 30 s for each
CHUNK = 65536
LONGEST = 400  # characters of an error
START = (
    "import json, sys\n"
    "hello = json.loads(sys.stdin.buffer.readline())\n"
    "sys.path[:] = hello['path']\n"
    "from rlox.loggers.serve import main\n"
    "main(hello)\n"
)


class ChildSink:
    """The sink that `rlox.loggers.serve` makes of `told`, started when it is first opened.

    A process that died or did not answer in `patience` seconds is replaced by a new one at the next `open`.
    Where there is a `server`, none is started before that answers: importing its library takes seconds of a
    core, perhaps of the only one.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        told: Mapping[str, Any],
        patience: float = PATIENCE,
        server: str | None = None,
    ) -> None:
        self.name = name
        self._told = {"sink": name, "folder": str(folder.absolute()), "told": told}
        self._patience = patience
        self._server = server
        self._process: subprocess.Popen[bytes] | None = None
        self._abandoned = False

    def open(self, rows: int) -> int:
        """As the sink itself, in a new process where there is none."""
        if self._process is None or self._process.poll() is not None:
            self._start()
        return int(self._ask({"call": "open", "rows": rows}))

    def write(self, rows: Sequence[Row]) -> None:
        """As the sink itself."""
        self._ask({"call": "write", "rows": rows})

    def finish(self) -> None:
        """As the sink itself."""
        self._ask({"call": "finish"})

    def close(self) -> None:
        """Have the sink close, and end its process."""
        if self._process is None or self._process.poll() is not None:
            return
        try:
            self._ask({"call": "close"})
        finally:
            self._kill()

    def abandon(self) -> None:
        """End the process in the middle of a call."""
        self._abandoned = True
        self._kill()

    def _start(self) -> None:
        if self._server is not None:
            require_answer(self.name, self._server)
        if self._abandoned:
            raise StorageError(f"logger {self.name} is waited for no longer")
        self._kill()
        self._process = subprocess.Popen(
            # a session of its own: Ctrl-C is for the run. Nothing of the current folder is imported
            [sys.executable, "-I", "-c", START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._tell(
            {
                "path": [str(Path(p).absolute()) for p in sys.path if p],
                "parent": os.getpid(),
                **self._told,
            }
        )
        if self._abandoned:  # meanwhile, by another thread
            self._kill()

    def _tell(self, message: Mapping[str, Any]) -> None:
        process = cast(subprocess.Popen[bytes], self._process)
        to = cast(IO[bytes], process.stdin)
        try:
            to.write(json.dumps(message).encode() + b"\n")
            to.flush()
        except (OSError, ValueError) as error:
            raise self._dead() from error

    def _ask(self, message: Mapping[str, Any]) -> Any:
        if self._process is None:
            raise StorageError(f"logger {self.name} is not open")
        self._tell(message)
        answer = json.loads(self._line())
        if "error" in answer:
            raise StorageError(str(answer["error"])[:LONGEST])
        return answer.get("result")

    def _line(self) -> bytes:
        """The next line of the process, or `StorageError` when it has died or takes too long."""
        process = cast(subprocess.Popen[bytes], self._process)
        stream, line = cast(IO[bytes], process.stdout).fileno(), b""
        deadline = time.monotonic() + self._patience
        with selectors.DefaultSelector() as waiting:
            waiting.register(stream, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not waiting.select(max(deadline - time.monotonic(), 0.0)):
                    self._kill()
                    raise StorageError(f"no answer within {self._patience:g} s")
                if not (part := os.read(stream, CHUNK)):
                    raise self._dead()
                line += part
        return line

    def _dead(self) -> StorageError:
        self._kill()
        code = self._process.returncode if self._process is not None else None
        return StorageError(f"the process that sends to {self.name} died (exit code {code})")

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
