"""Findings of a check; each problem is reported once, under a stable code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NoReturn

__all__ = ["Finding", "Report", "StopCheck"]


@dataclass(frozen=True)
class Finding:
    """One problem of an environment: an error, or something probably unintended."""

    code: str  # stable across versions
    severity: Literal["error", "warning"]
    message: str  # what was found, what was expected, and the remedy


class StopCheck(Exception):
    """Raised after a finding that makes further calls pointless."""


class Report:
    """The findings so far; only the first of each code."""

    def __init__(self, on_finding: Callable[[Finding], None] = lambda finding: None) -> None:
        self.findings: list[Finding] = []
        self._on_finding = on_finding

    def error(self, code: str, message: str) -> None:
        """Report a problem that breaks training, results or a resume."""
        self._add(Finding(code, "error", message))

    def warning(self, code: str, message: str) -> None:
        """Report behaviour that works but is probably unintended."""
        self._add(Finding(code, "warning", message))

    def stop(self, code: str, message: str) -> NoReturn:
        """Report an error after which no further check is possible, and stop."""
        self.error(code, message)
        raise StopCheck

    def has(self, *codes: str) -> bool:
        """Tell whether one of these codes was found."""
        return any(finding.code in codes for finding in self.findings)

    def _add(self, finding: Finding) -> None:
        if not self.has(finding.code):
            self.findings.append(finding)
            self._on_finding(finding)
