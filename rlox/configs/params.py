"""`param(...)`: a config field with its default, meaning, range and source.

Defaults, validation and `rlox train --help` all use this one declaration, so they always agree.
"""

from __future__ import annotations

import functools
import math
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field
from typing import Any

_INTERVAL = re.compile(r"^([\[(])\s*(-?inf|-?[\d.eE+-]+)\s*,\s*(-?inf|-?[\d.eE+-]+)\s*([\])])$")


def param(
    default: Any = MISSING,
    doc: str = "",
    *,
    within: str | None = None,
    besides: tuple[Any, ...] = (),
    choices: tuple[Any, ...] | None = None,
    instead_of: str | tuple[str, ...] = (),
    only_with: str | None = None,
    source: str | None = None,
    verbatim: bool = False,
    scheduled: bool = False,
    anneals: str | None = None,
    code: str | None = None,
    plugin: str | None = None,
    hint: str | None = None,
    null_word: str | None = None,
    argument: str | None = None,
    accepts: str | None = None,
    default_factory: Callable[[], Any] | None = None,
) -> Any:
    """Declare a config field.

    `within` is an interval such as `"(0, 1]"`; `besides` lists allowed values outside of it.
    `choices` lists the allowed values. `instead_of` names fields that set the same thing in another way; only
    one of them may be given. `only_with` names the switch without which the field has no effect. `source` is
    the origin of the default (paper, table, library). `verbatim` allows any text, such as a path, also on
    the command line. `scheduled`: the value may change over the run (`configs.schedules`). `anneals` names
    the field that this switch decreases to 0. `code`: the field names user code (`configs.code`): one, many,
    id for an environment's id, or url for a server's address. `plugin` is the kind of plugins whose names are
    also allowed. `hint` is added to the error for a value of the wrong type. `null_word` is a word that
    means null. `argument` is the field's name as an argument of an algorithm's class, if it is another one
    (`configs.arguments`). `accepts` is a type of objects that this argument takes besides values.
    """
    if within is not None:
        parse_interval(within)
    metadata = {
        "doc": doc,
        "within": within,
        "besides": besides,
        "choices": choices,
        "instead_of": (instead_of,) if isinstance(instead_of, str) else instead_of,
        "only_with": only_with,
        "source": source,
        "verbatim": verbatim,
        "scheduled": scheduled,
        "anneals": anneals,
        "code": code,
        "plugin": plugin,
        "hint": hint,
        "null_word": null_word,
        "argument": argument,
        "accepts": accepts,
    }
    if default_factory is not None:
        return field(default_factory=default_factory, metadata=metadata)
    return field(default=default, metadata=metadata)


def default_of(f: Field[Any]) -> Any:
    """Return the default of a field; `dataclasses.MISSING` if it is required."""
    return f.default if f.default_factory is MISSING else f.default_factory()


@functools.cache
def type_hints_of(cls: type[Any]) -> Mapping[str, Any]:
    """Return the field types of a dataclass; cached, because every value is checked against them."""
    return typing.get_type_hints(cls)


def object_name(value: Any) -> str:
    """Return `<Name>`, the text that files contain for a Python object."""
    return f"<{getattr(value, '__qualname__', None) or type(value).__name__}>"


def is_object_name(text: str) -> bool:
    """Return whether the text stands for a Python object."""
    return text.startswith("<") and text.endswith(">")


def parse_interval(text: str) -> tuple[bool, float, float, bool]:
    """Parse an interval: `"(0, 1]"` -> (open at the low end, 0.0, 1.0, open at the high end)."""
    match = _INTERVAL.match(text)
    if match is None:
        raise ValueError(f"not an interval: {text!r}")
    low, high = float(match[2]), float(match[3])
    return match[1] == "(", low, high, match[4] == ")"


def is_inside(value: float, interval: str) -> bool:
    """Return whether `value` lies in `interval`; NaN never does."""
    open_low, low, high, open_high = parse_interval(interval)
    if math.isnan(value):
        return False
    above = value > low if open_low else value >= low
    below = value < high if open_high else value <= high
    return above and below


def expected_text(f: Field[Any]) -> str:
    """Return a description of what a field accepts beyond its type: `one of a, b` or `in (0, 1]`."""
    if f.metadata.get("choices"):
        return "one of " + ", ".join(str(c) for c in f.metadata["choices"])
    if f.metadata.get("within"):
        besides = (str(value) for value in f.metadata["besides"])
        more = ["a schedule such as lin_3e-4"] * bool(f.metadata.get("scheduled"))
        return " or ".join([f"in {f.metadata['within']}", *besides, *more])
    return ""
