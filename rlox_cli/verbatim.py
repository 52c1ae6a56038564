"""Values that are paths or the like: any text that the shell hands over, not Hydra's grammar."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from rlox_cli.schema import Key

HYDRAS = frozenset({"hydra.run.dir", "hydra.sweep.dir", "hydra.sweeper.storage"})
_QUOTED = re.compile(r"""(["']).*\1""", re.DOTALL)
_ELEMENT = re.compile(
    r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|(?:\$\{[^{}]*\}|[^,])*),""", re.DOTALL
)
_CALL = re.compile(r"\w+\(.*\)", re.DOTALL)


def verbatim_keys(keys: Iterable[Key]) -> frozenset[str]:
    """The names of those keys whose values are any text, Hydra's own too."""
    return HYDRAS | {key.name for key in keys if key.field.metadata.get("verbatim")}


def quoted(overrides: Iterable[str], keys: frozenset[str], several: bool) -> Iterator[str]:
    """The overrides, with values of the keys `keys` in Hydra's quotes and `~` written out.

    What is in quotes already, `null`, and interpolations within a path mean what they mean to Hydra;
    with `several`, so do commas and calls such as `choice(a,b)`.
    """
    for override in overrides:
        key, equals, value = override.partition("=")
        if key.lstrip("+") not in keys or not equals or (several and _CALL.fullmatch(value)):
            yield override
            continue
        values = _several(value) if several else [value]
        yield f"{key}={','.join(map(in_quotes, values))}"


def _several(value: str) -> list[str]:
    """The values between commas; one in quotes, or in an interpolation, parts nothing."""
    return [found[1] for found in _ELEMENT.finditer(f"{value},")]


def in_quotes(value: str) -> str:
    """A value in Hydra's quotes, unless it is in quotes or means something to Hydra."""
    if value in ("", "null", "???") or _QUOTED.fullmatch(value):
        return value
    text = str(Path(value).expanduser()) if value.startswith("~/") else value
    # in quotes, Hydra reads backslashes before a quote in pairs and leaves the others alone
    text = re.sub(r"(\\*)('|$)", lambda m: m[1] * 2 + ("\\'" if m[2] else ""), text)
    return f"'{text}'"
