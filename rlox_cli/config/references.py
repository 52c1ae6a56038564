"""Keeps references to environment variables, in place of values, below keys that rlox does not define."""

from __future__ import annotations

import re
from typing import Any

from omegaconf import DictConfig, OmegaConf

from rlox.configs.secrets import EnvVarRef, parse_scalar
from rlox_cli.config.schema import Schema

_REFERENCE = re.compile(r"\$\{([^{}:]+)\}")  # a reference to another value of the configuration


def with_references(data: dict[str, Any], config: DictConfig, schema: Schema) -> dict[str, Any]:
    """Return the resolved `data`, with an `EnvVarRef` for each value below an open key that `oc.env` gave."""
    raw: Any = OmegaConf.to_container(config, resolve=False)
    if "oc.env" not in str(raw):
        return data
    for name in [key.name for key in schema.keys(schema.options_of(data)) if key.is_open]:
        *path, last = name.split(".")
        raw_values, resolved_values = _get_path(raw, path), _get_path(data, path)
        if isinstance(raw_values, dict) and isinstance(resolved_values, dict) and last in raw_values:
            resolved_values[last] = _mark_references(raw_values[last], resolved_values[last], raw)
    return data


def _mark_references(raw: Any, resolved: Any, tree: Any) -> Any:
    """Return the resolved value, or an `EnvVarRef` with the raw text if it needs an environment variable."""
    if isinstance(raw, str):
        if not _depends_on_environment(raw, tree, ()):
            return resolved
        return EnvVarRef(raw, parse_scalar(resolved) if isinstance(resolved, str) else resolved)
    if isinstance(raw, dict):
        return {key: _mark_references(raw[key], resolved[key], tree) for key in resolved}
    if isinstance(raw, list):
        return [_mark_references(inner, value, tree) for inner, value in zip(raw, resolved, strict=True)]
    return resolved


def _depends_on_environment(raw: Any, tree: Any, visited: tuple[str, ...]) -> bool:
    """Return whether a value, or one that it refers to, uses `oc.env`; true if unknown."""
    if isinstance(raw, (dict, list)):
        return any(
            _depends_on_environment(v, tree, visited)
            for v in (raw.values() if isinstance(raw, dict) else raw)
        )
    if not isinstance(raw, str) or "${" not in raw:
        return False
    names = [name.strip() for name in _REFERENCE.findall(raw)]
    # a relative name, or one inside another expression, may refer to anything
    if "oc.env" in raw or any(name.startswith(".") for name in names) or "${" in _REFERENCE.sub("", raw):
        return True
    unvisited = [name for name in names if name not in visited]
    return any(
        _depends_on_environment(_get_path(tree, name.split(".")), tree, (*visited, name))
        for name in unvisited
    )


def _get_path(tree: Any, path: list[str]) -> Any:
    for part in path:
        tree = tree.get(part) if isinstance(tree, dict) else None
    return tree
