"""Trainers: an algorithm named by its environment, with its options as keywords."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rlox.algorithms import PPO
from rlox.callbacks import Callback, LoggerCallback
from rlox.envs.make import EnvSource

__all__ = ["PPOTrainer"]


class PPOTrainer:
    """PPO by its environment: `PPOTrainer(env="CartPole-v1", seed=42).train(50_000)`.

    `config` and further keywords are the fields of `PPOConfig` and `EnvConfig`; `n_envs` is 8 unless
    given.
    """

    def __init__(
        self,
        env: EnvSource,
        config: Mapping[str, Any] | None = None,
        callbacks: Sequence[Callback] | None = None,
        logger: LoggerCallback | None = None,
        seed: int = 42,
        **kwargs: Any,
    ) -> None:
        options = {**(config or {}), **kwargs}
        self.algo = PPO(env, seed=seed, callbacks=callbacks, logger=logger, **options)

    def train(self, total_timesteps: int) -> dict[str, float]:
        """Train to `total_timesteps` environment steps; the final metrics with `mean_reward`."""
        return self.algo.train(total_timesteps)

    def predict(self, obs: Any, deterministic: bool = True) -> int | NDArray[Any]:
        """The policy's action for an observation or a batch."""
        return self.algo.predict(obs, deterministic)

    def save(self, path: str | Path) -> None:
        """Write a checkpoint folder."""
        self.algo.save(path)

    @classmethod
    def from_checkpoint(cls, path: str | Path, env: EnvSource | None = None) -> PPOTrainer:
        """Restore a trainer from a run folder or checkpoint."""
        trainer = cls.__new__(cls)
        trainer.algo = PPO.from_checkpoint(path, env)
        return trainer
