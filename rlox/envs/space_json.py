"""Spaces as JSON in Minari's format (farama.org), and back; reading imports and makes nothing by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from rlox.errors import ShapeError, UnsupportedSpaceError

__all__ = ["space_from_json", "space_to_json"]

MAX_DEPTH = 16  # nesting depth of Dicts and Tuples
MAX_BOX_SIZE = 1 << 24  # numbers in a Box


def space_to_json(space: spaces.Space[Any]) -> str:
    """Convert a space to JSON; `UnsupportedSpaceError` for types that the format does not cover."""
    return json.dumps(_to_plain(space))


def _to_plain(space: spaces.Space[Any]) -> dict[str, Any]:
    if isinstance(space, spaces.Box):
        return {
            "type": "Box", "dtype": str(space.dtype), "shape": list(space.shape),
            "low": space.low.tolist(), "high": space.high.tolist(),
        }  # fmt: skip
    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "dtype": "int64", "start": int(space.start), "n": int(space.n)}
    if isinstance(space, spaces.MultiDiscrete):
        return {
            "type": "MultiDiscrete", "dtype": str(space.dtype), "nvec": space.nvec.tolist(),
            "start": space.start.tolist(),
        }  # fmt: skip
    if isinstance(space, spaces.MultiBinary):
        n = space.n
        return {"type": "MultiBinary", "n": n if isinstance(n, int) else list(n)}
    if isinstance(space, spaces.Dict):
        return {"type": "Dict", "subspaces": {k: _to_plain(s) for k, s in space.spaces.items()}}
    if isinstance(space, spaces.Tuple):
        return {"type": "Tuple", "subspaces": [_to_plain(s) for s in space.spaces]}
    raise UnsupportedSpaceError(
        f"a {type(space).__name__} cannot be written as JSON, expected Box, Discrete, MultiDiscrete, "
        "MultiBinary, or a Dict or Tuple of them"
    )


def space_from_json(text: str) -> spaces.Space[Any]:
    """Parse a space from JSON; `ShapeError` if `text` does not describe one."""
    try:
        return _parse_space(json.loads(text), 0)
    except (
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
        OverflowError,
        AssertionError,
        RecursionError,
    ) as error:
        raise ShapeError(f"not the JSON of a space: {text[:80]}: {error}") from error


def _parse_space(data: Mapping[str, Any], depth: int) -> spaces.Space[Any]:
    kind = data["type"]
    if depth > MAX_DEPTH:
        raise ValueError(f"nested more than {MAX_DEPTH} deep")
    if kind == "Box":
        return _parse_box(data)
    if kind == "Discrete":
        return spaces.Discrete(data["n"], start=data.get("start", 0))
    if kind == "MultiDiscrete":
        nvec = np.array(data["nvec"], np.int64)
        return spaces.MultiDiscrete(nvec, start=np.array(data.get("start", np.zeros_like(nvec))))
    if kind == "MultiBinary":
        return spaces.MultiBinary(data["n"])
    if kind == "Dict":
        return spaces.Dict({k: _parse_space(s, depth + 1) for k, s in data["subspaces"].items()})
    if kind == "Tuple":
        return spaces.Tuple([_parse_space(s, depth + 1) for s in data["subspaces"]])
    raise ValueError(f"unknown type {kind}")


def _parse_box(data: Mapping[str, Any]) -> spaces.Box:
    dtype, shape = np.dtype(data["dtype"]), tuple(data["shape"])
    if dtype.kind not in "biuf" or dtype.hasobject:
        raise ValueError(f"its dtype is {dtype}, expected numbers")
    if np.prod(shape, dtype=np.float64) > MAX_BOX_SIZE:
        raise ValueError(f"a Box of {shape} has more than {MAX_BOX_SIZE:,} numbers")
    low, high = (np.asarray(data[end], dtype) for end in ("low", "high"))
    if low.shape != shape or high.shape != shape:
        raise ValueError(f"its bounds have shapes {low.shape} and {high.shape}, expected {shape}")
    return spaces.Box(low, high, dtype=dtype.type)
