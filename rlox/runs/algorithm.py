"""The façade every algorithm shares: build from a config, train, predict, evaluate, save, load."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self, cast

from rlox._core import OfflineDatasetBuffer
from rlox.callbacks import Callback, LoggerCallback, Watchers
from rlox.configs import EvalConfig, RunConfig, plain
from rlox.configs.advice import rounding
from rlox.configs.check import require_bools, whole_number
from rlox.configs.code import Code
from rlox.configs.schedules import Schedule
from rlox.devices import outside_inference
from rlox.disk import own_folder, path_of
from rlox.envs.make import EnvSource, as_given
from rlox.errors import ConfigError
from rlox.rng import Streams
from rlox.runs.callback_states import restore_callbacks, states_of
from rlox.runs.checkpoint import Checkpoint, read_checkpoint, resolve_checkpoint, write_checkpoint
from rlox.runs.evaluating import limited
from rlox.runs.habits import Habits
from rlox.runs.interrupts import Exactness, whole_updates
from rlox.runs.loading import Given, Objects, fitting, reread, with_object
from rlox.runs.own_folders import require_own_folders
from rlox.runs.progress import reporting, shown
from rlox.runs.spaces import require_spaces, spaces_of
from rlox.runs.warm_start import warm_start
from rlox.sources.episodes import RecentEpisodes
from rlox.sources.store import InMemory, Noted, Nowhere, Segments, Store
from rlox.training.actor import Forgetful
from rlox.training.backend import Backend
from rlox.training.device import device_for, saved_device
from rlox.training.evaluate import Evaluation
from rlox.training.loop import Fused, Hook, Timings, fit
from rlox.training.parts import Parts, Tools
from rlox.training.setup import DEFAULT_ENV, environment_of, torch_threads, tuned_arguments
from rlox.types import Clock, Progress, Update

if TYPE_CHECKING:  # a run of the native engine imports no torch
    import torch
    from torch import nn

__all__ = ["Algorithm"]


class Algorithm(Habits):
    """A source, a learner, an actor and the loop, behind `train`, `predict`, `evaluate`, `save`.

    `PPO` and its like are signatures of this class: they turn their arguments into a configuration.
    """

    name: ClassVar[str]  # as it is registered

    @staticmethod
    @abstractmethod
    def make(config: RunConfig, tools: Tools) -> Parts:
        """What the algorithm is made of, by its own file."""

    def __init__(
        self,
        config: RunConfig,
        env: EnvSource | None = None,
        policy: nn.Module | Objects | None = None,
        logger: LoggerCallback | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        replay: bool = True,
        dataset: OfflineDatasetBuffer | None = None,
        backend: str | None = None,
        device: str | None = None,
    ) -> None:
        self._watchers = Watchers(callbacks, logger)
        self.config = with_object(replace(config, total_steps=config.rounded_steps), policy)
        self.env_id = config.env.id
        self.streams = Streams(config.seed)
        given = (as_given(env), policy, dataset, replay, backend)
        self.device = device_for(config, given[0], policy, device)
        with outside_inference():
            self.parts = type(self).make(self.config, Tools(self.device.name, self.streams, *given))
        self.source: Any = self.parts.source
        self.learner: Any = self.parts.learner
        self.clock = Clock(unit=config.algo.unit, horizon=self.config.total_steps)
        self.recent, self.timings, self._exact = RecentEpisodes(), Timings(), Exactness()
        self.stop_reason: str | None = None
        self.origin: dict[str, Any] | None = None  # of the weights, where they are another run's
        if config.init_from is not None:
            self.begin_from(config.init_from)

    @property
    def policy(self) -> Any:
        """The policy as torch has it, which a run of the native engine makes when it is asked for."""
        return self.parts.actor.module

    @property
    def backend(self) -> Backend:
        """The engine that learns, and why `backend="auto"` took it: `PPO(...).backend.name`."""
        return self.parts.backend

    @classmethod
    def of(
        cls,
        config: RunConfig,
        env: EnvSource | None = None,
        policy: nn.Module | Objects | None = None,
        logger: LoggerCallback | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        replay: bool = True,
        dataset: OfflineDatasetBuffer | None = None,
        backend: str | None = None,
        device: str | None = None,
    ) -> Self:
        """The algorithm that a configuration describes; `backend`, `device`: what `auto` took before."""
        made = cls.__new__(cls)
        given = (env, policy, logger, callbacks, replay, dataset, backend, device)
        Algorithm.__init__(made, config, *given)
        return made

    @classmethod
    def tuned(
        cls, env_id: EnvSource = DEFAULT_ENV, preset: str | None = None, **options: Any
    ) -> Self:
        """One with the tuned hyperparameters of its environment, as `rlox train` applies them.

        `preset` names those of another (`"Acrobot-v1"`); `options` are arguments of the class and win
        over the preset's. The preset's total is `config.total_steps`, for `fit()` or `train(total)`.
        """
        source = environment_of(env_id, DEFAULT_ENV, options)
        given, total = tuned_arguments(cls.name, source, preset, options)
        facade: Any = cls
        algorithm: Self = facade(env_id=source, **given)
        algorithm.aim(total)
        return algorithm

    @classmethod
    def from_checkpoint(
        cls,
        path: str | Path,
        env_id: EnvSource | None = None,
        policy: nn.Module | Objects | Code | None = None,
        logger: LoggerCallback | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        replay: bool = True,
        dataset: OfflineDatasetBuffer | None = None,
        env_kwargs: Mapping[str, Any] | None = None,
        wrappers: Sequence[Code] | None = None,
        reward_wrappers: Sequence[Code] | None = None,
        schedules: Mapping[str, Schedule] | None = None,
        trust: bool = False,
        env: EnvSource | None = None,
        device: str | None = None,
        backend: str | None = None,
    ) -> Self:
        """Restore from a run folder or a checkpoint folder.

        The environment, configuration, counters, normalisers, weights, optimizer and random streams come from
        the checkpoint. `env_id` replaces the environment (needed when it was an object), `env_kwargs` are
        further arguments of it, `device` replaces the device and `backend` the engine of the updates;
        `policy` is needed when the run had a module of its own, whose weights are then loaded. `logger` and
        `callbacks` are those of further training: none are saved. With `replay=False` the rows of a replay
        buffer or dataset stay where they are: enough to play, and training fills a new buffer first.
        `dataset` is the one that an offline run had, unless its folder is configured. `wrappers`,
        `reward_wrappers` and `schedules` (by field) are those that a file cannot hold, or others. Code that
        a checkpoint names (`module:Name`) is imported only if that is given again, or with `trust`.
        """
        saved = read_checkpoint(resolve_checkpoint(path_of(path, "path")))
        env_id = env if env_id is None else env_id  # both names, as in the constructor
        config = reread(saved.config, device, backend)
        if config.algo.name != cls.name:
            raise ConfigError(
                f"{path} is of a run with algo={config.algo.name}, not of {cls.__name__}; load it with "
                "the class of that algorithm"
            )
        given = Given(env_id, env_kwargs, policy, wrappers, reward_wrappers, schedules, trust)
        config = given.config(config, Path(path))
        rest = (logger, callbacks, replay, dataset, saved.backend, saved_device(saved.state))
        begun = replace(config, init_from=None)  # the weights are in the checkpoint
        algorithm = cls.of(begun, env_id, given.objects(saved), *rest)
        algorithm.config = replace(algorithm.config, init_from=config.init_from)
        algorithm.restore(saved, replay)
        return algorithm

    @classmethod
    def load(cls, path: str | Path, env_id: EnvSource | None = None, **options: Any) -> Self:
        """`from_checkpoint`, by the name that Stable-Baselines3 has for it."""
        return cls.from_checkpoint(path, env_id, **options)

    def train(self, total_timesteps: int, progress: bool = False) -> dict[str, float]:
        """Train until the run has taken `total_timesteps` steps in all.

        Steps count all environments together and are rounded up to whole rollouts. Returns the last metrics
        with `mean_reward` (mean return of the last 100 finished episodes), `env_steps` and `updates`. Going
        on with a larger total stretches the schedules. `ConfigError` for what is no whole number above 0; 1e5
        is one. `progress` shows on standard output which engine learns and how far it is, with a bar.
        """
        total = whole_number(RunConfig, "total_steps", total_timesteps, "total_timesteps")
        if told := rounding(replace(self.config, total_steps=total)):
            warnings.warn(told, UserWarning, stacklevel=2)
        self._exact.tell(self.clock.now, self.env_id, trains=True)
        took = f"{self.backend.line}{self.device.line}".strip()
        with reporting(progress, took) as report, whole_updates(self.stop):
            self.fit(total, [shown(report, self.clock.now, self.recent)] if report else ())
        return {name: float(value) for name, value in self.summary().items()}

    def fit(self, total_steps: int | None = None, hooks: Iterable[Hook] = ()) -> Clock:
        """Run the loop to `total_steps` (the config's, unless given) or until something stops it."""
        with self._exact.trains(type(self).__name__, self.parts.in_torch):
            return self._fitted(total_steps, hooks)

    def _fitted(self, total_steps: int | None, hooks: Iterable[Hook]) -> Clock:
        total = self.config.total_steps if total_steps is None else total_steps
        asked = replace(self.config, total_steps=total)
        if self.clock.now >= asked.rounded_steps:
            raise ConfigError(
                f"the run is at {self.clock.now} steps already and totals count from its start: "
                f"total_steps={asked.total_steps} must be larger, "
                f"{self.clock.now + asked.total_steps} for {asked.total_steps} more"
            )
        self.aim(asked.total_steps)
        self.stop_reason = None
        require_own_folders(self._watchers.callbacks, self.config, self.clock.now)
        self._watchers.begin(self, self.config.total_steps)
        try:
            with torch_threads(self.config.torch_threads), self._exact.refusing():
                fit(
                    self.source,
                    self.learner,
                    self.clock,
                    done=self._done,
                    hooks=(self._observe, *hooks),
                    timings=self.timings,
                    begin_update=self._exact.begin_update,
                )
        except BaseException:
            if isinstance(self.source, Fused) and self.source.mid_update:
                self._exact.begin_update()
            raise
        finally:
            self._watchers.end(self, self.clock.now)
        self.stop_reason = self.stop_reason or "total_steps"
        return self.clock

    def begin_from(self, path: str) -> None:
        """Begin with the weights in a run or checkpoint folder, in place of the initial ones."""
        self.config = replace(self.config, init_from=path)
        self.origin = warm_start(path, self.config, self.parts)

    def aim(self, total_steps: int) -> None:
        """Set where the run ends, rounded up to whole batches; schedules stretch to it."""
        asked = replace(self.config, total_steps=total_steps)
        self.config = replace(asked, total_steps=asked.rounded_steps)
        self.clock = replace(self.clock, horizon=self.config.total_steps)

    def stop(self, reason: str) -> None:
        """End training after the present update."""
        self.stop_reason = reason

    def summary(self) -> dict[str, float | int]:
        """The last update's metrics with the counters and `mean_reward`; where there are such, with
        `train/success_rate` and failures of environments.
        """
        row = {
            **self._last.metrics,
            "env_steps": self.clock.env_steps,
            "updates": self.clock.updates,
        }
        mean, rate = self.recent.mean_return, self.recent.success_rate
        if rate is not None:
            row["train/success_rate"] = rate
        return row | self.recent.failures | {"mean_reward": float("nan") if mean is None else mean}

    def predict(self, obs: Any, deterministic: bool = True, action_masks: Any = None) -> Any:
        """The policy's action for one raw observation (an `int` for Discrete) or for a batch.

        It has the form of the action space: an array, or a dict or tuple of parts; of a batch each array
        is `[N, ...]`. Normalised as in training, with frozen statistics; Box actions are within the
        bounds. `deterministic=False` samples. `action_masks` `[n_actions]`, or `[N, n_actions]` for a
        batch, say what is allowed, for a policy that learned with masks.
        """
        self._predictions += not deterministic
        generator = self._sampling(deterministic, "predict", self._predictions)
        return cast(Forgetful[Any], self.parts.actor).predict(obs, generator, action_masks)

    def evaluate(
        self,
        episodes: int = 50,
        seed: int = 100_000,
        video: str | Path | None = None,
        stopped: Callable[[], bool] = lambda: False,
        deterministic: bool = True,
        render: bool = False,
        max_steps: int | None = None,
        n_envs: int | None = None,
    ) -> Evaluation:
        """Play whole episodes in environments of their own, with the best actions or sampled ones.

        Episode i starts from `reset(seed=seed + i)`; what is sampled is keyed by `seed`. `video` names
        an mp4 to write, `render` shows the episodes in a window. `max_steps` ends an episode, `n_envs` are
        played at once; `None` is the run's `eval.max_steps`, `eval.n_envs`.
        """
        play = limited(self.parts.evaluate, self.name, n_envs, max_steps)
        episodes = whole_number(EvalConfig, "episodes", episodes, "episodes")
        seed = whole_number(EvalConfig, "seed", seed, "seed")
        film = None if video is None else path_of(video, "video")
        generator = self._sampling(deterministic, "evaluate", seed)
        with torch_threads(self.config.torch_threads):
            return play(episodes, seed, film, stopped, render, generator)

    def save(self, path: str | Path, replay: bool = True) -> None:
        """Write a checkpoint folder at `path`, in place of any there; `replay` also a buffer's rows."""
        require_bools(replay=replay)
        self._exact.tell(self.clock.now, self.env_id)
        noted = Noted()
        saved = self.checkpoint(store=noted if replay else Nowhere())
        write_checkpoint(own_folder(path, "path"), saved, buffer=noted.buffer)

    def checkpoint(
        self,
        logs: Mapping[str, int] | None = None,
        session: Mapping[str, Any] | None = None,
        store: Store | None = None,
    ) -> Checkpoint:
        """Everything the continuation depends on; a session adds its log offsets and its own state.

        The rows of a replay buffer go into `store`; without one they are copied.
        """
        learned, store = self.learner.state(), store or InMemory()
        state: dict[str, Any] = {
            "source": self.source.save(store),
            "recent": self.recent.state(),
            "session": dict(session or {}),
            "backend": self.parts.backend.name,
            "spaces": spaces_of(self.config, self.parts.actor),
        }
        if self.device.kept:
            state["device"] = self.device.kept
        if kept := states_of(self._watchers.callbacks):
            state["callbacks"] = kept
        return Checkpoint(
            config=plain(self.config),
            clock=self.clock.counters,
            weights=learned["weights"],
            optimizer=learned["optimizer"],
            state=state,
            logs=dict(logs or {}),
            replay=store if isinstance(store, Segments) and store.used else None,
        )

    def restore(self, saved: Checkpoint, replay: bool = True) -> None:
        """Continue from a checkpoint of the same configuration, perhaps without its replay's rows."""
        with fitting(self.config.algo.name, self.env_id):
            self.learner.restore({"weights": saved.weights, "optimizer": saved.optimizer})
            self.source.restore(saved.state["source"], saved.store if replay else Nowhere())
            self.recent.restore(saved.state["recent"])
            restore_callbacks(self._watchers.callbacks, saved.state.get("callbacks", []))
            require_spaces(saved.state, self.config, self.parts.actor)
            self.clock = self.clock.at(saved.clock)
            self._exact.why_not = self.source.interruption(saved.state["source"])

    def close(self) -> None:
        """Close the environments: `predict`, `evaluate` and `save` go on, `train` is refused."""
        self._exact.closed = True
        self.source.close()

    def __repr__(self) -> str:
        at = f"{self.clock.now:,} of {self.clock.horizon:,} {self.clock.unit}"
        made = f"{self.env_id!r}, seed={self.config.seed}, backend={self.backend.name!r}"
        return f"{type(self).__name__}({made}, at {at})"

    def __reduce__(self) -> NoReturn:
        name = type(self).__name__
        raise TypeError(
            f"{name} cannot be pickled or copied: it holds environments; save(path) and "
            f"{name}.from_checkpoint(path) make another one of it"
        )

    _last: Update = Update()
    _predictions = 0  # sampled ones: keys their stream

    def _sampling(self, deterministic: bool, name: str, key: int) -> torch.Generator | None:
        """What actions are sampled with; `None` for the best ones."""
        require_bools(deterministic=deterministic)
        device = str(self.parts.actor.device)
        return None if deterministic else self.streams.generator(name, key, device)

    def _observe(self, clock: Clock, progress: Progress, update: Update) -> None:
        """The first hook: counters and episode statistics, then callbacks and logger."""
        self.clock, self._exact.whole = clock, True
        if update.metrics:  # a source that warms up has none
            self._last = update
        self.recent.add(progress)
        if not self._watchers.tick(self, clock.now, self.summary, progress.episodes, update.count):
            self.stop("callback")

    def _done(self, clock: Clock) -> bool:
        return self.parts.agreed(self.stop_reason is not None or not clock.left)
