"""RLOO (Ahmadian et al. 2024, arXiv:2402.14740)."""

from __future__ import annotations

from dataclasses import dataclass

from rlox.configs.params import param
from rlox.configs.text import GroupConfig


@dataclass(frozen=True)
class RLOOConfig(GroupConfig):
    """Compares each completion with the mean of the others of its prompt; a completion is one action."""

    name: str = param("rloo", "the algorithm", choices=("rloo",))
    kl_coef: float = param(
        0.05,
        "KL penalty: reward that a completion loses per nat of log-ratio to the reference model; 0: no "
        "reference model",
        within="[0, inf)",
        source="TRL",
    )
    normalize_advantages: bool = param(
        False, "advantages of a batch have mean 0 and standard deviation 1", source="TRL"
    )
