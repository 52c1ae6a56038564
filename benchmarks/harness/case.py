"""Descriptions of a measurement: a case of a row, the systems that do its work, and their goals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

Results = Mapping[str, NDArray[Any]]  # named arrays; shared names must have equal values


class Runner(Protocol):
    """One system that can do the work of one case repeatedly."""

    def sample(self, loops: int) -> float:
        """Do the work `loops` times; return the total seconds."""

    def result(self) -> Results:
        """Return the numbers that the work computes, for comparison with the other systems."""

    def close(self) -> None:
        """Release threads, processes and memory."""


@dataclass(frozen=True)
class Goal:
    """A peer takes at least `minimum` times as long as rlox."""

    minimum: float
    against: str | None = None  # name of a peer; None: the fastest peer of the run


@dataclass(frozen=True)
class System:
    """One of rlox's systems or a peer that does the work of a case."""

    name: str  # the column of the table
    package: str  # a key of `peers.PACKAGES`
    prepare: Callable[[], Runner]
    goals: tuple[Goal, ...] = ()
    is_gated: bool = True  # only for rlox's systems: a faster peer fails the gate
    scale: float = 1.0  # the case's work divided by the work of one loop
    is_compared: bool = True  # False: it computes something else, which `note` explains
    is_bound: bool = False  # a limit such as a bare copy, shown beside the peers, never "fastest"
    note: str = ""


@dataclass(frozen=True)
class Tolerance:
    """The allowed difference of results: |a - b| <= absolute + relative |b|."""

    relative: float
    absolute: float = 0.0


@dataclass(frozen=True)
class Case:
    """One size of one kind of work."""

    row: str  # such as "P1"
    work: str  # description of the work, the same for all sizes of a table
    size: str
    ours: tuple[System, ...]
    peers: tuple[System, ...]
    tolerance: Tolerance
    elements: int = 1  # steps, tokens or rewards in one loop; the time per element is divided by it

    @property
    def systems(self) -> tuple[System, ...]:
        """All systems: rlox's, then the peers."""
        return (*self.ours, *self.peers)
