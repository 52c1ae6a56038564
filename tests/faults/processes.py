"""The processes below this one: which are alive, which hang, when they have ended."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from helpers.waiting import until

HUNG = "hung"


def mark_as_hung() -> None:
    """Called by a process that hangs from now on, so that `hangs` knows."""
    with suppress(OSError):  # macOS has no such file
        Path("/proc/self/comm").write_text(HUNG)


def hangs(pid: int) -> bool:
    """Whether a process is stopped, or has said that it hangs."""
    name, state = _name_and_state(pid)
    return name == HUNG or state == "T"


def alive(pid: int) -> bool:
    """Whether a process is there, and more than a remnant that waits for its parent."""
    return _name_and_state(pid)[1] not in ("", "Z")


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that these have, and so on."""
    process_ids = []
    with suppress(OSError):  # those of one that has ended meanwhile
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, task.read_text().split()):
                process_ids += [child, *descendants(child)]
    return process_ids


def wait_until_ended(pids: list[int]) -> bool:
    """Wait until all have ended."""
    until(lambda: not any(map(alive, pids)), f"end of the processes {pids}")
    return True


def pipes_of(pid: int) -> set[str]:
    """The names of the pipes that a process holds an end of, the same at both ends."""
    pipes = set()
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                pipes.add(str(entry.readlink()))
    return {name for name in pipes if name.startswith("pipe:")}


def _name_and_state(pid: int) -> tuple[str, str]:
    """What a process is called, and the letter of its state; empty where there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return "", ""
    before, _, after = stat.rpartition(")")
    return before.partition("(")[2], after.split()[0]
