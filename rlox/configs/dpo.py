"""DPO, from given or generated pairs (Rafailov et al. 2023, arXiv:2305.18290)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rlox.configs.buffers import BufferConfig
from rlox.configs.env import EnvConfig
from rlox.configs.params import Code, code, param
from rlox.configs.text import GenerationConfig, TextAlgorithmConfig
from rlox.errors import ConfigError


def loss_type() -> Any:
    """Declare the `loss_type` of a preference loss."""
    return param(
        "sigmoid", "loss of preference pairs", choices=("sigmoid", "ipo", "hinge", "robust"), source="TRL"
    )


def beta() -> Any:
    """Declare the `beta` of an implicit reward."""
    return param(
        0.1, "strength of the penalty for leaving the reference model", within="(0, inf)", source="TRL"
    )


@dataclass(frozen=True)
class DPOConfig(TextAlgorithmConfig):
    """DPO, from pairs of a chosen and a rejected completion (Rafailov et al. 2023, arXiv:2305.18290)."""

    name: str = param("dpo", "the algorithm", choices=("dpo",))
    loss_type: str = loss_type()
    beta: float = beta()
    label_smoothing: float = param(
        0.0, "assumed fraction of swapped pairs; with sigmoid or robust", within="[0, 0.5)"
    )
    reference_free: bool = param(
        False, "train without a reference model, as if it gave both completions the same probability"
    )

    def check(self, env: EnvConfig, buffer: BufferConfig) -> None:
        """Raise `ConfigError` for settings that the loss refuses, before anything is built."""
        super().check(env, buffer)
        if self.label_smoothing and self.loss_type not in ("sigmoid", "robust"):
            raise ConfigError(
                f"algo.label_smoothing={self.label_smoothing:g} applies to algo.loss_type=sigmoid "
                "and robust only; leave it out"
            )


@dataclass(frozen=True)
class OnlineDPOConfig(GenerationConfig):
    """Online DPO, from pairs that the model generates (Guo et al. 2024, arXiv:2402.04792)."""

    name: str = param("online_dpo", "the algorithm", choices=("online_dpo",))
    loss_type: str = loss_type()
    beta: float = beta()
    preference: Code | None = code(
        "a function, module:name, from pairs to the better one of each; null: the one with the higher reward"
    )
