"""Processes that learn together: the same program in each, of which every one has a share of each batch."""

from __future__ import annotations

from rlox.distributed.group import SINGLE_PROCESS, ProcessGroup, join, process_count

__all__ = ["SINGLE_PROCESS", "ProcessGroup", "join", "process_count"]
