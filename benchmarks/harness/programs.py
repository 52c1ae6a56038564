"""Time the Rust programs of this repository by CPU time, in one process for each work."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from harness.case import Results

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = ROOT / "rust" / "tensor-libraries"
# by the last word of the example's name: crate, its workspace, the crate that computes matrix products
CRATES = {
    "cpu": ("rlox-nn", ROOT, "matrixmultiply"),
    "candle": ("rlox-candle", LIBRARIES, "candle-core"),
    "burn": ("rlox-burn", LIBRARIES, "burn-tensor"),
}


class ProgramError(Exception):
    """A program stopped."""


def example_path(engine: str) -> Path:
    """Return the path where cargo puts the example `steps_ENGINE`; it may not be built yet."""
    target = os.environ.get("CARGO_TARGET_DIR") or CRATES[engine][1] / "target"
    return Path(target, "release", "examples", f"steps_{engine}")


def build_command(engine: str) -> str:
    """Return the command that builds the example."""
    crate = CRATES[engine][0]
    return f"(cd rust/{crate} && cargo build --release --example steps_{engine})"


def math_library(engine: str) -> str:
    """Return the library that multiplies matrices for an engine, with its version from the lock file."""
    _, workspace, crate = CRATES[engine]
    lock = workspace / "Cargo.lock"
    text = lock.read_text("utf-8") if lock.is_file() else ""
    match = re.search(rf'name = "{crate}"\nversion = "([^"]+)"', text)
    return f"{crate} {match[1]}" if match else crate


class ProgramRunner:
    """Run `PROGRAM *arguments FOLDER`; the folder has the `arrays` as NAME.f32.

    A line with a number n makes the program do its work n times. A line `result` makes it write `result.f32`.
    The program answers each line with a line.
    """

    def __init__(self, program: Path, arguments: Sequence[object], arrays: Mapping[str, np.ndarray]) -> None:
        self._program = program
        self._folder = tempfile.TemporaryDirectory(prefix="rlox-program-")
        for name, array in arrays.items():
            array.astype(np.float32).tofile(Path(self._folder.name, f"{name}.f32"))
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the process)
        command, pipe = [str(program), *map(str, arguments), self._folder.name], subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self._stderr, text=True)
        self._clock = cpu_clock(self._process.pid)

    def sample(self, loops: int) -> float:
        """Return the CPU seconds of the process."""
        start = time.clock_gettime(self._clock)
        self._ask(str(loops))
        return time.clock_gettime(self._clock) - start

    def result(self) -> Results:
        """Return the result of the work after doing it once."""
        self._ask("1")
        self._ask("result")
        return {"result": np.fromfile(Path(self._folder.name, "result.f32"), np.float32)}

    def close(self) -> None:
        """End the process and remove its arrays."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()
        self._stderr.close()
        self._folder.cleanup()

    def _ask(self, line: str) -> None:
        """Send a line and read the answer.

        Raises:
            ProgramError: the program stopped; the message ends with its last lines.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            self._stderr.seek(0)
            raise ProgramError(f"{self._program} stopped:\n{self._stderr.read()[-2000:]}")


def cpu_clock(pid: int) -> int:
    """Return the clock of a process's CPU time, for `time.clock_gettime` (POSIX, clock_getcpuclockid)."""
    clock = ctypes.c_int()
    error = ctypes.CDLL(None).clock_getcpuclockid(pid, ctypes.byref(clock))
    if error:
        raise OSError(error, os.strerror(error), f"CPU clock of process {pid}")
    return clock.value
