"""Reads many foreign files, each in a fork of one process: `python -m helpers.many_reads < LIST`.

A line of LIST is a format and a path. For each file it prints a line of JSON: `error`, or `rows`, a hash of
the result; `crash` with the signal if the reader died; `grown`, the growth of its memory in bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

REFUSED = ("pickle.find_class", "subprocess.Popen", "os.system", "os.exec", "socket.connect")


def read(kind: str, path: Path) -> dict[str, Any]:
    """Return the result of reading a file in this process."""
    from rlox.offline.foreign.reader_process import frames

    digest, about = hashlib.blake2b(digest_size=8), {}
    for header, arrays in frames(kind, path):
        if "error" in header:
            return {"error": header["error"]}
        about = header.get("about", about)
        for array in arrays:
            digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    return {"rows": digest.hexdigest(), "digest": about.get("digest")}


def audit(event: str, _: Any) -> None:
    """End the process if it runs a command or connects."""
    if event in REFUSED:
        os.write(2, f"{event}\n".encode())
        os._exit(66)


def read_forked(kind: str, path: Path) -> dict[str, Any]:
    """Return the result of reading a file in a fork with the limits of the reader."""
    from rlox.offline.foreign.reader_process import apply_limits

    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        apply_limits()
        sys.addaudithook(audit)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        result = read(kind, path)
        result["grown"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
        os.write(into, json.dumps(result).encode()[:60_000])
        os._exit(0)
    os.close(into)
    with os.fdopen(out, "rb") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return {"crash": os.WTERMSIG(status)}
    return dict(json.loads(text)) if text else {"crash": f"exit code {os.WEXITSTATUS(status)}"}


def read_many(files: list[tuple[str, Path]]) -> list[dict[str, Any]]:
    """Return the result for each file, in order."""
    lines = "".join(f"{kind} {path}\n" for kind, path in files)
    command = [sys.executable, "-m", "helpers.many_reads"]
    tests = str(Path(__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")])}
    env["HDF5_PLUGIN_PRELOAD"] = "::"
    process = subprocess.run(command, input=lines, capture_output=True, text=True, env=env, check=True)
    return [json.loads(line) for line in process.stdout.splitlines()]


if __name__ == "__main__":
    import h5py  # noqa: F401  loaded once, for all forks
    import pyarrow.parquet  # noqa: F401

    import rlox.offline.foreign.readers  # noqa: F401

    for line in sys.stdin:
        kind, name = line.rstrip("\n").split(" ", 1)
        print(json.dumps(read_forked(kind, Path(name))), flush=True)
