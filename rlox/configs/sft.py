"""SFT, supervised fine-tuning: maximises the likelihood of the correct completions."""

from __future__ import annotations

from dataclasses import dataclass

from rlox.configs.params import param
from rlox.configs.text import TextAlgorithmConfig


@dataclass(frozen=True)
class SFTConfig(TextAlgorithmConfig):
    """Only tokens of completions are learned, none of the prompt."""

    name: str = param("sft", "the algorithm", choices=("sft",))
    assistant_only_loss: bool = param(
        False, "of conversations only what the assistant says is learned", source="TRL"
    )
