"""Check that an environment can be closed, and that it leaves nothing behind."""

from __future__ import annotations

import gc
import multiprocessing
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlox.envs.check.driver import EnvDriver
from rlox.envs.check.subject import Subject, close_quietly
from rlox.errors import describe_error

__all__ = ["check_closing"]

ROUNDS = 3  # environments that are made and closed


def check_closing(subject: Subject, env: Any) -> None:
    """Close `env` twice, and check whether environments that are made and closed leave resources behind."""
    if subject.is_uncopyable:
        return
    subject.on_call("close()")
    try:
        env.close()
    except subject.env_exceptions as error:
        subject.report.error(
            "close-fails",
            f"close() raises {describe_error(error)}, expected no exception, even if nothing is open; "
            "release only what is there",
        )
        return
    try:
        env.close()
    except subject.env_exceptions as error:
        subject.report.error(
            "close-once",
            f"a second close() raises {describe_error(error)}, expected that it does nothing: several parts "
            "of a run may close it; remember in the environment that it is closed",
        )
        return
    _check_leaks(subject)


def _check_leaks(subject: Subject) -> None:
    before = _resource_counts()
    for _ in range(ROUNDS):
        _use_once(subject)
    if _increases(before, _resource_counts()):
        gc.collect()  # only if needed, as it is slow; what reference cycles hold is no leak
    increases = _increases(before, _resource_counts())
    for resource, code, remedy in (
        ("processes", "leaves-processes", "terminate and join them in close()"),
        ("threads", "leaves-threads", "signal them to stop and join them in close()"),
        ("open files", "leaves-files", "close them in close(), or read them within `with`"),
    ):
        if increases.get(resource, 0) >= ROUNDS:
            subject.report.warning(
                code,
                f"{ROUNDS} environments that were made and closed left {increases[resource]} {resource} "
                f"behind, expected none: evaluations and sweeps make many environments; {remedy}",
            )
            return  # a leaked process also holds files


def _use_once(subject: Subject) -> None:
    driver = EnvDriver(subject, subject.make())
    driver.reset(subject.seeds(1)[0])
    close_quietly(driver.env)


def _resource_counts() -> dict[str, int]:
    counters: dict[str, Callable[[], int]] = {
        "processes": _child_count,
        "threads": threading.active_count,
        "open files": _open_file_count,
    }
    return {resource: count() for resource, count in counters.items()}


def _child_count() -> int:
    """Count the running processes that this one has started, by any means."""
    python_children = len(multiprocessing.active_children())  # also reaps those that have ended
    lists = [*Path("/proc/self/task").glob("*/children")]
    if not lists:  # not on Linux: other children cannot be listed
        return python_children
    count = 0
    for each in lists:
        with suppress(OSError):  # raised for a thread that has ended since
            count += sum(map(_is_running, each.read_text().split()))
    return count


def _is_running(pid: str) -> bool:
    """Tell whether a process runs; an ended one stays listed until it is reaped."""
    try:
        stat = Path("/proc", pid, "stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def _open_file_count() -> int:
    with suppress(OSError):  # not on Linux: open files cannot be listed
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    return 0


def _increases(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {resource: n - before[resource] for resource, n in after.items() if n > before[resource]}
