"""YAML as plain data: no code, no endless expansion by aliases, no resolved interpolations."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]  # PyYAML, through omegaconf

from rlox.disk import read_file
from rlox.errors import ConfigError

MAX_BYTES = 1 << 20
# YAML 1.1 reads 2e6 and 1e-3 as text; other readers, such as Hydra's, read them as numbers.
EXPONENT = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)[eE][-+]?\d+$")


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):  # ten lines of aliases can expand to gigabytes
            mark = self.peek_event().start_mark
            raise yaml.composer.ComposerError(None, None, "an alias (*name)", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys: set[str] = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in keys:  # else the last one would silently win
                problem = f"the key {key.value!r} appears twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            keys.add(key.value)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:
        return True


for _yaml_class in (_Loader, _Dumper):
    _yaml_class.add_implicit_resolver("tag:yaml.org,2002:float", EXPONENT, list("-+.0123456789"))


def load(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file; raise `ConfigError` for data other than plain values."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path} is larger than any configuration")
        data = yaml.load(read_file(path).decode("utf-8"), _Loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
        location = f", line {mark.line + 1}" if mark else ""
        raise ConfigError(f"{path}{location}: not plain YAML: {problem or type(error).__name__}") from error
    if not isinstance(data, dict):
        raise ConfigError(f"{path}: expected keys and values, found {type(data).__name__}")
    _require_plain(data, str(path))
    return data


def dump(data: Any) -> str:
    """Return the text that `load` reads back as the same data."""
    return str(yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True))


def _require_plain(value: Any, location: str) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise ConfigError(f"{location}: the key {key!r} is not text")
            _require_plain(inner, f"{location}: {key}")
    elif isinstance(value, list):
        for inner in value:
            _require_plain(inner, location)
    elif not (value is None or isinstance(value, (str, bool, int, float))):
        raise ConfigError(f"{location}: expected text or a number, found {type(value).__name__}")
