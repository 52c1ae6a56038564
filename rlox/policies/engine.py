"""What every learner in Rust needs around its calls: errors that say why, counters, vectors of optimizers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlox.errors import ConfigError, NonFiniteError
from rlox.policies import golden

__all__ = [
    "Adams",
    "NativeRefused",
    "NativeWrong",
    "counted",
    "refused",
    "require_right",
    "stepped",
    "told_where",
]

# What Adam steps, what it knows of that, and the steps so far, int64 `[1]`: as an engine takes it.
Adams = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]


class Counts(Protocol):
    """An optimizer that counts."""

    steps: int
    using: Any  # a lock


class Stepped(Counts, Protocol):
    """Adam, with vectors of torch's on the CPU or of NumPy's."""

    @property
    def vector(self) -> Any:
        """The parameters."""

    def moment(self, name: str) -> Any:
        """The vector of this name."""


def require_right() -> None:
    """`NativeWrong` where the engine does not do what torch does (`golden`)."""
    if (told := golden.wrong()) is not None:
        raise NativeWrong(told)


@contextmanager
def told_where(where: str) -> Iterator[None]:
    """A number that is none is told with the update in which it was found, and what helps."""
    try:
        yield
    except NonFiniteError as error:
        raise NonFiniteError(
            f"{error}, in the {where}; lower algo.learning_rate or algo.max_grad_norm, or check the "
            "environment's rewards"
        ) from None


@contextmanager
def stepped(optimizer: Stepped) -> Iterator[Adams]:
    """What Adam steps and knows of that, and where the engine counts, also in a training that failed."""
    with counted(optimizer) as steps:
        moments = (np.asarray(optimizer.moment(name)) for name in ("exp_avg", "exp_avg_sq"))
        yield (np.asarray(optimizer.vector), *moments, steps)  # type: ignore[misc]


@contextmanager
def counted(optimizer: Counts) -> Iterator[NDArray[np.int64]]:
    """Where the engine counts the optimizer's steps, those of an update that failed too; nobody acts then."""
    steps = np.array([optimizer.steps])
    with optimizer.using:
        try:
            yield steps
        finally:
            optimizer.steps = int(steps[0])


class NativeRefused(ConfigError):
    """Something that only torch learns; `why` says what it is."""

    def __init__(self, why: str) -> None:
        super().__init__(f"algo.backend=native: {why}; make the run with algo.backend=torch")
        self.why = why


class NativeWrong(NativeRefused):
    """An engine that nobody should learn with here; `told` is what it gives and what it should."""

    def __init__(self, told: str) -> None:
        self.why = f"the native engine is wrong on this machine: {told}"
        ConfigError.__init__(
            self, f"algo.backend=native: {self.why}; please report it, and use algo.backend=torch"
        )


def refused(what: str) -> NativeRefused:
    """An error that says what the policy is."""
    return NativeRefused(f"the policy is {what}")
