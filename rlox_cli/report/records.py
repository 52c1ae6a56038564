"""What a report knows of a run, whichever program logged it: plain numbers and harmless text."""

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
PARTS = ("collect", "update", "evaluate")
LOSS_PREFIX = "loss/"  # what the names of losses begin with
# Other measures of learning that are drawn.
MEASURES = ("policy/entropy", "policy/approx_kl", "policy/kl", "value/explained_variance")


@dataclass(frozen=True)
class Curve:
    """Values over steps that increase."""

    steps: Array
    values: Array

    def __len__(self) -> int:
        return len(self.steps)


NO_CURVE = Curve(np.empty(0), np.empty(0))


@dataclass(frozen=True)
class Run:
    """One run."""

    name: str
    path: str  # its folder or file, as it was found
    source: str  # the program whose logs they are
    label: str = ""  # whose runs they are, where a baseline has a name
    user_name: str = ""  # what the user calls it, run.name
    algo: str = "?"
    env: str = "?"
    seed: int | None = None
    unit: str = "env_steps"
    status: str = "done"
    reason: str = ""
    step: int = 0
    score: float | None = None
    score_kind: str = FINAL
    episodes: int = 0  # of the evaluation that the score is of
    train_return: float | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    rate: float | None = None  # steps a second, all in all
    evaluations: Curve = NO_CURVE
    training: Curve = NO_CURVE
    measures: Mapping[str, Curve] = field(default_factory=dict)  # losses and the like, by name
    settings: Mapping[str, Any] = field(default_factory=dict)  # without the seed and the place
    provenance: Mapping[str, str] = field(default_factory=dict)
    unreadable_lines: int = 0  # lines of its logs that say nothing
    damaged_files: tuple[str, ...] = ()  # its files that cannot be read

    @property
    def is_counted(self) -> bool:
        """Whether its score is in the tables: it is done and has one."""
        return self.status == "done" and self.score is not None


def safe_text(value: Any, max_length: int = MAX_TEXT_LENGTH) -> str:
    """Text that nothing can be hidden in: what cannot be printed is spelled, what is too long cut."""
    shortened = "" if value is None else str(value)
    shortened = shortened if len(shortened) <= max_length else shortened[: max_length - 1] + "…"
    return "".join(c if c.isprintable() else " " if c in "\n\t\r" else f"\\u{ord(c):04x}" for c in shortened)


def finite_number(value: Any) -> float | None:
    """A finite number, or `None`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def make_curve(points: Mapping[float, float]) -> Curve:
    """The curve through points, thinned where there are more than a figure shows."""
    if not points:
        return NO_CURVE
    steps = np.array(sorted(points), np.float64)
    if len(steps) > MAX_POINTS:
        steps = steps[np.linspace(0, len(steps) - 1, MAX_POINTS).round().astype(int)]
    return Curve(steps, np.array([points[step] for step in steps], np.float64))
