"""Trainers: an algorithm created from its environment, with options as keyword arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from numpy.typing import NDArray

from rlox.algorithms import A2C, DDPG, DQN, PPO, SAC, TD3, RecurrentPPO
from rlox.callbacks import Callback, LoggerCallback
from rlox.envs.make import EnvLike
from rlox.errors import ConfigError
from rlox.runs.constructor import SB3Aliases

__all__ = [
    "A2CTrainer",
    "DDPGTrainer",
    "DQNTrainer",
    "PPOTrainer",
    "RecurrentPPOTrainer",
    "SACTrainer",
    "TD3Trainer",
]


class Trainer(SB3Aliases):
    """Creates and trains an algorithm: `PPOTrainer(env="CartPole-v1", seed=42).train(50_000)`.

    `config` and further keywords are arguments of the algorithm's class: the fields of its
    configuration, of its buffer's configuration and of `EnvConfig`.
    """

    facade: ClassVar[Any]
    example: ClassVar[str] = "CartPole-v1"
    _hint_suffix: ClassVar[str] = " (of .algo)"

    def __init__(
        self,
        env: EnvLike | None = None,
        config: Mapping[str, Any] | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        logger: LoggerCallback | None = None,
        seed: int = 42,
        **kwargs: Any,
    ) -> None:
        name = type(self).__name__
        options = {**_check_config(config, name), **kwargs}
        sources = [env, *(options.pop(key, None) for key in ("env", "env_id"))]
        sources = [source for source in sources if source is not None]
        if len(sources) != 1:
            raise ConfigError(f"{name} takes one environment, e.g. {name}(env='{self.example}')")
        self.algo = self.facade(sources[0], seed=seed, callbacks=callbacks, logger=logger, **options)

    def train(self, total_timesteps: int, progress: bool = False) -> dict[str, float]:
        """Train up to `total_timesteps` environment steps; return the final metrics with `mean_reward`."""
        metrics: dict[str, float] = self.algo.train(total_timesteps, progress)
        return metrics

    def predict(self, obs: Any, deterministic: bool = True, action_masks: Any = None) -> Any:
        """Return the policy's action for an observation or a batch, like the algorithm's `predict`."""
        action: Any = self.algo.predict(obs, deterministic, action_masks)
        return action

    def save(self, path: str | Path) -> None:
        """Write a checkpoint folder."""
        self.algo.save(path)

    @classmethod
    def from_checkpoint(cls, path: str | Path, env: EnvLike | None = None) -> Self:
        """Restore a trainer from a run folder or checkpoint."""
        trainer = cls.__new__(cls)
        trainer.algo = cls.facade.from_checkpoint(path, env)
        return trainer

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.algo!r})"


def _check_config(config: Any, name: str) -> Mapping[str, Any]:
    """Return a trainer's `config`; raise `ConfigError` unless it is a mapping of keys that it may contain."""
    if config is None:
        return {}
    if not isinstance(config, Mapping):
        raise ConfigError(
            f"{name}: config={config!r}: a {type(config).__name__}, expected a mapping of arguments to "
            "values, e.g. config={'learning_rate': 1e-3}"
        )
    for key in config:
        if not isinstance(key, str):
            raise ConfigError(f"{name}: config has the key {key!r}, expected the name of an argument")
        if key in ("callbacks", "logger", "seed"):
            raise ConfigError(
                f"{name}: {key} is an argument of its own; take it out of config, {name}(..., {key}=...)"
            )
    return config


class PPOTrainer(Trainer):
    """Trains PPO; `n_envs` is 8 by default."""

    facade = PPO


class RecurrentPPOTrainer(Trainer):
    """Trains recurrent PPO; `n_envs` is 8 by default."""

    facade = RecurrentPPO

    def predict(  # type: ignore[override]  # takes and returns the recurrent state
        self,
        obs: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[Any, NDArray[Any]]:
        """Return the action and the next recurrent state, like the algorithm's `predict`."""
        result: tuple[Any, NDArray[Any]] = self.algo.predict(obs, state, episode_start, deterministic)
        return result


class A2CTrainer(Trainer):
    """Trains A2C; `n_envs` is 8 by default."""

    facade = A2C


class DQNTrainer(Trainer):
    """Trains DQN; `n_envs` is 1 by default."""

    facade = DQN


class SACTrainer(Trainer):
    """Trains SAC; `n_envs` is 1 by default."""

    facade, example = SAC, "Pendulum-v1"


class TD3Trainer(Trainer):
    """Trains TD3; `n_envs` is 1 by default."""

    facade, example = TD3, "Pendulum-v1"


class DDPGTrainer(Trainer):
    """Trains DDPG; `n_envs` is 1 by default."""

    facade, example = DDPG, "Pendulum-v1"
