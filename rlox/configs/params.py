"""Fields of configurations: `param(...)` with default, meaning, range and source, and `code(...)`.

Defaults, validation and `rlox train --help` all use this one declaration, so they always agree.

A `code` field names code: `module:Name`, with or without arguments; in Python also the object. A
configuration that the user typed or wrote is trusted. A run folder is data from any source: code that it
names is imported only if the user repeats the name or trusts the folder (`require_trusted`).
"""

from __future__ import annotations

import functools
import math
import re
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass
from typing import Any

from rlox import plugins
from rlox.configs.name_suggestions import nearest
from rlox.configs.secrets import EnvVarRef, references
from rlox.errors import ConfigError

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
    the field that this switch decreases to 0. `code`: the field names user code (`code` below): one, many,
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
        choices = [str(choice) for choice in f.metadata["choices"]]
        return f"one of {', '.join(choices)}" if len(choices) > 1 else f"{choices[0]}, the only choice"
    if f.metadata.get("within"):
        besides = (str(value) for value in f.metadata["besides"])
        more = ["a schedule such as lin_3e-4"] * bool(f.metadata.get("scheduled"))
        return " or ".join([f"in {f.metadata['within']}", *besides, *more])
    return ""


# `module:Name`, or `{"name": "module:Name", **arguments}`, or the object itself, which files cannot store.
Code = str | Mapping[str, Any] | Callable[..., Any]

_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def code(doc: str, *, names: tuple[str, ...] = (), many: bool = False, plugin: str | None = None) -> Any:
    """Declare a `param` that names code; with `many`, a list.

    Besides paths it accepts the names in `names` and those of plugins of the kind `plugin`.
    """
    kind = "many" if many else "one"
    return param(() if many else None, doc, code=kind, choices=names or None, plugin=plugin)


def as_code(f: Field[Any], value: Any, path: str) -> Any:
    """Check the value of a `code` field; import nothing."""
    if f.metadata["code"] == "one":
        return None if value is None else _check_code(f, value, path)
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise ConfigError(f"{path}={value!r}: expected a list, e.g. {path}=[...]")
    return tuple(_check_code(f, item, f"{path}[{i}]") for i, item in enumerate(value))


def plain_argument(value: Any, path: str) -> Any:
    """Return an argument as plain data; raise `ConfigError` unless it is a number, text, list or mapping."""
    if value is None or isinstance(value, (bool, int, float, str, EnvVarRef)):
        return value
    if isinstance(value, Mapping):
        return {str(k): plain_argument(v, f"{path}.{k}") for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_argument(v, path) for v in value]
    if callable(getattr(value, "item", None)) and getattr(value, "ndim", None) == 0:
        return value.item()  # a NumPy scalar
    raise ConfigError(
        f"{path}: a {type(value).__name__}, expected a number, text, a list or a mapping; give an object "
        "with that argument, e.g. functools.partial(Wrapper, argument), or lambda: gym.make(...)"
    )


def spec_name(spec: Code) -> str:
    """Return the path or name of a spec that is not an object."""
    return str(spec["name"] if isinstance(spec, Mapping) else spec)


def spec_arguments(spec: Code) -> dict[str, Any]:
    """Return the arguments of a spec."""
    return {k: v for k, v in spec.items() if k != "name"} if isinstance(spec, Mapping) else {}


def display_name(spec: Code) -> str:
    """Return the name of a spec in messages and files."""
    return object_name(spec) if callable(spec) else spec_name(spec)


