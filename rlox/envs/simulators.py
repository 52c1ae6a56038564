"""Warnings of MuJoCo go to the log, each kind once, not to the terminal and into MUJOCO_LOG.TXT."""

from __future__ import annotations

import importlib.util
import logging
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = [
    "forget_warnings",
    "log_warning",
    "mujoco_warnings_logged",
    "pass_warnings_on",
    "repeat_warnings",
]

log = logging.getLogger("rlox.mujoco")
# The first warning of each kind, by its text without numbers: MuJoCo repeats a deprecation for every model
# that it compiles, and an instability in every episode, with the time of it.
_first_of_kind: dict[str, str] = {}


@contextmanager
def mujoco_warnings_logged() -> Iterator[None]:
    """The block that makes an environment: warnings of MuJoCo are logged, also where it loads MuJoCo.

    A callback that the user has set (`mujoco.set_mju_user_warning`) stays.
    """
    loaded = sys.modules.get("mujoco")
    if loaded is not None:
        _take_over(loaded)
        yield
        return
    finder = _MujocoFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        finder.remove()


def log_warning(text: str) -> None:
    """Log a warning, unless one of its kind was: a deprecation as news, anything else as a warning."""
    kind = re.sub(r"[-+]?\d[-+.\de]*", "#", text)
    if kind not in _first_of_kind:
        _first_of_kind[kind] = text
        _deliver(text)


def repeat_warnings() -> None:
    """Log again what was warned of: for a log that opens after the environments of its run were made."""
    for text in _first_of_kind.values():
        _deliver(text)


def forget_warnings() -> None:
    """Log each kind again where it comes again: for the log of another run."""
    _first_of_kind.clear()


def pass_warnings_on(to: Callable[[str], None]) -> None:
    """Hand the first warning of each kind to `to` in place of the log: for a worker, which has none."""
    global _deliver
    _deliver = to


def _log(text: str) -> None:
    level = logging.INFO if "deprecated" in text else logging.WARNING
    log.log(level, "MuJoCo: %s", text)


_deliver: Callable[[str], None] = _log


def _take_over(mujoco: ModuleType) -> None:
    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(log_warning)


class _MujocoFinder(MetaPathFinder):
    """Takes the warnings over as soon as MuJoCo is imported, before it compiles its first model."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of MuJoCo as others find it, whose loader takes over at the end."""
        if name != "mujoco":
            return None
        self.remove()
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_take_over(module: ModuleType) -> None:
                load(module)
                _take_over(module)

            # on the loader, not one around it: packages find their files by its other methods
            setattr(spec.loader, "exec_module", load_and_take_over)  # noqa: B010 mypy knows it as a method
        return spec

    def remove(self) -> None:
        """Find nothing any more."""
        with suppress(ValueError):
            sys.meta_path.remove(self)
