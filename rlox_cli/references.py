"""Composed values that come from the environment of the process, where the key is not ours to write down."""

from __future__ import annotations

import re
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rlox.configs.secrets import FromProcess, meant
from rlox_cli.schema import Schema

_NODE = re.compile(r"\$\{([^{}:]+)\}")  # a reference to another value of the configuration


def with_references(data: dict[str, Any], config: DictConfig, schema: Schema) -> dict[str, Any]:
    """The resolved `data` with a `FromProcess` for each value below an open key that `oc.env` gave."""
    raw: Any = OmegaConf.to_container(config, resolve=False)
    if "oc.env" not in str(raw):
        return data
    for name in [key.name for key in schema.keys(schema.parts_of(data)) if key.open]:
        *path, last = name.split(".")
        before, after = _inner(raw, path), _inner(data, path)
        if isinstance(before, dict) and isinstance(after, dict) and last in before:
            after[last] = _marked(before[last], after[last], raw)
    return data


def _marked(raw: Any, real: Any, tree: Any) -> Any:
    """The real value, or where it depends on the environment one that knows what asked for it."""
    if isinstance(raw, str):
        if not _asks(raw, tree, ()):
            return real
        return FromProcess(raw, meant(real) if isinstance(real, str) else real)
    if isinstance(raw, dict):
        return {key: _marked(raw[key], real[key], tree) for key in real}
    if isinstance(raw, list):
        return [_marked(inner, value, tree) for inner, value in zip(raw, real, strict=True)]
    return real


def _asks(raw: Any, tree: Any, seen: tuple[str, ...]) -> bool:
    """Whether `oc.env` is asked for by a text, or by what it refers to."""
    if isinstance(raw, (dict, list)):
        return any(_asks(v, tree, seen) for v in (raw.values() if isinstance(raw, dict) else raw))
    if not isinstance(raw, str) or "${" not in raw:
        return False
    names = [name.strip() for name in _NODE.findall(raw)]
    # a relative name, or one inside another expression, may lead anywhere
    if "oc.env" in raw or any(name.startswith(".") for name in names) or "${" in _NODE.sub("", raw):
        return True
    left = [name for name in names if name not in seen]
    return any(_asks(_inner(tree, name.split(".")), tree, (*seen, name)) for name in left)


def _inner(tree: Any, path: list[str]) -> Any:
    for part in path:
        tree = tree.get(part) if isinstance(tree, dict) else None
    return tree
