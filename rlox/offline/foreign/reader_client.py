"""Client of the reader process: starts it and validates all data that it sends."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np

from rlox.errors import CheckpointError, ConfigError, MissingExtraError
from rlox.offline.foreign.formats import ALIASES, ColumnBlock
from rlox.offline.foreign.limits import MAX_ROW_BYTES, MAX_TEXT_BYTES, NUMBER_KINDS, parse_json
from rlox.stopping import raise_if_expired

__all__ = ["READ_TIMEOUT", "read_in_subprocess"]

READ_TIMEOUT = 120.0  # seconds without a byte, after which a reader counts as stuck
MAX_FRAME_BYTES = 1 << 30  # maximum bytes of one array in a block
MAX_STDERR_BYTES = 4096  # how many of the last bytes of standard error are kept
READER_COMMAND = (sys.executable, "-P", "-m", "rlox.offline.foreign.reader_process")


def read_in_subprocess(kind: str, path: Path, metadata: dict[str, Any]) -> Generator[ColumnBlock]:
    """Yield the blocks of a file, read in a subprocess; `metadata` is filled before the first block.

    Raises `CheckpointError` for a file that is damaged, crashes the reader or makes it hang, and
    `ConfigError` for a file that holds no dataset.
    """
    # HDF5 loads no plugins, even if the environment names some
    env = {**os.environ, "HDF5_PLUGIN_PRELOAD": "::", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*READER_COMMAND, kind, str(path.absolute())],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
    )  # fmt: skip
    try:
        pipe = _ReaderPipe(process, path)
        while (block := _read_frame(pipe, path, metadata)) is not None:
            if block:
                yield block
    finally:
        process.kill()
        process.communicate()


class _ReaderPipe:
    """The output of the reader process, and the last bytes of its standard error.

    Standard error is a pipe, because the reader may write no files. It is drained all the time, because a
    full pipe would block the reader.
    """

    def __init__(self, process: subprocess.Popen[bytes], path: Path) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self._process, self._path = process, path
        self._fd, self._stderr_fd = process.stdout.fileno(), process.stderr.fileno()
        self._stderr, self._is_stderr_open = b"", True

    def read(self, n: int) -> bytearray:
        """Read exactly `n` bytes."""
        data, position = bytearray(n), 0
        view = memoryview(data)
        while position < n:
            self._wait_readable()
            count = os.readv(self._fd, [view[position : position + (1 << 20)]])
            if not count:
                self._raise_ended()
            position += count
        return data

    def _wait_readable(self) -> None:
        started = time.monotonic()
        while not self._poll([self._fd]):
            self._check_timeout(started)

    def _poll(self, fds: list[int]) -> bool:
        """Wait up to 0.5 s; return whether one of `fds` is readable. Standard error is read meanwhile."""
        ready = select.select([*fds, *[self._stderr_fd] * self._is_stderr_open], [], [], 0.5)[0]
        if self._stderr_fd in ready:
            chunk = os.read(self._stderr_fd, 1 << 16)
            self._stderr, self._is_stderr_open = (self._stderr + chunk)[-MAX_STDERR_BYTES:], bool(chunk)
        return any(fd in ready for fd in fds)

    def _check_timeout(self, started: float) -> None:
        raise_if_expired()
        if time.monotonic() - started > READ_TIMEOUT:
            raise CheckpointError(
                f"{self._path}: its reader made no progress for {READ_TIMEOUT:.0f} s; the file is damaged"
            )

    def _raise_ended(self) -> None:
        started = time.monotonic()
        while self._is_stderr_open:
            self._poll([])
            self._check_timeout(started)
        code = self._process.wait()
        last_line = self._stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
        cause = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise CheckpointError(
            f"{self._path} ended the process that read it ({cause}: {last_line[0]}); the file is damaged"
        )


def _read_frame(pipe: _ReaderPipe, path: Path, metadata: dict[str, Any]) -> ColumnBlock | None:
    """Read the next block; empty for a metadata frame, None after the last block."""
    size = int.from_bytes(pipe.read(8), "little")
    if size > 2 * MAX_TEXT_BYTES:
        raise CheckpointError(f"{path}: its reader sent a header of {size:,} bytes")
    header = parse_json(bytes(pipe.read(size)), f"the header from the reader of {path}")
    if "error" in header:
        kinds = {"MissingExtraError": MissingExtraError, "ConfigError": ConfigError}
        raise kinds.get(str(header.get("kind")), CheckpointError)(str(header["error"]))
    try:
        if "end" in header:
            return None
        if "about" in header:
            metadata.update(header["about"])
            return {}
        return {str(name): _read_array(pipe, path, str(name), *spec) for name, *spec in header["columns"]}
    except CheckpointError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: its reader sent an invalid block of rows: {error}") from error


def _read_array(pipe: _ReaderPipe, path: Path, name: str, dtype: str, shape: list[int]) -> Any:
    kind, sizes = np.dtype(dtype), [int(n) for n in shape]
    total_bytes = kind.itemsize * int(np.prod(sizes, dtype=object))
    row_bytes = kind.itemsize * int(np.prod(sizes[1:], dtype=object))
    if (
        name not in ALIASES
        or kind.kind not in NUMBER_KINDS
        or min(sizes) < 0
        or row_bytes > MAX_ROW_BYTES
        or total_bytes > MAX_FRAME_BYTES
    ):
        raise CheckpointError(f"{path}: its reader sent an invalid column: {name} is {dtype} of {shape}")
    return np.frombuffer(pipe.read(total_bytes), kind).reshape(sizes)
