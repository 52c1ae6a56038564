"""What a check finds: each thing once, under a code that stays the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NoReturn

__all__ = ["Finding", "Report", "StopCheck"]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with an environment, or probably not meant."""

    code: str  # stays the same from version to version
    severity: Literal["error", "warning"]
    message: str  # what came, what was expected, what to do


class StopCheck(Exception):
    """After what was found no further call would tell anything."""


class Report:
    """The findings so far; of each code the first."""

    def __init__(self, on_finding: Callable[[Finding], None] = lambda finding: None) -> None:
        self.findings: list[Finding] = []
        self._on_finding = on_finding

    def error(self, code: str, message: str) -> None:
        """What breaks training, results or a resume."""
        self._add(Finding(code, "error", message))

    def warning(self, code: str, message: str) -> None:
        """What works, and is probably not meant."""
        self._add(Finding(code, "warning", message))

    def stop(self, code: str, message: str) -> NoReturn:
        """An error after which nothing more can be tried."""
        self.error(code, message)
        raise StopCheck

    def has(self, *codes: str) -> bool:
        """Whether one of these was found."""
        return any(finding.code in codes for finding in self.findings)

    def _add(self, finding: Finding) -> None:
        if not self.has(finding.code):
            self.findings.append(finding)
            self._on_finding(finding)
