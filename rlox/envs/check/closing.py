"""Whether an environment can be closed, and what it leaves behind."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlox.envs.check.player import Player
from rlox.envs.check.subject import Subject, closed
from rlox.importing import failure

__all__ = ["look_at_closing"]

ROUNDS = 3


def look_at_closing(subject: Subject, env: Any) -> None:
    """Close it, close it again, and look whether each one that is made and closed leaves something."""
    if subject.alone:
        return
    subject.doing("close()")
    try:
        env.close()
    except subject.raises as error:
        subject.report.error(
            "close-fails",
            f"close() raises {failure(error)}, expected nothing, also where nothing is open; release only "
            "what is there",
        )
        return
    try:
        env.close()
    except subject.raises as error:
        subject.report.error(
            "close-once",
            f"a second close() raises {failure(error)}, expected that it does nothing: several parts of a "
            "run close what they hold; keep in mind that it is closed",
        )
        return
    _look_for_leaks(subject)


def _look_for_leaks(subject: Subject) -> None:
    before = _counts()
    for _ in range(ROUNDS):
        _used_once(subject)
    if _grown(before, _counts()):
        gc.collect()  # late, as it takes long: what only a circle holds is not left behind
    grown = _grown(before, _counts())
    for what, code, remedy in (
        ("processes", "leaves-processes", "terminate and join them in close()"),
        ("threads", "leaves-threads", "tell them to end and join them in close()"),
        ("open files", "leaves-files", "close them in close(), or read them within `with`"),
    ):
        if grown.get(what, 0) >= ROUNDS:
            subject.report.warning(
                code,
                f"{ROUNDS} that were made and closed left {grown[what]} {what} behind, expected none: "
                f"evaluations and sweeps make many; {remedy}",
            )
            return  # a process has files of its own


def _used_once(subject: Subject) -> None:
    player = Player(subject, subject.make())
    player.reset(subject.seeds(1)[0])
    closed(player.env)


def _counts() -> dict[str, int]:
    counters: dict[str, Callable[[], int]] = {
        "processes": _children,
        "threads": threading.active_count,
        "open files": _open_files,
    }
    return {what: count() for what, count in counters.items()}


def _children() -> int:
    """Processes that this one has started, by whichever means, and that still run."""
    known = len(multiprocessing.active_children())  # which also reaps those that have ended
    lists = [*Path("/proc/self/task").glob("*/children")]
    if not lists:  # elsewhere than on Linux nobody says
        return known
    found = 0
    for each in lists:
        with suppress(OSError):  # of a thread that has ended since
            found += sum(map(_runs, each.read_text().split()))
    return found


def _runs(process: str) -> bool:
    """Whether it has not ended: one that has is there until somebody asks how."""
    try:
        stat = Path("/proc", process, "stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def _open_files() -> int:
    with suppress(OSError):  # elsewhere than on Linux nobody says
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    return 0


def _grown(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {what: n - before[what] for what, n in after.items() if n > before[what]}
