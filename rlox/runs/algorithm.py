"""The façade every algorithm shares: build from a config, train, predict, evaluate, save, load."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rlox.callbacks import Callback, LoggerCallback
from rlox.collectors import OnPolicySource, RolloutCollector
from rlox.collectors.arena import Arena
from rlox.collectors.episodes import RecentEpisodes
from rlox.configs import RunConfig, make_run, plain
from rlox.envs.make import EnvSource, single_factory
from rlox.errors import CheckpointError, ConfigError, ShapeError
from rlox.policies import ActorCritic, as_actor_critic
from rlox.policies.base import acting
from rlox.rng import Streams
from rlox.runs.checkpoint import (
    Checkpoint,
    read_checkpoint,
    resolve_checkpoint,
    write_checkpoint,
)
from rlox.runs.preflight import require_memory
from rlox.training.evaluate import Evaluation, Evaluator
from rlox.training.loop import Hook, Learner, Timings, fit
from rlox.training.setup import first_line, torch_device, torch_threads
from rlox.types import Clock, Progress, Rollout, Update

__all__ = ["Algorithm"]


class Algorithm(ABC):
    """A source, a learner and the loop, behind `train`, `predict`, `evaluate`, `save`."""

    def __init__(
        self,
        config: RunConfig,
        env: EnvSource | None = None,
        policy: nn.Module | None = None,
        logger: LoggerCallback | None = None,
        callbacks: Sequence[Callback] | None = None,
    ) -> None:
        self.env_id = config.env.id
        self.streams = Streams(config.seed)
        self.device = torch_device(config.device)
        source = None if env is None or isinstance(env, str) else env
        self._make_env = single_factory(config.env, source)
        self._env_source = source
        algo = config.algo
        self.collector = RolloutCollector(
            config.env.id if source is None else source,
            config.env.n_envs,
            config.seed,
            self.device,
            algo.gamma,
            algo.gae_lambda,
            config=config.env,
        )
        self._require_memory(algo.n_steps)
        self.config = replace(config, total_steps=config.rounded_steps)
        self.policy = self._policy(policy).to(self.device)
        self.learner = self._make_learner(self.config, self.policy)
        self.source = OnPolicySource(self.collector, self.policy, algo.n_steps)
        self.clock = Clock(unit=config.algo.unit, horizon=self.config.total_steps)
        self.recent = RecentEpisodes()
        self.timings = Timings()
        self.stop_reason: str | None = None
        self._logger = logger
        self._callbacks = tuple(callbacks or ())

    @classmethod
    def from_config(cls, config: RunConfig) -> Self:
        """The algorithm that a run configuration describes."""
        algorithm = cls.__new__(cls)
        Algorithm.__init__(algorithm, config)
        return algorithm

    @classmethod
    def from_checkpoint(
        cls,
        path: str | Path,
        env_id: EnvSource | None = None,
        policy: nn.Module | None = None,
        logger: LoggerCallback | None = None,
        callbacks: Sequence[Callback] | None = None,
    ) -> Self:
        """Restore from a run folder or a checkpoint folder.

        The environment, configuration, counters, normalisers, weights, optimizer and random streams
        come from the checkpoint. `env_id` replaces the environment (needed when it was an object);
        `policy` is needed when the run had a module of its own, whose weights are then loaded.
        `logger` and `callbacks` are those of further training: none are saved.
        """
        saved = read_checkpoint(resolve_checkpoint(Path(path)))
        config = make_run(saved.config)
        if env_id is None and config.env.id.startswith("<"):
            raise ConfigError(
                f"{path} was trained on an environment object, {config.env.id}; pass it: "
                "from_checkpoint(path, env_id=...)"
            )
        if isinstance(env_id, str):
            config = replace(config, env=replace(config.env, id=env_id))
        algorithm = cls.__new__(cls)
        Algorithm.__init__(algorithm, config, env_id, policy, logger, callbacks)
        algorithm.restore(saved)
        return algorithm

    @abstractmethod
    def _make_policy(self, config: RunConfig, collector: RolloutCollector) -> ActorCritic:
        """The default policy for this environment."""

    @abstractmethod
    def _make_learner(self, config: RunConfig, policy: ActorCritic) -> Learner[Rollout]:
        """The learner over `policy`."""

    def train(self, total_timesteps: int) -> dict[str, float | int]:
        """Train until the run has taken `total_timesteps` steps in all.

        Steps count all environments together and are rounded up to whole rollouts. Returns the last
        metrics with `mean_reward` (mean return of the last 100 finished episodes), `env_steps` and
        `updates`. Going on with a larger total stretches the schedules.
        """
        self.fit(total_timesteps)
        return self.summary()

    def fit(self, total_steps: int | None = None, hooks: Iterable[Hook] = ()) -> Clock:
        """Run the loop to `total_steps` (the config's, unless given) or until something stops it."""
        if total_steps is not None:
            self.aim(total_steps)
        if not self.clock.left:
            raise ConfigError(
                f"the run is at {self.clock.now} steps already; "
                f"total_steps={self.config.total_steps} must be larger"
            )
        self.stop_reason = None
        for callback in self._callbacks:
            callback.on_training_start(algo=self, total_timesteps=self.config.total_steps)
        try:
            with torch_threads(self.config.torch_threads):
                fit(
                    self.source,
                    self.learner,
                    self.clock,
                    done=self._done,
                    hooks=(self._observe, *hooks),
                    timings=self.timings,
                )
        finally:
            for callback in self._callbacks:
                callback.on_training_end(algo=self, step=self.clock.now)
        self.stop_reason = self.stop_reason or "total_steps"
        return self.clock

    def aim(self, total_steps: int) -> None:
        """Set where the run ends, rounded up to whole batches; schedules stretch to it."""
        asked = replace(self.config, total_steps=total_steps)
        self.config = replace(asked, total_steps=asked.rounded_steps)
        self.clock = replace(self.clock, horizon=self.config.total_steps)

    def stop(self, reason: str) -> None:
        """End training after the present update."""
        self.stop_reason = reason

    def summary(self) -> dict[str, float | int]:
        """The last update's metrics with the counters and `mean_reward`."""
        row = {
            **self._last.metrics,
            "env_steps": self.clock.env_steps,
            "updates": self.clock.updates,
        }
        mean = self.recent.mean_return
        return row | {"mean_reward": float("nan") if mean is None else mean}

    def predict(self, obs: Any, deterministic: bool = True) -> int | NDArray[Any]:
        """The policy's action for one raw observation (an `int` for Discrete) or for a batch.

        Normalised as in training, with frozen statistics; Box actions are clipped to the bounds.
        `deterministic=False` samples.
        """
        codec = self.collector.env.observations
        single = codec.is_single(obs)
        try:
            rows = codec.encode_batch(np.asarray(obs)[None] if single else np.asarray(obs))
        except (ValueError, IndexError, TypeError) as error:
            raise ShapeError(
                f"observation has shape {np.shape(obs)}, expected {codec.space.shape} or a batch of it"
            ) from error
        if self.collector.obs_normalizer:
            rows = rows.copy()  # they may be the caller's own memory
            self.collector.obs_normalizer.apply(rows)
        with torch.inference_mode(), acting(self.policy):
            seen = torch.from_numpy(rows).to(self.device)
            action = self.policy.mode(seen) if deterministic else self._sample(seen)
        actions = self.collector.env.actions.to_env(action.cpu().numpy())
        if not single:
            return actions
        return int(actions[0]) if self.collector.env.actions.discrete else actions[0]

    def evaluate(
        self,
        episodes: int = 50,
        seed: int = 100_000,
        video: Path | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> Evaluation:
        """Play whole episodes deterministically in environments of their own.

        Episode i starts from `reset(seed=seed + i)`. `video` names an mp4 to write.
        """
        env = self.collector.env
        evaluator = Evaluator(
            self.policy,
            self._make_env,
            env.observations,
            env.actions,
            self.collector.obs_normalizer,
            self.device,
            stopped,
        )
        with torch_threads(self.config.torch_threads):
            if video is None:
                return evaluator.run(episodes, seed)
            filmed = single_factory(self.config.env, self._env_source, "rgb_array")
            return evaluator.video(filmed, episodes, seed, video)

    def save(self, path: str | Path) -> None:
        """Write a checkpoint folder at `path`, replacing one that is there."""
        write_checkpoint(Path(path), self.checkpoint())

    def checkpoint(
        self, logs: Mapping[str, int] | None = None, session: Mapping[str, Any] | None = None
    ) -> Checkpoint:
        """Everything the continuation depends on; a session adds its log offsets and its own state."""
        learned = self.learner.state()
        state: dict[str, Any] = {
            "source": self.source.state(),
            "recent": self.recent.state(),
            "session": dict(session or {}),
        }
        return Checkpoint(
            config=plain(self.config),
            clock=self.clock.counters,
            weights=learned["weights"],
            optimizer=learned["optimizer"],
            state=state,
            logs=dict(logs or {}),
        )

    def restore(self, saved: Checkpoint) -> None:
        """Continue from a checkpoint of the same configuration."""
        try:
            self.learner.restore({"weights": saved.weights, "optimizer": saved.optimizer})
            self.source.restore(saved.state["source"])
            self.recent.restore(saved.state["recent"])
            self.clock = self.clock.at(saved.clock)
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            RuntimeError,
            TypeError,
            ValueError,
        ) as error:
            raise CheckpointError(
                f"the checkpoint does not fit {self.config.algo.name} on {self.env_id}: "
                f"{first_line(error)}"
            ) from error

    def close(self) -> None:
        """Close the environments."""
        self.source.close()

    _last: Update = Update()
    _predictions = 0  # sampled ones: keys their stream

    def _observe(self, clock: Clock, progress: Progress, update: Update) -> None:
        """The first hook: counters and episode statistics, then callbacks and logger."""
        self.clock = clock
        if update.metrics:  # a source that warms up has none
            self._last = update
        self.recent.extend(progress.episodes)
        if not (self._callbacks or self._logger):
            return
        metrics = self.summary()
        if self._logger:
            self._logger.on_train_step(clock.now, metrics)
        for callback in self._callbacks:
            callback.on_rollout_end(algo=self, step=clock.now, metrics=metrics)
            if callback.on_step(algo=self, step=clock.now, metrics=metrics) is False:
                self.stop("callback")

    def _done(self, clock: Clock) -> bool:
        return self.stop_reason is not None or not clock.left

    def _require_memory(self, n_steps: int) -> None:
        """Refuse a rollout that does not fit, before hours of training end in a kill."""
        env = self.collector.env
        arena = Arena.bytes_of(n_steps, env.n_envs, env.observations.dim, env.actions)
        # the arena, and the shuffled copy of an epoch
        require_memory(
            2 * arena,
            f"a rollout of {n_steps} steps of {env.n_envs} environments",
            "algo.n_steps or env.n_envs",
        )

    def _policy(self, given: nn.Module | None) -> ActorCritic:
        if given is not None:
            return as_actor_critic(given)
        with self.streams.default("init"), torch_threads(self.config.torch_threads):
            return self._make_policy(self.config, self.collector)

    def _sample(self, obs: torch.Tensor) -> torch.Tensor:
        self._predictions += 1
        generator = self.streams.generator("predict", self._predictions, str(self.device))
        return self.policy.get_action_and_logprob(obs, generator)[0]
