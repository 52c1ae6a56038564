"""Helpers for calls of the native engine: errors that name the update, step counters, optimizer vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rlox.errors import ConfigError, NonFiniteError
from rlox.parameters import self_test

__all__ = [
    "AdamVectors",
    "LearnedVectors",
    "NativeSelfTestError",
    "NativeUnsupportedError",
    "adam_vectors",
    "counted_steps",
    "label_errors",
    "require_self_test",
    "unsupported_policy",
]

# Adam's parameters, first and second moments, and step count, int64 `[1]`, as the engine takes them.
AdamVectors = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]


class StepCounter(Protocol):
    """An optimizer that counts its steps."""

    steps: int
    lock: Any  # held while the engine counts


class AdamState(StepCounter, Protocol):
    """Adam, whose vectors are torch tensors on the CPU or NumPy arrays."""

    @property
    def vector(self) -> Any:
        """The parameters."""

    def moment(self, name: str) -> Any:
        """Return the moment vector of this name."""


def require_self_test() -> None:
    """Raise `NativeSelfTestError` if the engine's results differ from torch's (`self_test`)."""
    if (mismatch := self_test.self_test_mismatch()) is not None:
        raise NativeSelfTestError(mismatch)


@contextmanager
def label_errors(update_label: Callable[[], str]) -> Iterator[None]:
    """Add the update's label, which is computed only then, and a remedy to `NonFiniteError`s in the block."""
    try:
        yield
    except NonFiniteError as error:
        raise NonFiniteError(
            f"{error}, in the {update_label()}; lower algo.learning_rate or algo.max_grad_norm, or check the "
            "environment's rewards"
        ) from None


@contextmanager
def adam_vectors(optimizer: AdamState) -> Iterator[AdamVectors]:
    """Yield Adam's parameters, moments and step count for the engine; steps of failed updates count too."""
    with counted_steps(optimizer) as steps:
        moments = (np.asarray(optimizer.moment(name)) for name in ("exp_avg", "exp_avg_sq"))
        yield (np.asarray(optimizer.vector), *moments, steps)  # type: ignore[misc]


@contextmanager
def counted_steps(optimizer: StepCounter) -> Iterator[NDArray[np.int64]]:
    """Yield an array in which the engine counts optimizer steps, under the optimizer's lock.

    The count is written back even if the update fails.
    """
    steps = np.array([optimizer.steps])
    with optimizer.lock:
        try:
            yield steps
        finally:
            optimizer.steps = int(steps[0])


class LearnedVectors:
    """Adam's arrays of each network for the engine, under the optimizers' locks, as a context.

    They are parameters, first and second moments, and step count; steps of failed updates count too.
    """

    def __init__(self, optimizers: Mapping[str, AdamState]) -> None:
        self._optimizers = optimizers
        self._locked: list[AdamState] = []
        self._vectors: dict[str, AdamVectors] = {}

    def __enter__(self) -> Mapping[str, AdamVectors]:
        try:
            for name, optimizer in self._optimizers.items():
                optimizer.lock.acquire()
                self._locked.append(optimizer)
                moments = optimizer.moment("exp_avg"), optimizer.moment("exp_avg_sq")
                self._vectors[name] = (optimizer.vector, *moments, np.array([optimizer.steps]))
        except BaseException:  # Ctrl-C: `__exit__` will not be called
            self.__exit__()
            raise
        return self._vectors

    def __exit__(self, *error: object) -> None:
        for optimizer, (_, _, _, steps) in zip(self._locked, self._vectors.values(), strict=False):
            optimizer.steps = int(steps[0])
        for optimizer in self._locked:
            optimizer.lock.release()


class NativeUnsupportedError(ConfigError):
    """A feature that only the torch backend supports; `reason` names it."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"algo.backend=native: {reason}; make the run with algo.backend=torch")
        self.reason = reason


class NativeSelfTestError(NativeUnsupportedError):
    """The engine computes wrong results on this machine; `mismatch` has the actual and expected values."""

    def __init__(self, mismatch: str) -> None:
        self.reason = f"the native engine is wrong on this machine: {mismatch}"
        ConfigError.__init__(
            self, f"algo.backend=native: {self.reason}; please report it, and use algo.backend=torch"
        )


def unsupported_policy(description: str) -> NativeUnsupportedError:
    """Return an error that describes the policy."""
    return NativeUnsupportedError(f"the policy is {description}")
