"""What the process that reads a file sends, checked: whatever it did with the file, it cannot do here."""

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
from rlox.offline.foreign.bounds import KINDS, ROW, TEXT, parsed
from rlox.offline.foreign.kinds import ALIASES, Raw
from rlox.stopping import check

__all__ = ["PATIENCE", "received"]

PATIENCE = 120.0  # seconds without a byte, after which a reader counts as stuck
FRAME = 1 << 30  # bytes of a block
SAID = 4096  # bytes of what a reader says last that are kept
READER = (sys.executable, "-P", "-m", "rlox.offline.foreign.reader")


def received(kind: str, path: Path, about: dict[str, Any]) -> Generator[Raw]:
    """The blocks of a file, read by a process of its own; what it says of itself goes into `about` before.

    `CheckpointError` for a file that is damaged, ends the reader or keeps it busy for ever; `ConfigError`
    for one that has something else in it than a dataset.
    """
    # no plugins of HDF5 are loaded, whatever the environment has set
    env = {**os.environ, "HDF5_PLUGIN_PRELOAD": "::", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*READER, kind, str(path.absolute())],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
    )  # fmt: skip
    try:
        pipe = _Pipe(process, path)
        while (block := _frame(pipe, path, about)) is not None:
            if block:
                yield block
    finally:
        process.kill()
        process.communicate()


class _Pipe:
    """What comes from the reader, so many bytes at a time, and the last that it says besides.

    That comes by a pipe of its own, for a reader may write no file; it is emptied all the while, or a reader
    that says much would wait for ever.
    """

    def __init__(self, process: subprocess.Popen[bytes], path: Path) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self._process, self._path = process, path
        self._fd, self._saying = process.stdout.fileno(), process.stderr.fileno()
        self._said, self._says_more = b"", True

    def read(self, n: int) -> bytearray:
        """`n` bytes."""
        found, at = bytearray(n), 0
        view = memoryview(found)
        while at < n:
            self._wait()
            got = os.readv(self._fd, [view[at : at + (1 << 20)]])
            if not got:
                self._ended()
            at += got
        return found

    def _wait(self) -> None:
        begin = time.monotonic()
        while not self._heard([self._fd]):
            self._be_patient(begin)

    def _heard(self, awaited: list[int]) -> bool:
        """Whether there is something from `awaited` within half a second, or the reader's next words."""
        ready = select.select([*awaited, *[self._saying] * self._says_more], [], [], 0.5)[0]
        if self._saying in ready:
            more = os.read(self._saying, 1 << 16)
            self._said, self._says_more = (self._said + more)[-SAID:], bool(more)
        return any(fd in ready for fd in awaited)

    def _be_patient(self, begin: float) -> None:
        check()
        if time.monotonic() - begin > PATIENCE:
            raise CheckpointError(
                f"{self._path}: its reader has made nothing of it for {PATIENCE:.0f} s; it is damaged"
            )

    def _ended(self) -> None:
        begin = time.monotonic()
        while self._says_more:
            self._heard([])
            self._be_patient(begin)
        code = self._process.wait()
        last = self._said.decode(errors="replace").strip().splitlines()[-1:] or ["nothing was said"]
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise CheckpointError(
            f"{self._path} ended the process that read it ({how}: {last[0]}); the file is damaged"
        )


def _frame(pipe: _Pipe, path: Path, about: dict[str, Any]) -> Raw | None:
    """The next block, an empty one where the file was told about; None behind the last."""
    size = int.from_bytes(pipe.read(8), "little")
    if size > 2 * TEXT:
        raise CheckpointError(f"{path}: its reader says {size:,} bytes of header")
    header = parsed(bytes(pipe.read(size)), f"what the reader of {path} says")
    if "error" in header:
        kinds = {"MissingExtraError": MissingExtraError, "ConfigError": ConfigError}
        raise kinds.get(str(header.get("kind")), CheckpointError)(str(header["error"]))
    try:
        if "end" in header:
            return None
        if "about" in header:
            about.update(header["about"])
            return {}
        return {str(name): _array(pipe, path, str(name), *of) for name, *of in header["columns"]}
    except CheckpointError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path}: its reader says what is no block of rows: {error}"
        ) from error


def _array(pipe: _Pipe, path: Path, name: str, dtype: str, shape: list[int]) -> Any:
    kind, sizes = np.dtype(dtype), [int(n) for n in shape]
    need = kind.itemsize * int(np.prod(sizes, dtype=object))
    row = kind.itemsize * int(np.prod(sizes[1:], dtype=object))
    if name not in ALIASES or kind.kind not in KINDS or min(sizes) < 0 or row > ROW or need > FRAME:
        raise CheckpointError(f"{path}: its reader says {name} is {dtype} of {shape}")
    return np.frombuffer(pipe.read(need), kind).reshape(sizes)