def code_paths(config: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the key and path of all code that a configuration names, and all server addresses."""
    for f in fields(config):
        value, key = getattr(config, f.name), f"{prefix}{f.name}"
        kind = f.metadata.get("code")
        if is_dataclass(value):
            yield from code_paths(value, f"{key}.")
        elif (kind == "id" and ":" in value) or (kind == "url" and _is_server_used(config, f.name)):
            yield key, value
        elif kind is None and isinstance(value, Mapping):  # an environment may use an argument as an id
            yield from _importable_texts(value, key)
        elif kind in ("one", "many"):
            specs = value if kind == "many" else (value,)
            for spec in (s for s in specs if s is not None and not callable(s)):
                if _PATH.fullmatch(spec_name(spec)):
                    yield key, spec_name(spec)
                yield from _importable_texts(spec_arguments(spec), key)


def require_trusted(
    config: Any, user_input: Collection[str], source: str, remedy: Callable[[list[str]], str]
) -> None:
    """Raise `ConfigError` for code or secrets that only `source`, a run folder, asks for.

    `user_input` holds all that the user has repeated: code anywhere in a text, secrets as `key=text`.
    `remedy` gets the `key=text` settings to repeat and returns the instruction.
    """
    untrusted_code = [
        (key, path, "an address" if "://" in path else "code")
        for key, path in code_paths(config)
        if not _is_repeated(path, user_input)
    ]
    untrusted_items = untrusted_code + [
        (key, text, "a value of the environment")
        for key, text in references(config)
        if not any(t.partition("=")[0] == key and text in t for t in user_input)
    ]
    if untrusted_items:
        settings = [f"{key}={text}" for key, text, _ in untrusted_items]
        more = f" and {len(settings) - 3} more" if len(settings) > 3 else ""
        raise ConfigError(
            f"{source} names {untrusted_items[0][2]}: {', '.join(settings[:3])}{more}\n"
            "  a run folder is data: nothing it names is imported or looked up unless you say so\n"
            f"  {remedy(settings)}"
        )


def _is_server_used(config: Any, field: str) -> bool:
    """Return whether the address in a field such as `server_url` is used: only if `server` is set."""
    return getattr(config, field.removesuffix("_url")) is not None


def _importable_texts(value: Any, key: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str) and _may_import(value):
        yield key, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _importable_texts(inner, f"{key}.{name}")
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _importable_texts(inner, key)


def _may_import(text: str) -> bool:
    """Return whether an environment that uses the text as an id, `module:Id`, would import the module."""
    module, colon, _ = text.partition(":")
    return bool(colon) and all(part.isidentifier() for part in module.split("."))


def _is_repeated(path: str, user_input: Iterable[str]) -> bool:
    """Return whether one of the user's inputs contains the whole path."""
    pattern = re.compile(rf"(?<![\w./-]){re.escape(path)}(?![\w.:/-])")
    return any(pattern.search(text) for text in user_input)


def _check_code(f: Field[Any], value: Any, path: str) -> Any:
    if callable(value):
        return value
    name = value.get("name") if isinstance(value, Mapping) else value
    words = (*(f.metadata.get("choices") or ()), *plugins.plugin_names(f.metadata["plugin"] or ""))
    if isinstance(name, str) and (name in words or _PATH.fullmatch(name) or is_object_name(name)):
        if not isinstance(value, Mapping):
            return value
        return {str(k): plain_argument(v, f"{path}.{k}") for k, v in value.items()}
    expected = " or ".join([*([f"one of {', '.join(words)}"] if words else []), "module:Name"])
    raise ConfigError(
        f"{path}={value}: expected {expected}, or {{name: module:Name, argument: value}}"
        f"{nearest(str(name), words)}"
    )


CONVOLUTIONS = ("nature", "impala", "small")


def encoder_field() -> Any:
    """Declare the field for the encoder of each image."""
    return param(
        "auto",
        "network of each image in the observations. nature: at least 36x36; impala: residual; small: "
        "grids of a few cells; mlp: the flattened pixels; auto: by size",
        choices=("auto", "mlp", *CONVOLUTIONS),
        source="Mnih et al. 2015; Espeholt et al. 2018",
    )


def encoder_features_field() -> Any:
    """Declare the field for the number of features of an image."""
    return param(
        None,
        "features of each image, before net_arch; null: 512 (nature), 256 (impala), 128 (small)",
        within="[1, 65536]",
        source="Mnih et al. 2015; Espeholt et al. 2018",
    )


def image_channels_field() -> Any:
    """Declare the field for the position of the channels dimension."""
    return param(
        "auto",
        "whether an image's channels are its first or last dimension; auto: the smaller one of them",
        choices=("auto", "first", "last"),
    )


def backend_field() -> Any:
    """Return the `backend` field of algorithms that have a native and a torch implementation."""
    return param(
        "auto",
        "library that computes the updates. native: Rust, for MLPs of vector observations on the CPU; "
        "auto: native where it was measured to be faster",
        choices=("auto", "torch", "native"),
    )
