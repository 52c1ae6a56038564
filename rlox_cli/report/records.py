"""Records of runs, whichever program logged them: plain numbers and sanitised text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MAX_TEXT_LENGTH = 200
MAX_REASON_LENGTH = 1000
MAX_POINTS = 400  # of one curve of one run: as many as a figure can show

FINAL, LAST, TRAINING = "final evaluation", "last evaluation", "training return"
AXIS_LABELS = {"env_steps": "environment steps", "updates": "updates", "samples": "samples"}
TIMED_PARTS = ("collect", "update", "evaluate")
LOSS_PREFIX = "loss/"  # prefix of the names of losses
# Metrics that figures show besides losses.
MEASURES = ("policy/entropy", "policy/approx_kl", "policy/kl", "value/explained_variance")


@dataclass(frozen=True)
class Curve:
    """Values over increasing steps."""

    steps: Array
    values: Array

    def __len__(self) -> int:
        return len(self.steps)


NO_CURVE = Curve(np.empty(0), np.empty(0))


@dataclass(frozen=True)
class Run:
    """One run, as its logs describe it."""

    name: str
    path: str  # its folder or file, as it was found
    source: str  # the program that wrote the logs
    label: str = ""  # name of the baseline that the run belongs to
    user_name: str = ""  # the user's name of the run, run.name
    algo: str = "?"
    env: str = "?"
    seed: int | None = None
    unit: str = "env_steps"
    status: str = "done"
    reason: str = ""
    step: int = 0
    score: float | None = None
    score_kind: str = FINAL
    episodes: int = 0  # of the evaluation that gave the score
    train_return: float | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    rate: float | None = None  # steps per second of the whole run
    evaluations: Curve = NO_CURVE
    training: Curve = NO_CURVE
    measures: Mapping[str, Curve] = field(default_factory=dict)  # losses and `MEASURES`, by name
    settings: Mapping[str, Any] = field(default_factory=dict)  # without the seed and the run folder
    provenance: Mapping[str, str] = field(default_factory=dict)
    unreadable_lines: int = 0  # damaged lines of its logs
    damaged_files: tuple[str, ...] = ()  # its files that cannot be read

    @property
    def is_counted(self) -> bool:
        """Whether the tables count its score: the run is done and has one."""
        return self.status == "done" and self.score is not None


def safe_text(value: Any, max_length: int = MAX_TEXT_LENGTH) -> str:
    """Return text that hides nothing: unprintable characters are escaped, and long text is cut."""
    shortened = "" if value is None else str(value)
    shortened = shortened if len(shortened) <= max_length else shortened[: max_length - 1] + "…"
    return "".join(c if c.isprintable() else " " if c in "\n\t\r" else f"\\u{ord(c):04x}" for c in shortened)


def finite_number(value: Any) -> float | None:
    """Return a finite number as a float; `None` for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def make_curve(points: Mapping[float, float]) -> Curve:
    """Build the curve through points, thinned if there are more than a figure can show."""
    if not points:
        return NO_CURVE
    steps = np.array(sorted(points), np.float64)
    if len(steps) > MAX_POINTS:
        steps = steps[np.linspace(0, len(steps) - 1, MAX_POINTS).round().astype(int)]
    return Curve(steps, np.array([points[step] for step in steps], np.float64))
