"""Trainers: an algorithm named by its environment, with its options as keywords."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rlox.algorithms import PPO
from rlox.callbacks import Callback, LoggerCallback
from rlox.envs.make import EnvSource
from rlox.errors import ConfigError

__all__ = ["PPOTrainer"]


class PPOTrainer:
    """PPO by its environment: `PPOTrainer(env="CartPole-v1", seed=42).train(50_000)`.

    `config` and further keywords are the fields of `PPOConfig` and `EnvConfig`; `n_envs` is 8 unless
    given.
    """

    def __init__(
        self,
        env: EnvSource | None = None,
        config: Mapping[str, Any] | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        logger: LoggerCallback | None = None,
        seed: int = 42,
        **kwargs: Any,
    ) -> None:
        options = {**(config or {}), **kwargs}
        given = [source for source in (env, options.pop("env_id", None)) if source is not None]
        if len(given) != 1:
            raise ConfigError(
                "PPOTrainer takes one environment, e.g. PPOTrainer(env='CartPole-v1')"
            )
        self.algo = PPO(given[0], seed=seed, callbacks=callbacks, logger=logger, **options)

    def train(self, total_timesteps: int, progress: bool = False) -> dict[str, float]:
        """Train to `total_timesteps` environment steps; the final metrics with `mean_reward`."""
        return self.algo.train(total_timesteps, progress)

    def learn(self, total_timesteps: int, progress: bool = False) -> dict[str, float]:
        """`train`, by the name that Stable-Baselines3 has for it."""
        return self.train(total_timesteps, progress)

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

    def __repr__(self) -> str:
        return f"PPOTrainer({self.algo!r})"
