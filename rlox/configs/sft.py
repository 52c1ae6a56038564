"""Supervised fine-tuning: the likelihood of right answers."""

from __future__ import annotations

from dataclasses import dataclass

from rlox.configs.params import param
from rlox.configs.text import TextAlgorithmConfig


@dataclass(frozen=True)
class SFTConfig(TextAlgorithmConfig):
    """Tokens of completions alone are learned, none of a prompt."""

    name: str = param("sft", "the algorithm", choices=("sft",))
    assistant_only_loss: bool = param(
        False, "of conversations only what the assistant says is learned", source="TRL"
    )
