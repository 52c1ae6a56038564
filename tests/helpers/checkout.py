"""Identifies the code and the machine of a result, with the standard library and git only."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

GIT_VARIABLES = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
)
"""Git's hooks set these variables, which name another checkout than the folder of a git command."""


def git(root: Path, *arguments: str, index: Path | None = None) -> str:
    """Return the output of git for this checkout; a separate index leaves the checkout's index unchanged."""
    env = {name: value for name, value in os.environ.items() if name not in GIT_VARIABLES}
    env |= {"GIT_INDEX_FILE": str(index)} if index else {}
    line = ["git", "-C", str(root), *arguments]
    return subprocess.run(line, env=env, capture_output=True, text=True, check=True).stdout.strip()


def code(root: Path, reports: Sequence[Path]) -> dict[str, Any]:
    """Return the commit, whether files differ from it, and git's hash of all files but the reports.

    The hash is of a tree, so it stays the same if code is tested first and committed later.
    """
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder, "index")

        def tree(*command: str) -> str:
            git(root, *command, index=index)
            left_out = [path.as_posix() for path in reports]
            git(root, "rm", "-q", "--cached", "--ignore-unmatch", "--", *left_out, index=index)
            return git(root, "write-tree", index=index)

        committed_tree, current = tree("read-tree", "HEAD"), tree("add", "--all")
    return {
        "commit": git(root, "rev-parse", "HEAD"),
        "changed": current != committed_tree,
        "tree": current,
    }


def machine() -> dict[str, Any]:
    """Return processor, cores and Python; family and model distinguish processors with the same name."""
    names = {"model name": "cpu", "cpu family": "family", "model": "model"}
    info: dict[str, Any] = {"cpu": platform.machine()}
    with contextlib.suppress(OSError):  # not Linux
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n\n")[0]
        fields = dict(re.findall(r"^([\w ]+?)\s*: (.*)$", text, re.M))
        info |= {key: fields[name] for name, key in names.items() if name in fields}
    return info | {"cores": os.cpu_count(), "python": platform.python_version()}
