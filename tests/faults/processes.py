"""Descendants of this process: which are alive, which hang, when they have ended."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from helpers.waiting import until

HUNG = "hung"


def mark_as_hung() -> None:
    """Mark the calling process as hung, so that `hangs` finds it."""
    with suppress(OSError):  # macOS has no such file
        Path("/proc/self/comm").write_text(HUNG)


def hangs(pid: int) -> bool:
    """Return whether a process is stopped or has marked itself as hung."""
    name, state = _name_and_state(pid)
    return name == HUNG or state == "T"


def alive(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    return _name_and_state(pid)[1] not in ("", "Z")


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and their descendants."""
    process_ids = []
    with suppress(OSError):  # a process may have ended meanwhile
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, task.read_text().split()):
                process_ids += [child, *descendants(child)]
    return process_ids


def wait_until_ended(pids: list[int]) -> bool:
    """Wait until all processes have ended."""
    until(lambda: not any(map(alive, pids)), f"end of the processes {pids}")
    return True


def pipes_of(pid: int) -> set[str]:
    """Return the names of the pipes that a process has open; both ends of a pipe have the same name."""
    pipes = set()
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                pipes.add(str(entry.readlink()))
    return {name for name in pipes if name.startswith("pipe:")}


def _name_and_state(pid: int) -> tuple[str, str]:
    """Return the name of a process and the letter of its state; empty if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "", ""
    before, _, after = stat.rpartition(")")
    return before.partition("(")[2], after.split()[0]
