"""Values that are paths or the like: any text that the shell hands over, not Hydra's grammar."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from rlox_cli.schema import Key

HYDRA_KEYS = frozenset({"hydra.run.dir", "hydra.sweep.dir", "hydra.sweeper.storage"})
_QUOTED = re.compile(r"""(["']).*\1""", re.DOTALL)
_ELEMENT = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|(?:\$\{[^{}]*\}|[^,])*),""", re.DOTALL)
_INTERPOLATION = re.compile(r"(\\*)\$\{")
_CALL = re.compile(r"\w+\(.*\)", re.DOTALL)


def verbatim_keys(keys: Iterable[Key]) -> frozenset[str]:
    """The names of those keys whose values are any text, Hydra's own too."""
    return HYDRA_KEYS | {key.name for key in keys if key.field.metadata.get("verbatim")}


def quote_values(overrides: Iterable[str], keys: frozenset[str], allow_several: bool) -> Iterator[str]:
    """The overrides, with values of the keys `keys` in Hydra's quotes and `~` written out.

    What is in quotes already, `null`, and interpolations within a path mean what they mean to Hydra;
    with `allow_several`, so do commas and calls such as `choice(a,b)`.
    """
    for override in overrides:
        key, equals, value = override.partition("=")
        if key.lstrip("+") not in keys or not equals or (allow_several and _CALL.fullmatch(value)):
            yield override
            continue
        values = _split_values(value) if allow_several else [value]
        yield f"{key}={','.join(map(quote, values))}"


def _split_values(value: str) -> list[str]:
    """The values between commas; one in quotes, or in an interpolation, parts nothing."""
    return [match[1] for match in _ELEMENT.finditer(f"{value},")]


def expand_path(text: str) -> Path:
    """The path that was typed: `~/` is the home folder, `~name` a folder of that name."""
    return Path(text).expanduser() if text.startswith("~/") else Path(text)


def quote_existing_path(name: str) -> str:
    """A path as the value of an override; of one that is there nothing means anything to Hydra."""
    # `Path` raises for a name that is longer than a file's may be
    if not os.path.exists(name):  # noqa: PTH110
        return name
    path_text = f"./{name}" if name in ("null", "???") else name
    return _INTERPOLATION.sub(lambda m: m[1] * 2 + r"\${", _add_quotes(path_text))


def quote(value: str) -> str:
    """A value in Hydra's quotes, unless it is in quotes or means something to Hydra."""
    if value in ("", "null", "???") or _QUOTED.fullmatch(value):
        return value
    return _add_quotes(str(expand_path(value)) if value.startswith("~/") else value)


def _add_quotes(text: str) -> str:
    # in quotes, Hydra reads backslashes before a quote in pairs and leaves the others alone
    text = re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + ("\\'" if m[2] else ""), text)
    return f"'{text}'"
