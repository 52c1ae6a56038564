"""GRPO: groups of completions of a small task."""

from __future__ import annotations

from rlox.algorithms import GRPO

from . import TEXT, AlgorithmSpec

SPEC = AlgorithmSpec(
    facade=GRPO,
    small={
        **TEXT.small,
        "rewards": ("close",),
        "max_new_tokens": 4,
    },
    cases={
        "copy": {"task": "copy"},
        "several steps": {"task": "format", "n_epochs": 2, "minibatches": 2, "loss_type": "gspo"},
        "without a reference": {"task": "copy", "kl_coef": 0.0, "anneal_lr": True},
        "corrected": {"task": "copy", "correction": "token_truncate", "mask_truncated": True},
    },
    total=24,
    **TEXT.rest,
)
