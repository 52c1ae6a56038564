"""Processes that learn together: the same program in each, of which every one has a share of each batch."""

from __future__ import annotations

from rlox.distributed.group import ALONE, Group, join, processes

__all__ = ["ALONE", "Group", "join", "processes"]
