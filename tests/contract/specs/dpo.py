"""DPO: pairs of a small task."""

from __future__ import annotations

from rlox.algorithms import DPO

from . import TEXT, AlgorithmSpec

SPEC = AlgorithmSpec(
    facade=DPO,
    small={
        **TEXT.small,
    },
    cases={
        "copy": {"task": "copy"},
        "without a reference": {"task": "format", "reference_free": True, "anneal_lr": True},
    },
    total=24,
    **TEXT.rest,
)
