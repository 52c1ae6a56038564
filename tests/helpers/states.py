"""Compares states of runs."""

from __future__ import annotations

from typing import Any

from helpers.callables.comparing import assert_same
from rlox.state_tree import pack


def pack_state(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state as it is saved: its arrays by name, and the rest."""
    arrays: dict[str, Any] = {}
    return {"rest": pack(state, arrays), "arrays": arrays}


def assert_same_state(left: dict[str, Any], right: dict[str, Any]) -> None:
    """Compare every bit of two states, each packed by `pack_state`."""
    assert left["rest"] == right["rest"]
    assert_same(left["arrays"], right["arrays"])
