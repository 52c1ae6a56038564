"""The keyword arguments of algorithm classes: each sets one field of the run's configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, fields
from functools import cache
from typing import Any

from rlox.configs.base import AlgorithmConfig
from rlox.configs.buffers import BUFFER_CONFIGS
from rlox.configs.env import EnvConfig
from rlox.configs.params import default_of, expected_text
from rlox.configs.run import RunConfig
from rlox.errors import ConfigError

__all__ = ["DEFAULT_SEED", "Argument", "arguments_of"]

DEFAULT_SEED = 42  # of a run that Python code makes; on the command line it is 0
# Fields of `RunConfig` itself that are arguments; `total_steps`, for instance, is one of `train`.
_RUN_FIELDS = ("seed", "device", "init_from")
_UNSET: Any = object()


@dataclass(frozen=True)
class Argument:
    """An argument and the field that it sets."""

    name: str
    part: str  # algo, env or buffer; empty for the run itself
    field: Field[Any]
    is_used: bool = True  # False: the algorithm accepts only the default
    note: str = ""  # added to the documentation
    own_default: Any = _UNSET  # the algorithm's, in place of the field's

    @property
    def key(self) -> str:
        """The key of the field on the command line, such as `buffer.capacity`."""
        return f"{self.part}.{self.field.name}".removeprefix(".")

    @property
    def is_hidden(self) -> bool:
        """Whether this is `hidden` of the original rlox: the width of two layers, in place of `net_arch`."""
        return self.name == "hidden" and self.field.name == "net_arch"

    @property
    def default(self) -> Any:
        """The value if the argument is not given."""
        if self.is_hidden:
            return default_of(self.field)[0]
        if self.key == "env.n_envs":
            return None
        return default_of(self.field) if self.own_default is _UNSET else self.own_default

    @property
    def type(self) -> str:
        """The type of the value."""
        accepted = self.field.metadata.get("accepts")
        field_type = "int | tuple[int, ...]" if self.is_hidden else str(self.field.type)
        if self.default is None and "None" not in field_type:
            field_type += " | None"
        return f"{accepted} | {field_type}" if accepted else field_type

    @property
    def doc(self) -> str:
        """The meaning of the value, and what it may be beyond its type."""
        if self.is_hidden:
            return "width of two hidden layers, in place of net_arch"
        texts = [self.field.metadata.get("doc", ""), expected_text(self.field), self.note]
        return re.sub(r"\bnull\b", "None", "; ".join(text for text in texts if text))


def arguments_of(config_class: type[AlgorithmConfig]) -> Mapping[str, Argument]:
    """Return the arguments of an algorithm by name: of the algorithm, its buffers, environment and run.

    A field's declaration may give its argument another name (`param(argument=...)`). Raises `ConfigError` if
    two fields have the same argument; buffers may share keys.
    """
    hashable: Any = config_class  # mypy takes the class for its instances, which cannot be hashed
    return _arguments_of(hashable)


@cache
def _arguments_of(config_class: Any) -> Mapping[str, Argument]:
    arguments: dict[str, Argument] = {}
    for argument in _all_arguments(config_class):
        other = arguments.setdefault(argument.name, argument)
        is_same_buffer_key = other.part == argument.part == "buffer" and other.key == argument.key
        if other is not argument and not is_same_buffer_key:
            algo = config_class.__dataclass_fields__["name"].default
            raise ConfigError(
                f"algo={algo}: its class cannot have an argument {argument.name}, which would set "
                f"{other.key} and {argument.key}; declare {other.key} with another name, or with "
                "param(argument=...)"
            )
    return arguments


def _all_arguments(config_class: type[AlgorithmConfig]) -> Iterator[Argument]:
    n_envs = config_class.default_overrides.get("env.n_envs", EnvConfig.n_envs)
    unused = config_class.unused_env_fields
    notes = {"env.n_envs": f"None: {n_envs}, or as many as a vectorised environment has"}
    for f in fields(config_class):
        if f.name != "name":
            yield Argument(_argument_name(f), "algo", f, f.name not in config_class.drops)
    if "net_arch" in config_class.__dataclass_fields__ and "hidden" not in config_class.__dataclass_fields__:
        yield Argument("hidden", "algo", config_class.__dataclass_fields__["net_arch"])
    parts = [("buffer", BUFFER_CONFIGS[name]) for name in config_class.buffers] + [("env", EnvConfig)]
    for part, part_class in parts:
        for f in fields(part_class):
            if (part, f.name) != ("env", "id"):  # the environment itself is an argument of the class
                is_used = part != "env" or (unused is not None and f.name not in unused)
                key = f"{part}.{f.name}"
                own_default = config_class.default_overrides.get(key, _UNSET)
                argument = part if f.name == "name" else _argument_name(f)
                yield Argument(argument, part, f, is_used, notes.get(key, ""), own_default)
    for name in _RUN_FIELDS:
        own_default = DEFAULT_SEED if name == "seed" else _UNSET
        yield Argument(name, "", RunConfig.__dataclass_fields__[name], own_default=own_default)


def _argument_name(f: Field[Any]) -> str:
    return f.metadata.get("argument") or f.name
