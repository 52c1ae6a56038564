"""Short ways to name a system of this process or of the original's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from harness.case import Goal, Results, System
from harness.original import Original
from harness.timing import LocalRunner

Operation = Callable[[], object]
Make = Callable[[], tuple[Operation, Callable[[], Results]]]
ORIGINAL = "rlox 1.2.0"


def local(
    name: str,
    package: str,
    make: Make,
    *goals: Goal,
    gated: bool = True,
    scale: float = 1.0,
    compared: bool = True,
    bound: bool = False,
    note: str = "",
) -> System:
    """A system of this process; `make` returns the timed operation and what answers for it."""
    return System(
        name=name,
        package=package,
        prepare=lambda: LocalRunner(*make()),
        goals=goals,
        gated=gated,
        scale=scale,
        compared=compared,
        bound=bound,
        note=note,
    )


def function(call: Callable[[], Any], *results: str) -> Make:
    """A pure function: what it returns, one array or a tuple of them, is named by `results`."""

    def answer() -> Results:
        got = call()
        parts = got if isinstance(got, tuple) else (got,)
        return dict(zip(results, parts, strict=True))

    return lambda: (call, answer)


def our_function(name: str, arguments: Sequence[Any], *results: str) -> Make:
    """A public function of rlox on `arguments`, looked up when it is prepared."""

    def make() -> tuple[Operation, Callable[[], Results]]:
        import rlox

        call = getattr(rlox, name)
        return function(lambda: call(*arguments), *results)()

    return make


def original_function(
    original: Original,
    name: str,
    arrays: Sequence[NDArray[Any]],
    arguments: Sequence[float],
    *results: str,
    note: str = "",
) -> System:
    """A function of the original on `arrays`, then `arguments`."""
    return System(
        name=ORIGINAL,
        package="original",
        prepare=lambda: original.runner(
            "function", arrays, name=name, arguments=list(arguments), results=list(results)
        ),
        note=note,
    )
