"""Data-parallel training: each process runs the same program and learns from its share of each batch."""

from __future__ import annotations

from rlox.distributed.group import SINGLE_PROCESS, ProcessGroup, join, process_count

__all__ = ["SINGLE_PROCESS", "ProcessGroup", "join", "process_count"]
