"""Values from environment variables (`${oc.env:TOKEN}`), which are used but never written to a file.

For keys that are not fields of rlox's configuration (`env.kwargs.token`, arguments of wrappers) any value
may be secret, so files contain the reference instead.
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
    "EnvVarRef",
    "is_secret",
    "mask_command",
    "parse_scalar",
    "redact",
    "references",
    "resolve",
    "substitute",
    "unwrap",
]

C = TypeVar("C")

HIDDEN = "***"
CONSTANTS = {"true": True, "false": False, "null": None}
MIN_REDACTED_LENGTH = 4  # shorter values are not replaced in messages
_VALUES_IN_USE: dict[str, str] = {}  # values of the variables in use, and the references to them
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_SECRET_WORDS = {"key", "apikey", "token", "secret", "password", "passwd", "credential", "credentials"}
_REFERENCE = re.compile(r"\$\{oc\.env:\s*([^,}]+?)\s*(?:,\s*([^{}]*))?\}")
_NESTED_KEY = re.compile(r"([\w.-]+)(\s*:)(?!\s*\$\{oc\.env:\w+\})")


class EnvVarRef:
    """A value and its reference; only the reference is shown, written and compared."""

    def __init__(self, text: str, value: Any) -> None:
        if not is_reference(text):
            raise ConfigError(
                f"{text}: an indirect reference to an environment variable; write ${{oc.env:NAME}} itself"
            )
        self.text = text
        self.value = value
        for match in _REFERENCE.finditer(text):
            value_text = os.environ.get(match[1], match[2] or "")
            if len(value_text) >= MIN_REDACTED_LENGTH and value_text.lower() not in CONSTANTS:
                _VALUES_IN_USE[value_text] = match[0]

    def __repr__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EnvVarRef) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __deepcopy__(self, memo: Any) -> EnvVarRef:
        return self


def unwrap(value: Any) -> Any:
    """Return the data with each `EnvVarRef` replaced by its value."""
    if isinstance(value, EnvVarRef):
        return value.value
    if isinstance(value, Mapping):
        return {key: unwrap(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [unwrap(inner) for inner in value]
    return value


def redact(text: str) -> str:
    """Replace values of environment variables by their references, as errors may quote arguments."""
    for value in sorted(_VALUES_IN_USE, key=len, reverse=True):
        text = text.replace(value, _VALUES_IN_USE[value])
    return text


def is_reference(text: str) -> bool:
    """Return whether the text contains references, all of them to environment variables."""
    return bool(_REFERENCE.search(text)) and "${" not in _REFERENCE.sub("", text)


def references(config: Any, prefix: str = "", include_resolved: bool = False) -> Iterator[tuple[str, str]]:
    """Yield key and text of the unresolved references; with `include_resolved` of all references."""
    for f in fields(config):
        value, key = getattr(config, f.name), f"{prefix}{f.name}"
        if is_dataclass(value):
            yield from references(value, f"{key}.", include_resolved)
        elif _is_free_form(f, value):
            yield from _reference_texts(value, key, include_resolved)


def resolve(config: C, prefix: str = "") -> C:
    """Return the configuration with its references replaced by their values."""
    changed: dict[str, Any] = {}
    declared: Any = config
    for f in fields(declared):
        value = getattr(config, f.name)
        if is_dataclass(value):
            resolved_value = resolve(value, f"{prefix}{f.name}.")
        else:
            resolved_value = substitute(value, f"{prefix}{f.name}") if _is_free_form(f, value) else value
        if resolved_value is not value:
            changed[f.name] = resolved_value
    return cast(C, replace(declared, **changed)) if changed else config


def is_secret(key: str) -> bool:
    """Return whether the key's name suggests a secret."""
    words = _WORDS.findall(key.rpartition(".")[2])
    return bool(_SECRET_WORDS.intersection(word.lower() for word in words))


def mask_command(command: Sequence[str]) -> list[str]:
    """Return a command line with the values of secret keys masked."""
    return [_mask_argument(argument) for argument in command]


def parse_scalar(text: str) -> Any:
    """Parse the text of an environment variable as a number, a bool, null, or text."""
    if text.lower() in CONSTANTS:
        return CONSTANTS[text.lower()]
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return text


def _is_free_form(f: Field[Any], value: Any) -> bool:
    """Return whether the contents of a field are not rlox's own: arguments of environments and code."""
    return isinstance(value, Mapping) or f.metadata.get("code") in ("one", "many")


def _mask_argument(argument: str) -> str:
    key, equals, value = argument.partition("=")
    if equals and is_secret(key) and not re.fullmatch(r"\$\{oc\.env:\w+\}", value):
        return f"{key}={HIDDEN}"
    if value[:1] in "{[":
        for match in _NESTED_KEY.finditer(value):
            if is_secret(match[1]):  # the value may be quoted, nested or a list, so the rest is masked
                return f"{key}={value[: match.end(2)]} {HIDDEN}"
    return argument


def _reference_texts(value: Any, key: str, include_resolved: bool = False) -> Iterator[tuple[str, str]]:
    if isinstance(value, EnvVarRef) and include_resolved:
        yield key, value.text
    elif isinstance(value, str) and _REFERENCE.search(value):
        yield key, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _reference_texts(inner, f"{key}.{name}", include_resolved)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _reference_texts(inner, key, include_resolved)


def substitute(value: Any, key: str) -> Any:
    """Return the data with its references resolved; the same object if there are none."""
    if not any(_reference_texts(value, key)):
        return value
    if isinstance(value, str):
        text = _REFERENCE.sub(lambda m: _env_variable(m[1], m[2], key), value)
        return EnvVarRef(value, parse_scalar(text))
    if isinstance(value, Mapping):
        return {name: substitute(inner, f"{key}.{name}") for name, inner in value.items()}
    return type(value)(substitute(inner, key) for inner in value)


def _env_variable(name: str, default: str | None, key: str) -> str:
    value = os.environ.get(name, default)
    if value is None:
        raise ConfigError(f"{key}: the environment has no variable {name}; set it")
    return value
