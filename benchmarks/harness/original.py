"""Measure the original rlox in child processes, one for each workload."""

from __future__ import annotations

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

WORKER_SCRIPT = Path(__file__).with_name("original_worker.py")
CACHE = Path(__file__).resolve().parents[1] / ".cache"
PYTHON_VARIABLE = "RLOX_ORIGINAL_PYTHON"


class OriginalError(Exception):
    """The child process cannot start, or it has stopped."""


def find_python(argument: str | None) -> Path | None:
    """Return the interpreter of the command line, else of the environment, else the one installed here."""
    path_text = argument or os.environ.get(PYTHON_VARIABLE)
    if path_text:
        if not Path(path_text).is_file():
            raise OriginalError(f"{path_text} is not an interpreter; expected a Python with rlox 1.2.0")
        return Path(path_text)
    cached = interpreter_of(CACHE / "original")
    return cached if cached.is_file() else None


def interpreter_of(environment: Path) -> Path:
    """Return the Python of a virtual environment."""
    folder = "Scripts" if os.name == "nt" else "bin"
    return environment / folder / "python"


def install(folder: Path = CACHE / "original") -> Path:
    """Make a virtual environment with the original; return its interpreter."""
    python = interpreter_of(folder)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    requirements = [f"rlox=={ORIGINAL_VERSION}", "numpy>=2.2,<3", "gymnasium>=1.2,<2"]
    subprocess.run([str(python), "-m", "pip", "install", "-q", *requirements], check=True)
    return python


class Original:
    """The interpreter of the original.

    Every workload has its own process, which holds only its arrays. The C library returns the memory of large
    results to the system until the process has freed still larger blocks. So in a shared process the earlier
    workloads would decide whether a result costs page faults.
    """

    def __init__(self, python: Path | None, worker_script: Path = WORKER_SCRIPT) -> None:
        self.python = python
        self._worker_script = worker_script
        self._processes: list[OriginalProcess] = []

    def runner(self, workload: str, arrays: Sequence[NDArray[Any]], **options: object) -> OriginalRunner:
        """Prepare a workload of `original_worker.py` on these arrays, ready to be sampled."""
        process = self.start()
        process.ask(
            do="prepare",
            workload=workload,
            arrays=[process.write(array) for array in arrays],
            options=options,
        )
        return OriginalRunner(process)

    def start(self) -> OriginalProcess:
        """Start a new process."""
        if self.python is None:
            raise OriginalError("no interpreter with the original rlox")
        self._processes.append(OriginalProcess(self.python, self._worker_script))
        return self._processes[-1]

    def ask(self, **request: object) -> dict[str, Any]:
        """Return the answer of a new process to one request."""
        process = self.start()
        try:
            return process.ask(**request)
        finally:
            process.close()

    def close(self) -> None:
        """End the processes that still run."""
        for process in self._processes:
            process.close()
        self._processes.clear()


class OriginalProcess:
    """A process of the original's interpreter and a folder for its arrays."""

    def __init__(self, python: Path, worker_script: Path) -> None:
        self._python = python
        self._folder = tempfile.TemporaryDirectory(prefix="rlox-original-")
        self._n_written = 0
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the child)
        command, pipe = [str(python), "-I", str(worker_script)], subprocess.PIPE
        self._process: subprocess.Popen[str] | None = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=self._stderr, text=True
        )

    def write(self, array: NDArray[Any]) -> str:
        """Write the array to a file; return its path."""
        self._n_written += 1
        path = Path(self._folder.name, f"{self._n_written}.npy")
        np.save(path, np.ascontiguousarray(array), allow_pickle=False)
        return str(path)

    def ask(self, **request: object) -> dict[str, Any]:
        """Send a request and return the answer.

        Raises:
            OriginalError: the child stopped; the message ends with its last lines.
        """
        process = self._process
        line = ""
        if process is not None:
            assert process.stdin is not None and process.stdout is not None
            try:
                process.stdin.write(json.dumps({**request, "folder": self._folder.name}) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except BrokenPipeError:
                pass
        if not line:
            raise OriginalError(f"{self._python} stopped at {request['do']}:\n{self._stderr_tail()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process and remove its arrays."""
        if self._process is None:
            return
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()
        self._process = None
        self._stderr.close()
        self._folder.cleanup()

    def _stderr_tail(self) -> str:
        if self._stderr.closed:
            return ""
        self._stderr.seek(0)
        return self._stderr.read()[-2000:]


class OriginalRunner:
    """A prepared workload and its process."""

    def __init__(self, process: OriginalProcess) -> None:
        self._process = process

    def sample(self, loops: int) -> float:
        """Return the seconds by the child's own clock, without the communication."""
        seconds: float = self._process.ask(do="sample", loops=loops)["seconds"]
        return seconds

    def result(self) -> Results:
        """Return the workload's results, in float64."""
        paths = self._process.ask(do="result")["arrays"]
        return {name: np.load(path, allow_pickle=False).astype(np.float64) for name, path in paths.items()}

    def close(self) -> None:
        """End the process."""
        self._process.close()
