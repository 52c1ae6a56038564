"""What is measured: a case of a row, the systems that do its work, and the ratios to reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

Results = Mapping[str, NDArray[Any]]  # named arrays; systems agree on the names they share


class Runner(Protocol):
    """One system, ready to do one case's work again and again."""

    def sample(self, loops: int) -> float:
        """Does the work `loops` times; returns the seconds they took together."""

    def result(self) -> Results:
        """The numbers that the work gives, to be compared with the other systems'."""

    def close(self) -> None:
        """Gives back threads, processes and memory."""


@dataclass(frozen=True)
class Goal:
    """A peer takes at least `minimum` times as long as rlox."""

    minimum: float
    against: str | None = None  # name of a peer system; None: the fastest one of the run


@dataclass(frozen=True)
class System:
    """Something that does a case's work, ours or a peer's."""

    name: str  # the column of the table
    package: str  # a key of `peers.PACKAGES`
    prepare: Callable[[], Runner]
    goals: tuple[Goal, ...] = ()
    is_gated: bool = True  # ours only: a peer being faster fails the gate
    scale: float = 1.0  # the case's work divided by the work of one loop
    is_compared: bool = True  # False: computes something else, `note` says what
    is_bound: bool = False  # beside the peers: a limit such as a bare copy, which is never "fastest"
    note: str = ""


@dataclass(frozen=True)
class Tolerance:
    """How far apart results may be: |a - b| <= absolute + relative |b|."""

    relative: float
    absolute: float = 0.0


@dataclass(frozen=True)
class Case:
    """One size of one kind of work."""

    row: str  # such as "P1"
    work: str  # what is done, the same for all sizes of a table
    size: str
    ours: tuple[System, ...]
    peers: tuple[System, ...]
    tolerance: Tolerance
    elements: int = 1  # steps, tokens or rewards in one loop, for time per element

    @property
    def systems(self) -> tuple[System, ...]:
        """Ours, then the peers."""
        return (*self.ours, *self.peers)
