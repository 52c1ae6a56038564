"""The process that reads a foreign file: `python -m rlox.offline.foreign.reader_process FORMAT PATH`.

It writes frames to standard output: the length of a JSON header in 8 bytes, the header, and the bytes of
the arrays that the header lists. The first frame holds the file's metadata; the last one marks the end, or
holds the error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from rlox.errors import ConfigError, MissingExtraError, RloxError

__all__ = ["RESOURCE_LIMITS", "frames", "main"]

# Resource limits of this process, against allocations of the libraries; the module `limits` checks the sizes
# that a file declares.
RESOURCE_LIMITS = {"RLIMIT_DATA": 3 << 30, "RLIMIT_FSIZE": 0, "RLIMIT_CORE": 0}


def frames(kind: str, path: Path) -> Iterator[tuple[dict[str, Any], list[Any]]]:
    """Yield each header with the arrays that it lists."""
    from rlox.offline.foreign.readers import READERS

    try:
        reading = READERS[kind](path)
        yield {"about": reading.metadata}, []
        for block in reading.blocks:
            arrays = {name: np.ascontiguousarray(column) for name, column in block.items()}
            column_list = [[name, array.dtype.str, array.shape] for name, array in arrays.items()]
            yield {"columns": column_list}, list(arrays.values())
        yield {"end": True}, []
    except RloxError as error:
        error_class = next(
            kind for kind in (MissingExtraError, ConfigError, RloxError) if isinstance(error, kind)
        )
        text = str(error)
        yield {"error": text if str(path) in text else f"{path}: {text}", "kind": error_class.__name__}, []
    except (
        Exception,
        MemoryError,
    ) as error:  # libraries raise any exception on bytes that are not their format
        yield {"error": f"{path}: {type(error).__name__}: {error}"[:2000], "kind": "damaged"}, []


def write_frames(out: BinaryIO, kind: str, path: Path) -> None:
    """Write all frames."""
    for header, arrays in frames(kind, path):
        text = json.dumps(header).encode()
        out.write(len(text).to_bytes(8, "little") + text)
        for array in arrays:
            out.write(array.reshape(-1).view(np.uint8).data)
    out.flush()


def apply_limits() -> None:
    """Set resource limits of this process, where the system supports them."""
    try:
        import resource
    except ImportError:  # Windows
        return
    for name, limit in RESOURCE_LIMITS.items():
        resource_id = getattr(resource, name, None)
        if resource_id is not None:
            resource.setrlimit(resource_id, (limit, limit))


def main(kind: str, path: str) -> None:
    """Read one file."""
    apply_limits()
    write_frames(sys.stdout.buffer, kind, Path(path))


if __name__ == "__main__":
    main(*sys.argv[1:])
