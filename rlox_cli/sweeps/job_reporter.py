"""Reports of a job: to the terminal or, from a worker process, to its sweep."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlox.runs.progress import ProgressSnapshot

ProgressContext = AbstractContextManager[Callable[["ProgressSnapshot"], None]]


class JobReporter:
    """Prints the reports of a job."""

    def message(self, kind: str, text: str) -> None:
        """Print a message of kind `job`, `begun`, `resumed`, `skipped`, `checked`, `evaluated` or `ended`."""
        print(text, flush=True)

    def report_error(self, text: str) -> None:
        """Print why the job failed."""
        print(text, file=sys.stderr, flush=True)

    def progress(self) -> ProgressContext:
        """Return a context manager that gives the function to report progress to."""
        from rlox.runs import progress

        return progress.make_reporter()

    def report_outcome(self, outcome: dict[str, Any], is_interrupted: bool) -> None:
        """Do nothing: earlier messages have shown the outcome on the terminal already."""
