"""Values from the environment of the process (`${oc.env:TOKEN}`): used, and written down nowhere.

Where a key is not a field of ours (`env.kwargs.token`, arguments of wrappers) nobody knows what its value is
for, so that a file gets the reference in its place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import Field, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from rlox.errors import ConfigError

__all__ = [
    "FromProcess",
    "filled",
    "is_secret",
    "looked_up",
    "masked",
    "meant",
    "references",
    "revealed",
    "scrubbed",
]

C = TypeVar("C")

HIDDEN = "***"
WORDS = {"true": True, "false": False, "null": None}
SHORTEST = 4  # characters of a value that is looked for in messages
_HELD: dict[str, str] = {}  # values of variables that were asked for, and the text that did
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_SECRETS = {"key", "apikey", "token", "secret", "password", "passwd", "credential", "credentials"}
_REFERENCE = re.compile(r"\$\{oc\.env:\s*([^,}]+?)\s*(?:,\s*([^{}]*))?\}")
_INSIDE = re.compile(r"([\w.-]+)(\s*:)(?!\s*\$\{oc\.env:\w+\})")


class FromProcess:
    """A value and the text that asked for it; only the text is shown, written, compared."""

    def __init__(self, text: str, value: Any) -> None:
        if not is_reference(text):
            raise ConfigError(
                f"{text}: a value of the environment is reached by a detour; write ${{oc.env:NAME}} itself"
            )
        self.text = text
        self.value = value
        for asked in _REFERENCE.finditer(text):
            held = os.environ.get(asked[1], asked[2] or "")
            if len(held) >= SHORTEST and held.lower() not in WORDS:
                _HELD[held] = asked[0]

    def __repr__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FromProcess) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __deepcopy__(self, memo: Any) -> FromProcess:
        return self


def revealed(value: Any) -> Any:
    """The data as whoever it is for gets it."""
    if isinstance(value, FromProcess):
        return value.value
    if isinstance(value, Mapping):
        return {key: revealed(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [revealed(inner) for inner in value]
    return value


def scrubbed(text: str) -> str:
    """The text with what asked for it in place of every value of the environment: errors quote arguments."""
    for value in sorted(_HELD, key=len, reverse=True):
        text = text.replace(value, _HELD[value])
    return text


def is_reference(text: str) -> bool:
    """Whether all that is looked up in the text is variables of the environment."""
    return bool(_REFERENCE.search(text)) and "${" not in _REFERENCE.sub("", text)


def references(config: Any, prefix: str = "", known: bool = False) -> Iterator[tuple[str, str]]:
    """Key and text of all references that have not been looked up; with `known` of the others too."""
    for f in fields(config):
        value, key = getattr(config, f.name), f"{prefix}{f.name}"
        if is_dataclass(value):
            yield from references(value, f"{key}.", known)
        elif _is_open(f, value):
            yield from _texts(value, key, known)


def looked_up(config: C, prefix: str = "") -> C:
    """The same configuration object with the values that its references ask for."""
    changed: dict[str, Any] = {}
    declared: Any = config
    for f in fields(declared):
        value = getattr(config, f.name)
        if is_dataclass(value):
            found = looked_up(value, f"{prefix}{f.name}.")
        else:
            found = filled(value, f"{prefix}{f.name}") if _is_open(f, value) else value
        if found is not value:
            changed[f.name] = found
    return cast(C, replace(declared, **changed)) if changed else config


def is_secret(key: str) -> bool:
    """Whether a key is named as what should not be seen is."""
    words = _WORDS.findall(key.rpartition(".")[2])
    return bool(_SECRETS.intersection(word.lower() for word in words))


def masked(command: Sequence[str]) -> list[str]:
    """A command line without the values of keys that are named like secrets."""
    return [_masked(argument) for argument in command]


def meant(text: str) -> Any:
    """What a value of the environment is, if it were typed: a number, a flag, null, or text."""
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _is_open(f: Field[Any], value: Any) -> bool:
    """Whether what is below a field is not ours: arguments of environments and of code."""
    return isinstance(value, Mapping) or f.metadata.get("code") in ("one", "many")


def _masked(argument: str) -> str:
    key, equals, value = argument.partition("=")
    if equals and is_secret(key) and not re.fullmatch(r"\$\{oc\.env:\w+\}", value):
        return f"{key}={HIDDEN}"
    if value[:1] in "{[":
        for match in _INSIDE.finditer(value):
            if is_secret(match[1]):  # what follows may be quoted, nested or a list: all of it goes
                return f"{key}={value[: match.end(2)]} {HIDDEN}"
    return argument


def _texts(value: Any, key: str, known: bool = False) -> Iterator[tuple[str, str]]:
    if isinstance(value, FromProcess) and known:
        yield key, value.text
    elif isinstance(value, str) and _REFERENCE.search(value):
        yield key, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _texts(inner, f"{key}.{name}", known)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _texts(inner, key, known)


def filled(value: Any, key: str) -> Any:
    """The data with what its references ask for; the very same where there are none."""
    if not any(_texts(value, key)):
        return value
    if isinstance(value, str):
        text = _REFERENCE.sub(lambda m: _variable(m[1], m[2], key), value)
        return FromProcess(value, meant(text))
    if isinstance(value, Mapping):
        return {name: filled(inner, f"{key}.{name}") for name, inner in value.items()}
    return type(value)(filled(inner, key) for inner in value)


def _variable(name: str, default: str | None, key: str) -> str:
    found = os.environ.get(name, default)
    if found is None:
        raise ConfigError(f"{key}: the environment has no variable {name}; set it")
    return found
