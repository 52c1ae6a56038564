"""What every learner in Rust needs around its calls: errors that say why, counters, vectors of optimizers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlox.errors import ConfigError, NonFiniteError
from rlox.policies import self_test

__all__ = [
    "AdamVectors",
    "NativeSelfTestError",
    "NativeUnsupportedError",
    "adam_vectors",
    "counted_steps",
    "label_errors",
    "require_self_test",
    "unsupported_policy",
]

# What Adam steps, what it knows of that, and the steps so far, int64 `[1]`: as an engine takes it.
AdamVectors = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]


class StepCounter(Protocol):
    """An optimizer that counts."""

    steps: int
    lock: Any  # a lock


class AdamState(StepCounter, Protocol):
    """Adam, with vectors of torch's on the CPU or of NumPy's."""

    @property
    def vector(self) -> Any:
        """The parameters."""

    def moment(self, name: str) -> Any:
        """The vector of this name."""


def require_self_test() -> None:
    """`NativeSelfTestError` where the engine does not do what torch does (`self_test`)."""
    if (mismatch := self_test.self_test_mismatch()) is not None:
        raise NativeSelfTestError(mismatch)


@contextmanager
def label_errors(update_label: str) -> Iterator[None]:
    """A number that is none is told with the update in which it was found, and what helps."""
    try:
        yield
    except NonFiniteError as error:
        raise NonFiniteError(
            f"{error}, in the {update_label}; lower algo.learning_rate or algo.max_grad_norm, or check the "
            "environment's rewards"
        ) from None


@contextmanager
def adam_vectors(optimizer: AdamState) -> Iterator[AdamVectors]:
    """What Adam steps and knows of that, and where the engine counts, also in a training that failed."""
    with counted_steps(optimizer) as steps:
        moments = (np.asarray(optimizer.moment(name)) for name in ("exp_avg", "exp_avg_sq"))
        yield (np.asarray(optimizer.vector), *moments, steps)  # type: ignore[misc]


@contextmanager
def counted_steps(optimizer: StepCounter) -> Iterator[NDArray[np.int64]]:
    """Where the engine counts the optimizer's steps, those of an update that failed too; nobody acts then."""
    steps = np.array([optimizer.steps])
    with optimizer.lock:
        try:
            yield steps
        finally:
            optimizer.steps = int(steps[0])


class NativeUnsupportedError(ConfigError):
    """Something that only torch learns; `reason` says what it is."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"algo.backend=native: {reason}; make the run with algo.backend=torch")
        self.reason = reason


class NativeSelfTestError(NativeUnsupportedError):
    """An engine that nobody should learn with here; `mismatch` is what it gives and what it should."""

    def __init__(self, mismatch: str) -> None:
        self.reason = f"the native engine is wrong on this machine: {mismatch}"
        ConfigError.__init__(
            self, f"algo.backend=native: {self.reason}; please report it, and use algo.backend=torch"
        )


def unsupported_policy(description: str) -> NativeUnsupportedError:
    """An error that says what the policy is."""
    return NativeUnsupportedError(f"the policy is {description}")
