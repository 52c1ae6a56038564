"""Models preference pairs by slices of NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from helpers.callables.engine import Arguments, Case, Draw, integers, require
from rlox import _core

METHODS = (
    "prompt_len", "chosen_len", "rejected_len", "chosen_ids", "rejected_ids", "chosen_mask",
    "rejected_mask",
)  # fmt: skip
PROPERTIES = ("prompt_tokens", "chosen_tokens", "rejected_tokens")


def facts(**tokens: Any) -> dict[str, Any]:
    pair = _core.DPOPair(**tokens)
    same = _core.DPOPair(pair.prompt_tokens, pair.chosen_tokens, pair.rejected_tokens)
    swapped = _core.DPOPair(pair.prompt_tokens, pair.rejected_tokens, pair.chosen_tokens)
    return {
        **{name: getattr(pair, name)() for name in METHODS},
        **{name: getattr(pair, name) for name in PROPERTIES},
        "equal": (pair == same, pair == swapped, pair != same, pair == 3),
        "same_hash": hash(pair) == hash(same),
    }


def model(
    prompt_tokens: Any = None, chosen_tokens: Any = None, rejected_tokens: Any = None
) -> dict[str, Any]:
    parts = [integers(part, None) for part in (prompt_tokens, chosen_tokens, rejected_tokens)]
    require(all(((part >= 0) & (part < 2**32)).all() for part in parts))
    prompt, chosen, rejected = (part.astype(np.uint32) for part in parts)
    require(len(chosen) and len(rejected))
    same = np.array_equal(chosen, rejected)
    result: dict[str, Any] = {"prompt_len": len(prompt), "prompt_tokens": prompt}
    for name, part in (("chosen", chosen), ("rejected", rejected)):
        result[f"{name}_len"] = len(part)
        result[f"{name}_tokens"] = part
        result[f"{name}_ids"] = np.concatenate([prompt, part])
        result[f"{name}_mask"] = np.arange(len(prompt) + len(part)) >= len(prompt)
    return result | {"equal": (True, same, False, False), "same_hash": True}


def draw_pair(draw: Draw) -> Arguments:
    highest = draw.one_of(2, 2**15, 2**32)
    kind = draw.one_of(np.int64, np.uint64) if highest == 2**32 else np.int32
    sizes = draw.integer(0, 6), draw.integer(1, 6), draw.integer(1, 6)
    prompt, chosen, rejected = (
        draw.layout(draw.rng.integers(0, highest, size).astype(kind), keep_dtype=True) for size in sizes
    )
    return {"prompt_tokens": prompt, "chosen_tokens": chosen, "rejected_tokens": rejected}


CASES = {
    "DPOPair": Case(
        facts,
        draw_pair,
        model,
        covers=frozenset(f"DPOPair.{name}" for name in METHODS + PROPERTIES),
    ),
}
