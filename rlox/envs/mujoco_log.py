"""MuJoCo's warnings go to the log, each kind once, instead of the terminal and MUJOCO_LOG.TXT."""

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
    "clear_warnings",
    "log_mujoco_warnings",
    "log_warning",
    "redirect_warnings",
    "repeat_warnings",
]

log = logging.getLogger("rlox.mujoco")
# First warning of each kind; the kind is its text without numbers. MuJoCo repeats a deprecation for every
# model that it compiles, and an instability in every episode, with the time.
_first_message_by_kind: dict[str, str] = {}


@contextmanager
def log_mujoco_warnings() -> Iterator[None]:
    """Context manager for making an environment: log MuJoCo's warnings, also if only the block imports it.

    A callback that the user has set (`mujoco.set_mju_user_warning`) stays.
    """
    mujoco_module = sys.modules.get("mujoco")
    if mujoco_module is not None:
        _install_handler(mujoco_module)
        yield
        return
    finder = _MujocoFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        finder.remove()


def log_warning(text: str) -> None:
    """Log a warning, once per kind: a deprecation at level INFO, others at level WARNING."""
    kind = re.sub(r"[-+]?\d[-+.\de]*", "#", text)
    if kind not in _first_message_by_kind:
        _first_message_by_kind[kind] = text
        _handle_warning(text)


def repeat_warnings() -> None:
    """Log earlier warnings again, for a log that opens after the environments of its run were made."""
    for text in _first_message_by_kind.values():
        _handle_warning(text)


def clear_warnings() -> None:
    """Forget earlier warnings, so that the log of another run gets each kind again."""
    _first_message_by_kind.clear()


def redirect_warnings(handler: Callable[[str], None]) -> None:
    """Pass the first warning of each kind to `handler` instead of the log: for a worker, which has no log."""
    global _handle_warning
    _handle_warning = handler


def _log_message(text: str) -> None:
    level = logging.INFO if "deprecated" in text else logging.WARNING
    log.log(level, "MuJoCo: %s", text)


_handle_warning: Callable[[str], None] = _log_message


def _install_handler(mujoco: ModuleType) -> None:
    if mujoco.get_mju_user_warning() is None:
        mujoco.set_mju_user_warning(log_warning)


class _MujocoFinder(MetaPathFinder):
    """Installs the warning handler when MuJoCo is imported, before it compiles its first model."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return MuJoCo's usual spec with a loader that installs the handler at the end."""
        if name != "mujoco":
            return None
        self.remove()
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            exec_module = spec.loader.exec_module

            def load_and_install_handler(module: ModuleType) -> None:
                exec_module(module)
                _install_handler(module)

            # set on the loader itself, as packages find their files by its other methods
            setattr(spec.loader, "exec_module", load_and_install_handler)  # noqa: B010 mypy knows it as a method
        return spec

    def remove(self) -> None:
        """Stop intercepting imports."""
        with suppress(ValueError):
            sys.meta_path.remove(self)
