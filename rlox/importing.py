"""Import the code that a configuration names, `module` or `module:Name`; errors name key, file and line."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from rlox.configs import nearest
from rlox.configs.params import Code, display_name, spec_arguments
from rlox.configs.secrets import unwrap
from rlox.errors import ConfigError, RloxError, UnknownNameError, describe_error
from rlox.plugins import find_entry

__all__ = ["build_object", "import_module", "load"]


def import_module(setting: str, module: str) -> ModuleType:
    """Import a module. `setting` is the `key=value` that names it.

    Raises `UnknownNameError` for an `ImportError`, `ConfigError` for a path, and `ConfigError` for another
    error during the import; the message of the last one names the file and line.
    """
    if module.startswith(".") or "/" in module or module.endswith(".py"):
        dotted_name = module.removesuffix(".py").removeprefix("./").lstrip(".").replace("/", ".")
        has_hint = dotted_name and ".." not in module and not module.startswith("/")
        raise ConfigError(
            f"{setting}: '{module}' is a path, expected a module that Python can import from the current "
            "folder" + (f"; did you mean '{dotted_name}'?" if has_hint else "")
        )
    # `python -m` can import modules of the current folder; an installed command can only with this entry
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UnknownNameError(f"{setting}: module '{module}' cannot be imported: {error}") from error
    except (Exception, SystemExit) as error:
        raise ConfigError(
            f"{setting}: module '{module}' fails when it is imported: {describe_error(error)}"
        ) from error


def load(spec: Code, key: str) -> Any:
    """Load the object that a spec names; an object of the user's is returned as it is."""
    if callable(spec):
        return spec
    name = display_name(spec)
    if name.startswith("<"):
        raise ConfigError(f"{key}={name}: an object, which is not saved; give it again")
    if ":" not in name:  # a plugin's name; the configuration check has already found it
        entry = find_entry("wrapper", name, f"{key}={name}")
        if entry is None:
            raise UnknownNameError(f"{key}={name}: no plugin of this name is installed")
        return entry.load(f"{key}={name}")
    module_name, _, attribute = name.partition(":")
    members = vars(import_module(f"{key}={name}", module_name))
    if attribute not in members:
        raise UnknownNameError(
            f"{key}={name}: module '{module_name}' has no "
            f"{attribute}{nearest(attribute, _callables_in(members))}"
        )
    return members[attribute]


def _callables_in(members: Mapping[str, Any]) -> list[str]:
    """Return the names of the public classes and functions in a module."""
    return [name for name, value in members.items() if callable(value) and not name.startswith("_")]


def build_object(spec: Code, key: str, *args: Any) -> Any:
    """Load the callable that the spec names, and call it with `args` and the spec's own arguments."""
    factory, arguments = load(spec, key), unwrap(spec_arguments(spec))
    if not callable(factory):
        raise ConfigError(f"{key}={display_name(spec)}: expected a class or a function")
    try:
        return factory(*args, **arguments)
    except RloxError:
        raise
    except (Exception, SystemExit) as error:
        if not isinstance(error, TypeError):
            raise ConfigError(f"{key}={display_name(spec)} fails: {describe_error(error)}") from error
        arguments_text = f" with {', '.join(arguments)}" if arguments else ""
        raise ConfigError(f"{key}={display_name(spec)} cannot be made{arguments_text}: {error}") from error
