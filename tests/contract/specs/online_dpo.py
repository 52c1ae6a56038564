"""OnlineDPO: pairs that the model generates."""

from __future__ import annotations

from rlox.algorithms import OnlineDPO

from . import TEXT, AlgorithmSpec

SPEC = AlgorithmSpec(
    facade=OnlineDPO,
    small={
        **TEXT.small,
        "rewards": ("close",),
        "max_new_tokens": 4,
    },
    cases={"copy": {"task": "copy"}, "ipo": {"task": "format", "loss_type": "ipo"}},
    total=24,
    **TEXT.rest,
)
