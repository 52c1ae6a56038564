"""SFT: correct answers of a small task."""

from __future__ import annotations

from rlox.algorithms import SFT

from . import TEXT, AlgorithmSpec

SPEC = AlgorithmSpec(
    facade=SFT,
    small={
        **TEXT.small,
    },
    cases={"copy": {"task": "copy"}, "format": {"task": "format", "anneal_lr": True}},
    total=24,
    **TEXT.rest,
)
