"""`param(...)`: a config field that knows its meaning, its range and its source.

The same declaration is the default, the validation rule and the line in `rlox train --help`,
so the three cannot drift apart.
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
    default_factory: Callable[[], Any] | None = None,
) -> Any:
    """Declare a config field.

    `within` is an interval such as `"(0, 1]"`, `besides` values outside it that are allowed too;
    `choices` the allowed values; `instead_of` the fields beside it that say the same in another way,
    of which one is given; `only_with` the switch beside it without which it says nothing; `source`
    where the default comes from (paper, table, library); `verbatim`
    says that it is a path or the like: any text, also on the command line; `scheduled` that it may
    change over the run (`configs.schedules`), `anneals` the field that it lets fall to 0;
    `code` that it names code of the user's (`configs.code`): one, many, or id for an environment's;
    `plugin` the kind of plugins whose names it takes as well; `hint` what is said of a value of another
    type besides; `null_word` a word that means null.
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
    }
    if default_factory is not None:
        return field(default_factory=default_factory, metadata=metadata)
    return field(default=default, metadata=metadata)


def default_of(f: Field[Any]) -> Any:
    """What a field is unless it is given; `dataclasses.MISSING` where it has to be."""
    return f.default if f.default_factory is MISSING else f.default_factory()


@functools.cache
def type_hints_of(cls: type[Any]) -> Mapping[str, Any]:
    """The types that a dataclass declares, by field; evaluated once, as every value is checked by them."""
    return typing.get_type_hints(cls)


def object_name(value: Any) -> str:
    """An object of the user's as files say it, which cannot hold it: `<Name>`."""
    return f"<{getattr(value, '__qualname__', None) or type(value).__name__}>"


def is_object_name(text: str) -> bool:
    """Whether the text stands for an object."""
    return text.startswith("<") and text.endswith(">")


def parse_interval(text: str) -> tuple[bool, float, float, bool]:
    """`"(0, 1]"` -> (open at the low end, 0.0, 1.0, open at the high end)."""
    match = _INTERVAL.match(text)
    if match is None:
        raise ValueError(f"not an interval: {text!r}")
    low, high = float(match[2]), float(match[3])
    return match[1] == "(", low, high, match[4] == ")"


def is_inside(value: float, interval: str) -> bool:
    """Whether `value` lies in `interval`; NaN never does."""
    open_low, low, high, open_high = parse_interval(interval)
    if math.isnan(value):
        return False
    above = value > low if open_low else value >= low
    below = value < high if open_high else value <= high
    return above and below


def expected_text(f: Field[Any]) -> str:
    """What a field accepts beyond its type, in words: `one of a, b` or `in (0, 1]`."""
    if f.metadata.get("choices"):
        return "one of " + ", ".join(str(c) for c in f.metadata["choices"])
    if f.metadata.get("within"):
        besides = (str(value) for value in f.metadata["besides"])
        more = ["a schedule such as lin_3e-4"] * bool(f.metadata.get("scheduled"))
        return " or ".join([f"in {f.metadata['within']}", *besides, *more])
    return ""
