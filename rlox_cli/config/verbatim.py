"""Values such as paths: any text from the shell, without Hydra's grammar."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from rlox_cli.config.schema import Key

HYDRA_KEYS = frozenset({"hydra.run.dir", "hydra.sweep.dir", "hydra.sweeper.storage"})
_QUOTED = re.compile(r"""(["']).*\1""", re.DOTALL)
_ELEMENT = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|(?:\$\{[^{}]*\}|[^,])*),""", re.DOTALL)
_INTERPOLATION = re.compile(r"(\\*)\$\{")
_CALL = re.compile(r"\w+\(.*\)", re.DOTALL)


def verbatim_keys(keys: Iterable[Key]) -> frozenset[str]:
    """Return the names of the keys whose values may be any text, including keys of Hydra."""
    return HYDRA_KEYS | {key.name for key in keys if key.field.metadata.get("verbatim")}


def quote_values(overrides: Iterable[str], keys: frozenset[str], allow_several: bool) -> Iterator[str]:
    """Yield the overrides, with values of the keys `keys` in Hydra's quotes and `~` expanded.

    Quoted values, `null` and interpolations within a path keep their meaning in Hydra; with
    `allow_several`, so do commas and calls such as `choice(a,b)`.
    """
    for override in overrides:
        key, equals, value = override.partition("=")
        if key.lstrip("+") not in keys or not equals or (allow_several and _CALL.fullmatch(value)):
            yield override
            continue
        values = _split_values(value) if allow_several else [value]
        yield f"{key}={','.join(map(quote, values))}"


def _split_values(value: str) -> list[str]:
    """Split values at commas, except inside quotes or interpolations."""
    return [match[1] for match in _ELEMENT.finditer(f"{value},")]


def expand_path(text: str) -> Path:
    """Return the typed path: `~/` is the home folder, `~name` a folder of that name."""
    return Path(text).expanduser() if text.startswith("~/") else Path(text)


def quote_existing_path(name: str) -> str:
    """Return a path as the value of an override; in an existing path nothing has a meaning to Hydra."""
    # `Path(name).exists()` raises if `name` is longer than a file name may be
    if not os.path.exists(name):  # noqa: PTH110
        return name
    path_text = f"./{name}" if name in ("null", "???") else name
    return _INTERPOLATION.sub(lambda m: m[1] * 2 + r"\${", _add_quotes(path_text))


def quote(value: str) -> str:
    """Return a value in Hydra's quotes, unless it is quoted already or has a meaning to Hydra."""
    if value in ("", "null", "???") or _QUOTED.fullmatch(value):
        return value
    return _add_quotes(str(expand_path(value)) if value.startswith("~/") else value)


def _add_quotes(text: str) -> str:
    # in quotes, Hydra reads backslashes before a quote in pairs and leaves the others alone
    text = re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + ("\\'" if m[2] else ""), text)
    return f"'{text}'"
