"""What a job says of itself: on the terminal, or, of a job in a worker process, to its sweep."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlox.runs.progress import ProgressSnapshot

ProgressContext = AbstractContextManager[Callable[["ProgressSnapshot"], None]]


class JobReporter:
    """Prints it."""

    def message(self, kind: str, text: str) -> None:
        """A part of the job's story: `job`, `begun`, `resumed`, `skipped`, `checked` or `ended`."""
        print(text, flush=True)

    def report_error(self, text: str) -> None:
        """Why it failed."""
        print(text, file=sys.stderr, flush=True)

    def progress(self) -> ProgressContext:
        """What is told how far it is."""
        from rlox.runs import progress

        return progress.make_reporter()

    def report_outcome(self, outcome: dict[str, Any], is_last: bool) -> None:
        """How it ended, and whether no other follows; on a terminal the words before have said it."""
