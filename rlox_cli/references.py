"""Composed values that come from the environment of the process, where the key is not ours to write down."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.resolvers import oc

from rlox.configs.secrets import FromProcess, meant
from rlox_cli.schema import Schema


def with_references(data: dict[str, Any], config: DictConfig, schema: Schema) -> dict[str, Any]:
    """The resolved `data` with a `FromProcess` for each value below an open key that `oc.env` gave.

    Which those are shows by resolving a second time, with another environment.
    """
    raw: Any = OmegaConf.to_container(config, resolve=False)
    if "oc.env" not in str(raw):
        return data
    keys = [key.name for key in schema.keys(schema.parts_of(data)) if key.open]
    with _another_environment():
        other: Any = OmegaConf.to_container(config, resolve=True)
    for name in keys:
        *path, last = name.split(".")
        nodes = [_inner(tree, path) for tree in (raw, data, other)]
        if all(isinstance(node, dict) and last in node for node in nodes):
            nodes[1][last] = _compared(*(node[last] for node in nodes))
    return data


def _compared(raw: Any, real: Any, other: Any) -> Any:
    """The real value, or where it depends on the environment one that knows what asked for it."""
    if isinstance(raw, str):
        if real == other:
            return real
        return FromProcess(raw, meant(real) if isinstance(real, str) else real)
    if isinstance(raw, dict):
        return {key: _compared(raw[key], real[key], other[key]) for key in real}
    if isinstance(raw, list):
        return [_compared(*values) for values in zip(raw, real, other, strict=True)]
    return real


def _inner(tree: Any, path: list[str]) -> Any:
    for part in path:
        tree = tree.get(part) if isinstance(tree, dict) else None
    return tree


@contextmanager
def _another_environment() -> Iterator[None]:
    """In which every variable has a value that no variable has."""
    nonsense = secrets.token_hex(16)
    OmegaConf.register_new_resolver("oc.env", lambda *asked: nonsense, replace=True)
    try:
        yield
    finally:
        OmegaConf.register_new_resolver("oc.env", oc.env, replace=True)
