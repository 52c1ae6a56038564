"""Detection of an environment's side effects: global generators, working directory, signals, output."""

from __future__ import annotations

import io
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rlox.envs.check.findings import Report
from rlox.envs.check.values import is_equal, short_repr

__all__ = ["SideEffectMonitor", "restored_globals", "seed_global_generators"]

WATCHED_CALLS = 80  # number of watched calls; enough to find a side effect that every call has
GLOBAL_SEED = 774_511  # seed of the global generators
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


class GlobalState(NamedTuple):
    """A snapshot of global state."""

    numpy_generator: Any
    python_generator: Any
    working_dir: str
    environ: dict[str, str]
    signals: list[Any]
    numpy_errors: Any
    n_modules: int


class SideEffectMonitor:
    """Compares global state before and after calls of an environment."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._n_calls = 0

    @contextmanager
    def watch(self, call: str) -> Iterator[None]:
        """Watch one call; report what it changed, and undo it."""
        self._n_calls += 1
        if self._n_calls > WATCHED_CALLS:
            yield
            return
        before, output = _global_state(), io.StringIO()
        try:
            with redirect_stdout(output):
                yield
        finally:
            after = _global_state()
            self._compare(call, before, after, output.getvalue())
            _restore(before, after)

    def _compare(self, call: str, before: GlobalState, after: GlobalState, output: str) -> None:
        self._check_randomness(call, before, after)
        if output.strip():
            self._report.warning(
                "prints",
                f"{call} prints {short_repr(output.strip().splitlines()[0])}, expected no output, as it "
                "comes at each step of each copy and mixes with the progress; use the logging module, or "
                "the info",
            )
        if before.working_dir != after.working_dir:
            self._report.error(
                "changes-folder",
                f"{call} changes the current folder to {after.working_dir}, expected it untouched: run "
                "folders and modules are found from there; use absolute paths made from __file__",
            )
        if before.signals != after.signals:
            index = [a != b for a, b in zip(before.signals, after.signals, strict=True)].index(True)
            self._report.error(
                "changes-signals",
                f"{call} replaces the handler of {SIGNALS[index].name}, expected the handler unchanged: "
                "rlox's own saves a checkpoint when this signal stops a run; clean up in close()",
            )
        if before.numpy_errors != after.numpy_errors:
            self._report.warning(
                "changes-numpy-errors",
                f"{call} sets NumPy's error handling to {after.numpy_errors}, for the whole process, "
                f"expected {before.numpy_errors} as before; put `with np.errstate(...)` around the place",
            )
        changed = {k for k, v in after.environ.items() if before.environ.get(k) != v}
        if changed and before.n_modules == after.n_modules:  # packages may set variables on import
            self._report.warning(
                "changes-environ",
                f"{call} sets the environment variable {min(changed)}, expected none: copies and libraries "
                "of the same process see it; pass the value as an argument, or set it once before the start",
            )

    def _check_randomness(self, call: str, before: GlobalState, after: GlobalState) -> None:
        if not is_equal(before.numpy_generator, after.numpy_generator):
            is_seeded = call.startswith("reset(seed=") and not _has_advanced(
                before.numpy_generator, after.numpy_generator
            )
            if is_seeded:
                self._report.error(
                    "numpy-reseeded",
                    f"{call} seeds NumPy's global generator (np.random.seed), expected it untouched: others "
                    "draw from it and would repeat themselves; leave the line out: super().reset(seed=seed) "
                    "seeds self.np_random",
                )
            else:
                self._report.error(
                    "numpy-random",
                    f"{call} draws from NumPy's global generator (np.random.*), which reset(seed=...) does "
                    "not seed, so that a run cannot be repeated; expected draws from self.np_random",
                )
        if before.python_generator != after.python_generator:
            self._report.error(
                "python-random",
                f"{call} draws from Python's global generator (random.*) or seeds it, expected it untouched, "
                "as reset(seed=...) does not reach it; draw from self.np_random",
            )


def seed_global_generators() -> None:
    """Seed the global generators, before results that are compared later.

    An environment that draws from them is then reported only for that (`SideEffectMonitor`), not also because
    two resets with the same seed differ.
    """
    random.seed(GLOBAL_SEED)
    np.random.seed(GLOBAL_SEED)  # noqa: NPY002


@contextmanager
def restored_globals() -> Iterator[None]:
    """Context manager: allow changes of global state and undo them at the end; output is discarded."""
    before = _global_state()
    saved_value = os.environ.get("PYGAME_HIDE_SUPPORT_PROMPT")
    os.environ["PYGAME_HIDE_SUPPORT_PROMPT"] = "1"  # pygame prints a greeting on import otherwise
    try:
        with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
            yield
    finally:
        if saved_value is None:
            os.environ.pop("PYGAME_HIDE_SUPPORT_PROMPT", None)
        _restore(before, _global_state())
        _restore_randomness(before)


def _global_state() -> GlobalState:
    return GlobalState(
        np.random.get_state(legacy=True),  # noqa: NPY002
        random.getstate(),
        _working_dir(),
        dict(os.environ),
        [signal.getsignal(number) for number in SIGNALS],
        np.geterr(),
        len(sys.modules),
    )


def _working_dir() -> str:
    with suppress(OSError):
        return str(Path.cwd())
    return ""


def _has_advanced(before: Any, after: Any) -> bool:
    """Tell whether a generator advanced, rather than being seeded.

    Drawing moves the position in its block of numbers, or replaces a block that is used up; a seed makes a
    new block with the position at its end.
    """
    return is_equal(before[1], after[1]) or after[2] != len(after[1])


def _restore(before: GlobalState, after: GlobalState) -> None:
    if before.working_dir and before.working_dir != after.working_dir:
        with suppress(OSError):
            os.chdir(before.working_dir)
    for number, old, new in zip(SIGNALS, before.signals, after.signals, strict=True):
        if old != new and old is not None:
            signal.signal(number, old)
    if before.numpy_errors != after.numpy_errors:
        np.seterr(**before.numpy_errors)


def _restore_randomness(before: GlobalState) -> None:
    setters: tuple[tuple[Callable[[Any], None], Any], ...] = (
        (np.random.set_state, before.numpy_generator),
        (random.setstate, before.python_generator),
    )
    for setter, state in setters:
        setter(state)
