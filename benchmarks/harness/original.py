"""The original rlox, measured by a child process that lives as long as the run."""

from __future__ import annotations

import base64
import io
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.case import Results
from harness.peers import ORIGINAL_VERSION

WORKER = Path(__file__).with_name("original_worker.py")
CACHE = Path(__file__).resolve().parents[1] / ".cache"
VARIABLE = "RLOX_ORIGINAL_PYTHON"


class OriginalError(Exception):
    """The child cannot be started, or it stopped."""


def find_python(given: str | None) -> Path | None:
    """The interpreter named on the command line, else in the environment, else the one installed here."""
    named = given or os.environ.get(VARIABLE)
    if named:
        if not Path(named).is_file():
            raise OriginalError(f"{named} is not an interpreter; expected a Python with rlox 1.2.0")
        return Path(named)
    cached = interpreter_of(CACHE / "original")
    return cached if cached.is_file() else None


def interpreter_of(environment: Path) -> Path:
    """The Python of a virtual environment."""
    folder = "Scripts" if os.name == "nt" else "bin"
    return environment / folder / "python"


def install(folder: Path = CACHE / "original") -> Path:
    """Makes a virtual environment with the original in it; returns its interpreter."""
    python = interpreter_of(folder)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    wanted = [f"rlox=={ORIGINAL_VERSION}", "numpy>=2.2,<3", "gymnasium>=1.2,<2"]
    subprocess.run([str(python), "-m", "pip", "install", "-q", *wanted], check=True)
    return python


class Original:
    """The child process; started by the first request."""

    def __init__(self, python: Path | None, worker: Path = WORKER) -> None:
        self.python = python
        self._worker = worker
        self._child: subprocess.Popen[str] | None = None
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the child)
        self._ids = itertools.count()

    def runner(
        self, workload: str, arrays: Sequence[NDArray[Any]], **options: object
    ) -> OriginalRunner:
        """A workload of `original_worker.py` on these arrays, ready to be sampled."""
        key = next(self._ids)
        self.ask(
            do="prepare",
            id=key,
            workload=workload,
            arrays=[encode(array) for array in arrays],
            options=options,
        )
        return OriginalRunner(self, key)

    def ask(self, **request: object) -> dict[str, Any]:
        """One request and its answer.

        Raises:
            OriginalError: the child stopped; the message ends with its last lines.
        """
        child = self._child or self._start()
        assert child.stdin is not None and child.stdout is not None
        try:
            child.stdin.write(json.dumps(request) + "\n")
            child.stdin.flush()
            line = child.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise OriginalError(f"{self.python} stopped at {request['do']}:\n{self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """Ends the child, if it runs."""
        if self._child is not None:
            assert self._child.stdin is not None
            self._child.stdin.close()
            self._child.wait(timeout=30)
            self._child = None
        self._stderr.close()

    def _start(self) -> subprocess.Popen[str]:
        if self.python is None:
            raise OriginalError("no interpreter with the original rlox")
        command = [str(self.python), "-I", str(self._worker)]
        pipe = subprocess.PIPE
        self._child = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=self._stderr, text=True
        )
        return self._child

    def _last_words(self) -> str:
        self._stderr.seek(0)
        return self._stderr.read()[-2000:]


class OriginalRunner:
    """One prepared workload of the child."""

    def __init__(self, original: Original, key: int) -> None:
        self._original = original
        self._key = key

    def sample(self, loops: int) -> float:
        """Seconds by the child's own clock, without the way there and back."""
        seconds: float = self._original.ask(do="sample", id=self._key, loops=loops)["seconds"]
        return seconds

    def result(self) -> Results:
        """What the workload gives."""
        arrays = self._original.ask(do="result", id=self._key)["arrays"]
        return {name: decode(text) for name, text in arrays.items()}

    def close(self) -> None:
        """Lets the child forget the workload."""
        self._original.ask(do="drop", id=self._key)


def encode(array: NDArray[Any]) -> str:
    """An array as base64 text."""
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return base64.b64encode(buffer.getvalue()).decode()


def decode(text: str) -> NDArray[Any]:
    """An array from its base64 text."""
    array: NDArray[Any] = np.load(io.BytesIO(base64.b64decode(text)), allow_pickle=False)
    return array
