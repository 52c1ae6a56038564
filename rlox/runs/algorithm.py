"""The façade of every algorithm: build from a config, train, predict, evaluate, save, load."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast

from rlox._core import OfflineDatasetBuffer
from rlox.callbacks import Callback, CallbackRunner, LoggerCallback
from rlox.configs import EvalConfig, RunConfig, to_plain
from rlox.configs.advice import rounding_advice
from rlox.configs.check import check_integer, check_integers, require_bools
from rlox.configs.params import Code, object_name
from rlox.configs.schedules import Schedule
from rlox.devices import is_module, leave_inference_mode, torch_threads
from rlox.disk import parse_folder_path, parse_path
from rlox.envs.make import EnvLike, copy_env_source
from rlox.errors import ConfigError
from rlox.rng import Streams
from rlox.runs.callback_states import get_callback_states, require_no_foreign_checkpoints, restore_callbacks
from rlox.runs.checkpoint import Checkpoint, read_checkpoint, resolve_checkpoint, write_checkpoint
from rlox.runs.constructor import ArgumentConstructor, SB3Aliases
from rlox.runs.evaluation_limits import with_eval_limits
from rlox.runs.interrupts import ResumeStatus, finish_update_on_interrupt
from rlox.runs.loading import (
    LoadOverrides,
    RuntimeObjects,
    describe_spaces,
    load_config,
    require_same_spaces,
    restore_errors,
    with_policy_name,
)
from rlox.runs.preflight import require_steps_left
from rlox.runs.progress import make_reporter_if, progress_hook
from rlox.runs.warm_start import warm_start
from rlox.sources.episodes import RecentEpisodes
from rlox.sources.store import DeferredStore, InMemoryStore, NullStore, SegmentStore, Store
from rlox.training.actor import StatelessActor
from rlox.training.backend import Backend
from rlox.training.components import BuildContext, RunComponents
from rlox.training.device import saved_device, select_device
from rlox.training.evaluate import Evaluation
from rlox.training.loop import FusedSourceProtocol, Hook, Timings, fit, seeded_updates
from rlox.training.setup import DEFAULT_ENV, config_from_arguments, resolve_env, tuned_arguments
from rlox.types import Clock, Progress, Update

if TYPE_CHECKING:  # a run of the native engine imports no torch
    import torch
    from torch import nn

__all__ = ["Algorithm"]


class Algorithm(ArgumentConstructor, SB3Aliases):
    """Trains a learner on the batches of a source; also plays, evaluates and saves its policy.

    The arguments of a subclass such as `PPO` are the fields of the algorithm, its buffers, the environment
    and the run, and `object_arguments`. Its own constructor calls `super().__init__` with such arguments.
    """

    @staticmethod
    @abstractmethod
    def make(config: RunConfig, context: BuildContext) -> RunComponents:
        """Make the components; implemented by each algorithm."""

    def _init_from_arguments(self, objects: dict[str, Any], fields: dict[str, Any]) -> None:
        """Initialise from the constructor's arguments: objects, and fields of the configuration."""
        env = resolve_env(objects["env_id"], objects["env"], self.object_arguments["env_id"].default)
        policy = fields.get("policy")
        if module := policy if is_module(policy) else None:
            fields["policy"] = object_name(module)
        config = config_from_arguments(self.name, env, fields, self.object_arguments)
        self._build(config, CallbackRunner(objects["callbacks"], objects["logger"]), env=env, policy=module)

    def _build(
        self,
        config: RunConfig,
        callback_runner: CallbackRunner,
        device: str | None = None,
        env: EnvLike | None = None,
        policy: nn.Module | RuntimeObjects | None = None,
        **context: Any,
    ) -> None:
        """Initialise from a configuration; `env`, `policy` and `context` are fields of `BuildContext`."""
        self._callback_runner = callback_runner
        self.config = with_policy_name(replace(config, total_steps=config.rounded_steps), policy)
        self.env_id, self.streams = config.env.id, Streams(config.seed)
        env = copy_env_source(env)
        self.device = select_device(config, env, policy, device)
        build_context = BuildContext(self.device.name, self.streams, env, policy, **context)
        with leave_inference_mode():
            self.components = type(self).make(self.config, build_context)
        self.source: Any = self.components.source
        self.learner: Any = self.components.learner
        self.clock = Clock(unit=config.algo.unit, horizon=self.config.total_steps)
        self.recent, self.timings, self._resume_status = RecentEpisodes(), Timings(), ResumeStatus()
        self.stop_reason: str | None = None
        self.origin: dict[str, Any] | None = None  # the run that initial weights came from
        if config.init_from is not None:
            self.load_initial_weights(config.init_from)

    @property
    def policy(self) -> Any:
        """The policy as a torch module; a run of the native engine makes it on first use."""
        return self.components.actor.module

    @property
    def backend(self) -> Backend:
        """The engine that learns, and why `backend="auto"` chose it: `PPO(...).backend.name`."""
        return self.components.backend

    @classmethod
    def from_config(
        cls,
        config: RunConfig,
        env: EnvLike | None = None,
        policy: nn.Module | RuntimeObjects | None = None,
        logger: LoggerCallback | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        replay: bool = True,
        dataset: OfflineDatasetBuffer | None = None,
        backend: str | None = None,
        device: str | None = None,
    ) -> Self:
        """Make the algorithm of a configuration; `backend` and `device` keep earlier choices of `auto`."""
        algorithm = cls.__new__(cls)
        context = {"dataset": dataset, "fills_buffer": replay, "saved_backend": backend}
        algorithm._build(config, CallbackRunner(callbacks, logger), device, env, policy, **context)
        return algorithm

    @classmethod
    def tuned(cls, env_id: EnvLike | None = None, preset: str | None = None, **options: Any) -> Self:
        """Make the algorithm with the tuned hyperparameters of its environment, as `rlox train` does.

        `preset` takes those of another environment (`"Acrobot-v1"`); `options` are arguments of the class and
        override the preset's. `config.total_steps` is the preset's total, up to which `fit()` trains.
        """
        source = resolve_env(env_id, options.pop("env", None), DEFAULT_ENV)
        arguments, total = tuned_arguments(cls.name, source, preset, options)
        algorithm = cls(env_id=source, **arguments)
        algorithm.set_total_steps(total)
        return algorithm

    @classmethod
    def from_checkpoint(
        cls,
        path: str | Path,
        env_id: EnvLike | None = None,
        policy: nn.Module | RuntimeObjects | Code | None = None,
        logger: LoggerCallback | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        replay: bool = True,
        dataset: OfflineDatasetBuffer | None = None,
        env_kwargs: Mapping[str, Any] | None = None,
        wrappers: Sequence[Code] | None = None,
        reward_wrappers: Sequence[Code] | None = None,
        schedules: Mapping[str, Schedule] | None = None,
        trust: bool = False,
        env: EnvLike | None = None,
        device: str | None = None,
        backend: str | None = None,
    ) -> Self:
        """Restore from a run folder or a checkpoint folder.

        The environment, configuration, counters, normalisers, weights, optimizer and random streams come from
        the checkpoint. `env_id` replaces the environment (required if it was an object), `env_kwargs` adds
        keyword arguments to it, `device` replaces the device and `backend` the engine of the updates.
        `policy` is required if the run had its own module; its weights are then loaded. `logger` and
        `callbacks` serve further training; a checkpoint does not hold them. With `replay=False` the rows of a
        replay buffer or dataset are not loaded: enough to play, but training first fills a new buffer. Give
        `dataset` if an offline run has no dataset folder in its configuration. `wrappers`,
        `reward_wrappers` and `schedules` (by field) replace the saved ones; those that were objects must be
        given again. Code that a checkpoint names (`module:Name`) is imported only if it is given again, or
        with `trust`.
        """
        checkpoint = read_checkpoint(resolve_checkpoint(parse_path(path, "path")))
        env_id = env if env_id is None else env_id  # two names of one argument, as in the constructor
        config = load_config(checkpoint.config, device, backend)
        if config.algo.name != cls.name:
            raise ConfigError(
                f"{path} is of a run with algo={config.algo.name}, not of {cls.__name__}; load it with "
                "the class of that algorithm"
            )
        overrides = LoadOverrides(env_id, env_kwargs, policy, wrappers, reward_wrappers, schedules, trust)
        config = overrides.apply_to(config, Path(path))
        arguments = (logger, callbacks, replay, dataset, checkpoint.backend, saved_device(checkpoint.state))
        resumed_config = replace(config, init_from=None)  # the weights are in the checkpoint
        algorithm = cls.from_config(resumed_config, env_id, overrides.runtime_objects(checkpoint), *arguments)
        algorithm.config = replace(algorithm.config, init_from=config.init_from)
        algorithm.restore(checkpoint, replay)
        return algorithm

    def train(self, total_timesteps: int, progress: bool = False) -> dict[str, float]:
        """Train until the run has made `total_timesteps` steps, counted from its start.

        Steps count all environments together and are rounded up to whole rollouts. Returns the last metrics
        with `mean_reward` (mean return of the last 100 finished episodes), `env_steps` and `updates`. A later
        call with a larger total stretches the schedules. Raises `ConfigError` unless the total is a whole
        number above 0 (1e5 counts as one). `progress` shows the engine and a progress bar on standard output.
        """
        total = check_integer(RunConfig, "total_steps", total_timesteps, "total_timesteps")
        if rounding_note := rounding_advice(replace(self.config, total_steps=total)):
            warnings.warn(rounding_note, UserWarning, stacklevel=2)
        self._resume_status.warn(self.clock.now, self.env_id, is_training=True)
        description = f"{self.backend.message}{self.device.message}".strip()
        with make_reporter_if(progress, description) as report, finish_update_on_interrupt(self.stop):
            self.fit(total, [progress_hook(report, self.clock.now, self.recent)] if report else (), ())
        return {name: float(value) for name, value in self.summary().items()}

    def fit(
        self, total_steps: int | None = None, hooks: Iterable[Hook] = (), hook_intervals: Sequence[int] = (1,)
    ) -> Clock:
        """Run the loop to `total_steps` (the config's, unless given) or until something stops it.

        `hooks` are called when the count passes a multiple of one of `hook_intervals`, or more often.
        """
        asked = check_integers(EvalConfig, "every", hook_intervals, "hook_intervals")
        intervals = (1,) if self._callback_runner.is_used else asked if hooks else ()
        self.clock = replace(self.clock, hook_intervals=intervals)
        with self._resume_status.lock_training(type(self).__name__, self.components.is_torch_run):
            return self._run_loop(self.config.total_steps if total_steps is None else total_steps, hooks)

    def _run_loop(self, total_steps: int, hooks: Iterable[Hook]) -> Clock:
        config = replace(self.config, total_steps=total_steps)
        require_steps_left(config, self.clock.now)
        self.set_total_steps(config.total_steps)
        self.stop_reason = None
        require_no_foreign_checkpoints(self._callback_runner.callbacks, self.config, self.clock.now)
        self._callback_runner.start_training(self, self.config.total_steps)
        try:
            with torch_threads(self.config.torch_threads), self._resume_status.unchanged_on_refusal():
                fit(
                    self.source,
                    seeded_updates(self.learner, self.config.algo, self.streams, self.device.name),
                    self.clock,
                    done=self._is_done,
                    hooks=(self._on_tick, *hooks),
                    timings=self.timings,
                    begin_update=self._resume_status.begin_update,
                )
        except BaseException:
            if isinstance(self.source, FusedSourceProtocol) and self.source.is_mid_update:
                self._resume_status.begin_update()
            raise
        finally:
            self._callback_runner.end_training(self, self.clock.now)
        self.stop_reason = self.stop_reason or "total_steps"
        return self.clock

    def load_initial_weights(self, path: str) -> None:
        """Start from the weights in a run or checkpoint folder, instead of random initial ones."""
        self.config = replace(self.config, init_from=path)
        self.origin = warm_start(path, self.config, self.components)

    def set_total_steps(self, total_steps: int) -> None:
        """Set the end of the run, rounded up to whole batches; schedules stretch to it."""
        config = replace(self.config, total_steps=total_steps)
        self.config = replace(config, total_steps=config.rounded_steps)
        self.clock = replace(self.clock, horizon=self.config.total_steps)

    def stop(self, reason: str) -> None:
        """End training after the current update."""
        self.stop_reason = reason

    def summary(self) -> dict[str, float | int]:
        """Return the last metrics and counters, `mean_reward`, and any success rate and failure counts."""
        row = {**self._last_update.metrics, "env_steps": self.clock.env_steps, "updates": self.clock.updates}
        mean, rate = self.recent.mean_return, self.recent.success_rate
        if rate is not None:
            row["train/success_rate"] = rate
        return row | self.recent.failure_metrics | {"mean_reward": float("nan") if mean is None else mean}

    def predict(self, obs: Any, deterministic: bool = True, action_masks: Any = None) -> Any:
        """Return the policy's action for one raw observation (an `int` for Discrete) or for a batch.

        The action has the form of the action space: an array, or a dict or tuple of parts; for a batch each
        array is `[N, ...]`. Observations are normalised as in training, with frozen statistics; Box actions
        are within the bounds. `deterministic=False` samples. `action_masks`, `[n_actions]` or for a batch
        `[N, n_actions]`, mark allowed actions, for a policy that learned with masks.
        """
        self._n_sampled_predictions += not deterministic
        generator = self._sampling_generator(deterministic, "predict", self._n_sampled_predictions)
        return cast(StatelessActor[Any], self.components.actor).predict(obs, generator, action_masks)

    def evaluate(
        self,
        episodes: int = 50,
        seed: int = 100_000,
        video: str | Path | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
        deterministic: bool = True,
        render: bool = False,
        max_steps: int | None = None,
        n_envs: int | None = None,
    ) -> Evaluation:
        """Play whole episodes in separate environments, with the best actions or sampled ones.

        Episode i starts from `reset(seed=seed + i)`; sampling is seeded by `seed`. `video` names an mp4 to
        write, `render` shows the episodes in a window. An episode ends after `max_steps` steps at the latest;
        `n_envs` episodes are played at once. `None` means the run's `eval.max_steps` and `eval.n_envs`.
        """
        play = with_eval_limits(self.components.evaluate, self.name, n_envs, max_steps)
        episodes = check_integer(EvalConfig, "episodes", episodes, "episodes")
        seed = check_integer(EvalConfig, "seed", seed, "seed")
        video_path = None if video is None else parse_path(video, "video")
        generator = self._sampling_generator(deterministic, "evaluate", seed)
        with torch_threads(self.config.torch_threads):
            return play(episodes, seed, video_path, is_stopped, render, generator)

    def save(self, path: str | Path, replay: bool = True) -> None:
        """Write a checkpoint folder at `path`, replacing an existing one; `replay` adds buffer rows."""
        require_bools(replay=replay)
        self._resume_status.warn(self.clock.now, self.env_id)
        deferred_store = DeferredStore()
        checkpoint = self.checkpoint(store=deferred_store if replay else NullStore())
        write_checkpoint(parse_folder_path(path, "path"), checkpoint, buffer=deferred_store.buffer)

    def checkpoint(
        self,
        logs: Mapping[str, int] | None = None,
        session: Mapping[str, Any] | None = None,
        store: Store | None = None,
    ) -> Checkpoint:
        """Return everything that a resumed run depends on; a session adds its log offsets and its state.

        The rows of a replay buffer go into `store`; without one they are copied.
        """
        learner_state, store = self.learner.state(), store or InMemoryStore()
        state: dict[str, Any] = {
            "source": self.source.save(store),
            "recent": self.recent.state(),
            "session": dict(session or {}),
            "backend": self.components.backend.name,
            "spaces": describe_spaces(self.config, self.components.actor),
        }
        if self.device.name_to_save:
            state["device"] = self.device.name_to_save
        if callback_states := get_callback_states(self._callback_runner.callbacks):
            state["callbacks"] = callback_states
        return Checkpoint(
            config=to_plain(self.config),
            clock=self.clock.counters,
            weights=learner_state["weights"],
            optimizer=learner_state["optimizer"],
            state=state,
            logs=dict(logs or {}),
            replay=store if isinstance(store, SegmentStore) and store.has_save else None,
        )

    def restore(self, checkpoint: Checkpoint, replay: bool = True) -> None:
        """Continue from a checkpoint of the same configuration, with or without its replay rows."""
        with restore_errors(self.config.algo.name, self.env_id):
            self.learner.restore({"weights": checkpoint.weights, "optimizer": checkpoint.optimizer})
            self.source.restore(checkpoint.state["source"], checkpoint.store if replay else NullStore())
            self.recent.restore(checkpoint.state["recent"])
            restore_callbacks(self._callback_runner.callbacks, checkpoint.state.get("callbacks", []))
            require_same_spaces(checkpoint.state, self.config, self.components.actor)
            self.clock = self.clock.with_counters(checkpoint.clock)
            self._resume_status.resume_warning = self.source.resume_warning(checkpoint.state["source"])

    def close(self) -> None:
        """Close the environments: `predict`, `evaluate` and `save` still work, `train` is refused."""
        self._resume_status.has_closed_envs = True
        self.source.close()

    def __repr__(self) -> str:
        arguments_text = f"{self.env_id!r}, seed={self.config.seed}, backend={self.backend.name!r}"
        return f"{type(self).__name__}({arguments_text}, at {self.clock.text})"

    def __reduce__(self) -> NoReturn:
        name = type(self).__name__
        raise TypeError(
            f"{name} cannot be pickled or copied: it holds environments; save(path) and "
            f"{name}.from_checkpoint(path) make a copy of it"
        )

    _last_update: Update = Update()
    _n_sampled_predictions = 0  # each count has its own random stream

    def _sampling_generator(self, deterministic: bool, name: str, key: int) -> torch.Generator | None:
        """Return the generator that samples actions; `None` for the best actions."""
        require_bools(deterministic=deterministic)
        return None if deterministic else self.streams.generator(name, key, str(self.components.actor.device))

    def _on_tick(self, clock: Clock, progress: Progress, update: Update) -> None:
        """Update counters and episode statistics, then call callbacks and logger; the loop's first hook."""
        self.clock, self._resume_status.is_update_complete = clock, True
        if update.metrics:  # empty during warm-up
            self._last_update = update
        self.recent.add(progress)
        if not self._callback_runner.tick(self, clock.now, self.summary, progress.episodes, update.count):
            self.stop("callback")

    def _is_done(self, clock: Clock) -> bool:
        return self.components.broadcast_done(self.stop_reason is not None or not clock.units_left)
