"""Every public callable of the extension with a NumPy model of what it has to return."""

from __future__ import annotations

from helpers.callables import advantages, envs, streams
from helpers.callables.engine import Case

CASES: dict[str, Case] = {**advantages.CASES, **envs.CASES, **streams.CASES}

__all__ = ["CASES", "Case"]
