"""Rows of text in every form that TRL's trainers take, and the folder with TRL's tokens for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent / "golden" / "trl_tokens"  # a tokenizer's folder, with tokens.json

SYSTEM = [{"role": "system", "content": "be good"}]
SKY = [{"role": "user", "content": "what colour is the sky?"}]
BLUE, GREEN = ([{"role": "assistant", "content": f"it is {said}"}] for said in ("blue", "green today"))

ROWS: dict[str, list[dict[str, Any]]] = {
    "text": [{"text": "the sky is blue"}, {"text": "hello there, good day 12"}],
    "messages": [{"messages": SKY + BLUE}, {"messages": SYSTEM + SKY + GREEN}],
    "completion": [
        {"prompt": "the sky is", "completion": " blue today"},
        {"prompt": "the sea i", "completion": "s green"},  # tokens that merge across the boundary
        {"prompt": "12+3", "completion": "45"},
    ],
    "conversation": [
        {"prompt": SKY, "completion": BLUE},
        {"prompt": SYSTEM + SKY, "completion": GREEN},
    ],
    "pair": [
        {"prompt": "the sky is", "chosen": " blue", "rejected": " green"},
        {"prompt": "the sea i", "chosen": "s green", "rejected": "t blue"},
    ],
    "pair of answers": [
        {"prompt": SKY, "chosen": BLUE, "rejected": GREEN},
        {"prompt": SYSTEM + SKY, "chosen": GREEN, "rejected": BLUE},
    ],
    "pair without a prompt": [
        {"chosen": "the sky is blue", "rejected": "the sky is green"},
        {"chosen": "the sea: a", "rejected": "the sea: b"},
    ],
    "pair of conversations": [{"chosen": SKY + BLUE, "rejected": SKY + GREEN}],
}
