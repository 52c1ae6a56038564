"""Sinks in their own process, so that a library that hangs, spins or prints does not disturb the run.

The process gets no arguments that `ps` could show. It reads one line of JSON per call and answers with one
line. It ends when its standard input or its parent process ends, even in the middle of a call. It starts only
if its server answers.
"""

from __future__ import annotations

import json
import os
import selectors
import ssl
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import IO, Any, cast
from urllib.parse import SplitResult, urlsplit

from rlox.errors import StorageError
from rlox.loggers.base import Row

__all__ = ["ChildSink", "require_answer"]

ANSWER_TIMEOUT = 60.0  # seconds; a server may take 30 for a request
HEALTH_PATHS = {"wandb": "/healthz", "mlflow": "/health"}  # health endpoint, by logger


def require_answer(logger: str, address: str, timeout: float = ANSWER_TIMEOUT) -> None:
    """Raise `StorageError` if no server answers at an address, or only with a server error (5xx).

    Any other answer, even a refusal, is left to the logger's library, which handles keys, certificates and
    paths. Servers behind a proxy and non-HTTP addresses are left to the library, too.
    """
    url = urlsplit(address)
    if url.scheme not in ("http", "https") or _has_proxy():
        return
    try:
        status = _http_status(url, url.path.rstrip("/") + HEALTH_PATHS[logger], timeout)
    except ssl.SSLError:
        return
    except OSError as error:
        raise StorageError(f"no answer from its server: {error}") from error
    except (HTTPException, ValueError):
        return
    if status >= 500:
        raise StorageError(f"its server answers with an error: {status}")


def _http_status(url: SplitResult, path: str, timeout: float) -> int:
    host = url.hostname or ""
    connection = HTTPConnection(host, url.port, timeout=timeout)
    if url.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname = False  # nothing secret is sent and no content is read
        context.verify_mode = ssl.CERT_NONE
        connection = HTTPSConnection(host, url.port, timeout=timeout, context=context)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def _has_proxy() -> bool:
    """Whether the environment names a proxy: `https_proxy`, `ALL_PROXY`, `WANDB_HTTPS_PROXY`, ..."""
    names = (name.lower() for name, value in os.environ.items() if value)
    return any(name.endswith("_proxy") and name != "no_proxy" for name in names)


CALL_TIMEOUT = 300.0  # seconds per call; a call may make several requests, each of up to 60 s
READ_SIZE = 65536
MAX_ERROR_LENGTH = 400  # characters of an error
BOOTSTRAP_CODE = (
    "import json, sys\n"
    "hello = json.loads(sys.stdin.buffer.readline())\n"
    "sys.path[:] = hello['path']\n"
    "from rlox.loggers.serve import main\n"
    "main(hello)\n"
)


class ChildSink:
    """The sink that `rlox.loggers.serve` makes of `run_info`; its process starts at the first `open`.

    The next `open` replaces a process that died or did not answer within `timeout` seconds. If there is a
    `server`, the process starts only after the server answers: importing the library takes seconds of CPU
    time, perhaps on the only core.
    """

    def __init__(
        self,
        name: str,
        run_dir: Path,
        run_info: Mapping[str, Any],
        timeout: float = CALL_TIMEOUT,
        server: str | None = None,
    ) -> None:
        self.name = name
        self._setup_message = {"sink": name, "folder": str(run_dir.absolute()), "run_info": run_info}
        self._timeout = timeout
        self._server = server
        self._process: subprocess.Popen[bytes] | None = None
        self._is_abandoned = False

    def open(self, rows: int) -> int:
        """Forward to the sink; starts a new process if there is none."""
        if self._process is None or self._process.poll() is not None:
            self._start()
        return int(self._call({"call": "open", "rows": rows}))

    def write(self, rows: Sequence[Row]) -> None:
        """Forward to the sink."""
        self._call({"call": "write", "rows": rows})

    def finish(self) -> None:
        """Forward to the sink."""
        self._call({"call": "finish"})

    def close(self) -> None:
        """Close the sink and end its process."""
        if self._process is None or self._process.poll() is not None:
            return
        try:
            self._call({"call": "close"})
        finally:
            self._kill()

    def abandon(self) -> None:
        """End the process, even in the middle of a call."""
        self._is_abandoned = True
        self._kill()

    def _start(self) -> None:
        if self._server is not None:
            require_answer(self.name, self._server)
        if self._is_abandoned:
            raise StorageError(f"logger {self.name} was abandoned")
        self._kill()
        self._process = subprocess.Popen(
            # a new session: Ctrl-C reaches only the run; -I: no import from the current folder
            [sys.executable, "-I", "-c", BOOTSTRAP_CODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._send(
            {
                "path": [str(Path(p).absolute()) for p in sys.path if p],
                "parent": os.getpid(),
                **self._setup_message,
            }
        )
        if self._is_abandoned:  # meanwhile another thread called `abandon`
            self._kill()

    def _send(self, message: Mapping[str, Any]) -> None:
        process = cast(subprocess.Popen[bytes], self._process)
        stdin = cast(IO[bytes], process.stdin)
        try:
            stdin.write(json.dumps(message).encode() + b"\n")
            stdin.flush()
        except (OSError, ValueError) as error:
            raise self._died_error() from error

    def _call(self, message: Mapping[str, Any]) -> Any:
        if self._process is None:
            raise StorageError(f"logger {self.name} is not open")
        self._send(message)
        reply = json.loads(self._read_line())
        if "error" in reply:
            raise StorageError(str(reply["error"])[:MAX_ERROR_LENGTH])
        return reply.get("result")

    def _read_line(self) -> bytes:
        """Return the next line of the process; `StorageError` if it has died or takes too long."""
        process = cast(subprocess.Popen[bytes], self._process)
        stream, line = cast(IO[bytes], process.stdout).fileno(), b""
        deadline = time.monotonic() + self._timeout
        with selectors.DefaultSelector() as selector:
            selector.register(stream, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(deadline - time.monotonic(), 0.0)):
                    self._kill()
                    raise StorageError(f"no answer within {self._timeout:g} s")
                if not (chunk := os.read(stream, READ_SIZE)):
                    raise self._died_error()
                line += chunk
        return line

    def _died_error(self) -> StorageError:
        self._kill()
        code = self._process.returncode if self._process is not None else None
        return StorageError(f"the process that sends to {self.name} died (exit code {code})")

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
