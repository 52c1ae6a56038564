"""The outcome of a session."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rlox.training.evaluate import Evaluation
from rlox.types import Clock

__all__ = ["Outcome"]


@dataclass(frozen=True)
class Outcome:
    """How a session ended."""

    reason: str  # total_steps, score, minutes, callback, pruned, signal
    clock: Clock
    evaluation: Evaluation | None  # of the final policy
    no_score_reason: str  # why `evaluation` is None; else empty
    train_return_last100: float | None
    seconds: dict[str, float]  # total, collect, update, evaluate
    checkpoint: Path
    abandoned_during: str = ""  # what a signal interrupted, if nothing was saved afterwards
