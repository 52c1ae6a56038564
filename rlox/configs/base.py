"""What the configuration of every algorithm says besides its own fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from rlox.configs.env import EnvConfig


@dataclass(frozen=True)
class AlgorithmConfig:
    """A family overrides what is different; the rest of the house reads nothing else of an algorithm."""

    # What total_steps, eval.every, checkpoint.every and log.every count.
    unit: ClassVar[Literal["env_steps", "updates", "samples"]] = "env_steps"
    # What one batch is called where totals are rounded up to whole ones.
    batches: ClassVar[str] = "batches"

    def quantum(self, n_envs: int) -> int:
        """How far one batch takes the run, in its unit: totals are rounded up to whole ones."""
        return 1

    def check(self, env: EnvConfig) -> None:
        """Raise `ConfigError` for fields that contradict each other or the environment's."""
