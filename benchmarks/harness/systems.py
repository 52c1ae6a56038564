"""Functions that make a system of this process or of the original's process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from harness.case import Goal, Results, System
from harness.original import Original
from harness.timing import LocalRunner

Operation = Callable[[], object]
RunnerFactory = Callable[[], tuple[Operation, Callable[[], Results]]]
ORIGINAL = "rlox 1.2.0"


def local_system(
    name: str,
    package: str,
    make: RunnerFactory,
    *goals: Goal,
    is_gated: bool = True,
    scale: float = 1.0,
    is_compared: bool = True,
    is_bound: bool = False,
    note: str = "",
) -> System:
    """Make a system of this process; `make` returns the timed operation and a function for its results."""
    return System(
        name=name,
        package=package,
        prepare=lambda: LocalRunner(*make()),
        goals=goals,
        is_gated=is_gated,
        scale=scale,
        is_compared=is_compared,
        is_bound=is_bound,
        note=note,
    )


def function_make(call: Callable[[], Any], *results: str) -> RunnerFactory:
    """Make a runner of a pure function; `results` names its array or its tuple of arrays."""

    def answer() -> Results:
        result = call()
        parts = result if isinstance(result, tuple) else (result,)
        return dict(zip(results, parts, strict=True))

    return lambda: (call, answer)


def rlox_function_make(name: str, arguments: Sequence[Any], *results: str) -> RunnerFactory:
    """Make a runner of a public function of rlox, which is looked up when the runner is prepared."""

    def make() -> tuple[Operation, Callable[[], Results]]:
        import rlox

        call = getattr(rlox, name)
        return function_make(lambda: call(*arguments), *results)()

    return make


def original_function_system(
    original: Original,
    name: str,
    arrays: Sequence[NDArray[Any]],
    arguments: Sequence[float],
    *results: str,
    note: str = "",
) -> System:
    """Make a system of an original's function; its arguments are `arrays`, then `arguments`."""
    return System(
        name=ORIGINAL,
        package="original",
        prepare=lambda: original.runner(
            "function", arrays, name=name, arguments=list(arguments), results=list(results)
        ),
        note=note,
    )
