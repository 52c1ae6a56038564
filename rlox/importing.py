"""Importing what a configuration names: a module, or `module:Name`; errors name the key, file and line."""

from __future__ import annotations

import importlib
import sys
import sysconfig
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from rlox.configs import nearest
from rlox.configs.code import Code, arguments_of, name_of
from rlox.configs.secrets import revealed
from rlox.errors import ConfigError, RloxError, UnknownNameError
from rlox.plugins import the_offer

__all__ = ["failure", "import_module", "load", "made", "wording"]

LONGEST = 500  # letters of an exception's text in one of ours
# Where code is that is not the user's: of Python, of packages, of rlox.
_LIBRARIES = (
    "<frozen ",
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    str(Path(__file__).parent),
)


def import_module(told: str, module: str) -> ModuleType:
    """A module; `UnknownNameError` if it cannot be imported, `ConfigError` with the file and line if it
    fails on the way, and for a path. `told` is the `key=value` that names it.
    """
    if module.startswith(".") or "/" in module or module.endswith(".py"):
        plain = module.removesuffix(".py").removeprefix("./").lstrip(".").replace("/", ".")
        meant = plain and ".." not in module and not module.startswith("/")
        raise ConfigError(
            f"{told}: '{module}' is a path, expected a module that Python can import from the current folder"
            + (f"; did you mean '{plain}'?" if meant else "")
        )
    # As with `python -m`, modules in the current folder can be named; an installed command lacks it.
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UnknownNameError(f"{told}: module '{module}' cannot be imported: {error}") from error
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"{told}: module '{module}' fails when it is imported: {failure(error)}"
        ) from error


def failure(error: BaseException) -> str:
    """What went wrong in code of the user's, and where: `ValueError: no (my_pkg.py, line 3)`.

    The line is the innermost one of theirs, also where a library that it calls has raised.
    """
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg} ({error.filename}, line {error.lineno})"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)]
    last = (own or frames)[-1]
    return f"{type(error).__name__}: {wording(error)} ({last.filename}, line {last.lineno})"


def wording(error: BaseException) -> str:
    """The text of an exception as one line; where it has none, as of a bare `assert`, the failing line."""
    said = " ".join(str(error).split())
    if said:
        return said if len(said) <= LONGEST else f"{said[: LONGEST - 3]}..."
    frames = traceback.extract_tb(error.__traceback__)
    return (frames[-1].line if frames else "") or "without a word"


def load(spec: Code, key: str) -> Any:
    """What a spec of code names; an object of the user's is itself."""
    if callable(spec):
        return spec
    name = name_of(spec)
    if name.startswith("<"):
        raise ConfigError(f"{key}={name}: an object, which is not saved; give it again")
    if ":" not in name:  # a word of a plugin's, which the configuration has been checked for
        offer = the_offer("wrapper", name, f"{key}={name}")
        if offer is None:
            raise UnknownNameError(f"{key}={name}: no plugin of this name is installed")
        return offer.load(f"{key}={name}")
    module, _, attribute = name.partition(":")
    found = vars(import_module(f"{key}={name}", module))
    if attribute not in found:
        raise UnknownNameError(
            f"{key}={name}: module '{module}' has no {attribute}{nearest(attribute, _made_by(found))}"
        )
    return found[attribute]


def _made_by(found: Mapping[str, Any]) -> list[str]:
    """The names in a module that make something: classes and functions, none of them hidden."""
    return [name for name, value in found.items() if callable(value) and not name.startswith("_")]


def made(spec: Code, key: str, *given: Any) -> Any:
    """What the spec makes of `given` and its own arguments."""
    maker, arguments = load(spec, key), revealed(arguments_of(spec))
    if not callable(maker):
        raise ConfigError(f"{key}={name_of(spec)}: expected a class or a function")
    try:
        return maker(*given, **arguments)
    except RloxError:
        raise
    except (Exception, SystemExit) as error:
        if not isinstance(error, TypeError):
            raise ConfigError(f"{key}={name_of(spec)} fails: {failure(error)}") from error
        with_these = f" with {', '.join(arguments)}" if arguments else ""
        raise ConfigError(f"{key}={name_of(spec)} cannot be made{with_these}: {error}") from error
