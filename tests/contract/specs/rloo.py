"""RLOO: groups of completions of a small task."""

from __future__ import annotations

from rlox.algorithms import RLOO

from . import TEXT, AlgorithmSpec

SPEC = AlgorithmSpec(
    facade=RLOO,
    small={
        **TEXT.small,
        "rewards": ("close",),
        "max_new_tokens": 4,
    },
    cases={
        "copy": {"task": "copy"},
        "several steps": {"task": "format", "n_epochs": 2, "normalize_advantages": True},
    },
    total=24,
    **TEXT.rest,
)
