"""Runs rlox in a process that records its imports, child processes and connections.

    python -m faults.audit '[["resume", "RUN"], ["evaluate", "RUN"]]' '["RUN"]' MODULE

The first argument is a list of commands, the second a list of folders to load from Python. `MODULE` must not
be imported. The output is the exit codes and messages of all commands and loads, and the recorded events.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any

WATCHED = (
    "socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn",
    "os.spawn", "pickle.find_class", "urllib.Request",
)  # fmt: skip


def main(commands: list[list[str]], loaded: list[str], module: str) -> dict[str, Any]:
    """Run the commands, load the folders and return their results and the events."""
    events: list[str] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "exec" and Path(arguments[0].co_filename).stem == module:
            events.append(f"exec {module}")
        elif event.startswith(WATCHED) and not _for_provenance(event, arguments):
            events.append(f"{event} {arguments!r}"[:200])

    import torch  # noqa: F401  (on its own account its wheel may ask ldconfig, as it is imported)

    from rlox.algorithms import PPO
    from rlox.errors import RloxError
    from rlox_cli.main import main as rlox

    sys.addaudithook(hook)
    ends: list[Any] = []
    for arguments in commands:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = rlox(arguments)
        ends.append([code, out.getvalue(), err.getvalue()])
    for folder in loaded:
        try:
            PPO.from_checkpoint(folder)
            ends.append([0, "", ""])
        except RloxError as error:
            ends.append([type(error).__name__, "", str(error)])
    return {"ends": ends, "events": events}


def _for_provenance(event: str, arguments: tuple[Any, ...]) -> bool:
    """Return whether a resumed run starts this process for provenance, directly or through `platform`."""
    return event == "subprocess.Popen" and arguments[0] in ("git", "uname")


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3])))
