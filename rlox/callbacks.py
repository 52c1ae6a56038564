"""Callbacks and the logger interface: user code that observes training and may stop it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Real
from pathlib import Path
from typing import Any
from weakref import ref

from rlox.disk import make_folder, parse_folder_path, parse_path
from rlox.envs.base import copy_info
from rlox.errors import ConfigError
from rlox.hooks import HOOKS, LOGGER_HOOKS, require_callable_hooks, require_no_stray_hook
from rlox.types import Episode

__all__ = [
    "Callback",
    "CallbackRunner",
    "CheckpointCallback",
    "EarlyStoppingCallback",
    "EvalCallback",
    "LoggerCallback",
    "make_callbacks",
    "name_errors",
    "require_logger",
]


class Callback:
    """Base class of callbacks; override the methods you need.

    Every method receives `algo`, and the following arguments where they apply. `step` counts the run's unit,
    environment steps for most runs. `metrics` has `mean_reward`, the metrics of the last update, and
    `train/success_rate` if episodes report success. `episodes` are the `rlox.types.Episode`s that ended since
    the previous call, each with the `info` of its last step if the environment provides one (with
    `is_success`, for example). Each callback receives its own copies of metrics and episodes.
    """

    def on_training_start(self, **kwargs: Any) -> None:
        """Called once, before the first rollout; also receives `total_timesteps`."""

    def on_rollout_end(self, **kwargs: Any) -> None:
        """Called after each rollout or series of steps, and after its update if one was due."""

    def on_step(self, **kwargs: Any) -> bool:
        """Called after each update; return False to stop training."""
        return True

    def on_training_end(self, **kwargs: Any) -> None:
        """Called once, after the last update."""

    def state(self) -> dict[str, Any]:
        """Return the state that a checkpoint saves. An empty dict is not saved.

        The state may hold None, numbers, text, lists, tuples, dicts, arrays and tensors.
        """
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state()` returned; not called if it returned an empty dict."""


class LoggerCallback:
    """Receives rows of metrics; override to send them somewhere."""

    def on_train_step(self, step: int, metrics: dict[str, Any]) -> None:
        """Called after each update; `step` counts the run's unit."""


class CallbackRunner:
    """Calls the callbacks and the logger of a run; keeps each callback's episodes since the last update."""

    def __init__(
        self, callbacks: Callback | Iterable[Callback] | None, logger: LoggerCallback | None
    ) -> None:
        self.callbacks, self.logger = make_callbacks(callbacks), require_logger(logger)
        self._episodes_since_update: dict[int, list[Episode]] = {}

    @property
    def is_used(self) -> bool:
        """Whether there are callbacks or a logger."""
        return bool(self.callbacks) or self.logger is not None

    def start_training(self, algo: Any, total_timesteps: int) -> None:
        """Call `on_training_start` of every callback."""
        for callback in self.callbacks:
            with name_errors(callback):
                callback.on_training_start(algo=algo, total_timesteps=total_timesteps)

    def end_training(self, algo: Any, step: int) -> None:
        """Call `on_training_end` of every callback."""
        for callback in self.callbacks:
            with name_errors(callback):
                callback.on_training_end(algo=algo, step=step)

    def tick(
        self,
        algo: Any,
        step: int,
        summary: Callable[[], Mapping[str, Any]],
        episodes: Sequence[Episode],
        updates: int,
    ) -> bool:
        """Report a rollout, and its `updates` if there are any; return whether training continues."""
        if not self.is_used:
            return True
        metrics, keep_training = summary(), True
        if self.logger and updates:
            with name_errors(self.logger, "logger"):
                self.logger.on_train_step(step, dict(metrics))
        for i, callback in enumerate(self.callbacks):
            arguments = {"algo": algo, "step": step}
            # each callback may modify its infos, so the log and other callbacks have copies
            new_episodes = [episode._replace(info=copy_info(episode.info)) for episode in episodes]
            with name_errors(callback):
                callback.on_rollout_end(**arguments, metrics=dict(metrics), episodes=tuple(new_episodes))
            unseen_episodes = self._episodes_since_update.pop(i, []) + new_episodes
            if not updates:
                self._episodes_since_update[i] = unseen_episodes
                continue
            with name_errors(callback):
                result = callback.on_step(**arguments, metrics=dict(metrics), episodes=tuple(unseen_episodes))
                keep_training = _should_continue(result) and keep_training
        return keep_training


def _should_continue(result: Any) -> bool:
    """Return whether training continues. Accepts NumPy and torch booleans; `None` means continue."""
    if result is None:
        return True
    try:
        if not isinstance(result, str):
            return bool(result)
    except (RuntimeError, ValueError):  # an array with several elements is neither true nor false
        pass
    raise ConfigError(f"on_step returned {result!r:.80}, expected True, or False to stop training")


@contextmanager
def name_errors(instance: Callback | LoggerCallback, role: str = "callback") -> Iterator[None]:
    """Add a note to exceptions of user code in the block that names the callback or logger."""
    try:
        yield
    except Exception as error:
        error.add_note(f"raised by the {role} {type(instance).__name__}")
        raise


def make_callbacks(callbacks: Callback | Iterable[Callback] | None) -> tuple[Callback, ...]:
    """Return the callbacks as a tuple, empty for `None`; raise `ConfigError` for anything else."""
    if callbacks is None:
        return ()
    instances = tuple(callbacks) if isinstance(callbacks, Iterable) else (callbacks,)
    for callback in instances:
        if isinstance(callback, type):
            raise ConfigError(f"callbacks={callback.__name__}: a class; make one: {callback.__name__}()")
        if missing := [name for name in HOOKS if not callable(getattr(callback, name, None))]:
            raise ConfigError(
                f"callbacks: a {type(callback).__name__} lacks {', '.join(missing)}; derive it from "
                "rlox.callbacks.Callback"
            )
        _require_valid_hooks("callbacks", callback, HOOKS)
        _require_state_methods(callback)
    for i, callback in enumerate(instances):
        if any(callback is earlier for earlier in instances[:i]):
            raise ConfigError(
                f"callbacks: the same {type(callback).__name__} is given twice, and would be called twice; "
                "give it once"
            )
    return instances


def _require_state_methods(callback: Any) -> None:
    """Raise `ConfigError` unless a callback can both save and restore its state, or has none."""
    callback_class, method_names = type(callback), ("state", "restore")
    for name in method_names:
        if isinstance(callback, Callback) and not callable(getattr(callback, name)):
            raise ConfigError(
                f"callbacks: {name} of a {callback_class.__name__} is no method, and hides {name}() of "
                "Callback; rename it"
            )
    own_methods = [
        name
        for name in method_names
        if getattr(callback_class, name, None) not in (None, getattr(Callback, name))
    ]
    if isinstance(callback, Callback) and len(own_methods) == 1:
        missing_method = "restore" if own_methods == ["state"] else "state"
        raise ConfigError(
            f"callbacks: a {callback_class.__name__} defines {own_methods[0]}() without {missing_method}(): "
            "what it remembers would be lost when a run is resumed; define both"
        )
    if not isinstance(callback, Callback) and len(own_methods) == 2:
        raise ConfigError(
            f"callbacks: a {callback_class.__name__} has state() and restore(), which are called "
            "for a Callback only; derive it from rlox.callbacks.Callback"
        )


def require_logger(logger: LoggerCallback | None) -> LoggerCallback | None:
    """Return the logger; raise `ConfigError` for an object that is not one."""
    if logger is None:
        return None
    if not callable(getattr(logger, "on_train_step", None)) or isinstance(logger, type):
        raise ConfigError(f"logger={logger!r}: expected an object made from a rlox.callbacks.LoggerCallback")
    _require_valid_hooks("logger", logger, LOGGER_HOOKS)
    return logger


def _require_valid_hooks(key: str, instance: Any, hooks: Mapping[str, tuple[str, ...]]) -> None:
    """Raise `ConfigError` for hooks with a wrong signature and for methods that look like hooks but are not.

    An object may be both a callback and a logger.
    """
    allowed_names = {*hooks}
    if all(callable(getattr(instance, name, None)) for name in HOOKS):
        allowed_names |= {*HOOKS}
    if isinstance(instance, LoggerCallback):
        allowed_names |= {*LOGGER_HOOKS}
    require_callable_hooks(key, instance, hooks)
    require_no_stray_hook(key, instance, hooks, allowed_names, (Callback, LoggerCallback))


def _require_positive_ints(**arguments: Any) -> None:
    for name, value in arguments.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(f"{name}={value!r}: expected a whole number of at least 1")


class _SingleRunCallback(Callback):
    """A callback that resets when another algorithm trains with it, for example in a loop over seeds.

    When the same algorithm trains again, or is loaded from a checkpoint, the callback keeps its state.
    """

    _algo_ref: Callable[[], Any] | None = None  # the observed algorithm; None: none yet, or restored

    def on_training_start(self, **kwargs: Any) -> None:
        """Reset if another algorithm trains."""
        algo = kwargs["algo"]
        if self._algo_ref is not None and self._algo_ref() is not algo:
            self._reset()
        self._algo_ref = ref(algo)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state()` returned."""
        self._algo_ref = None

    def _reset(self) -> None:
        """Reset to the initial state."""

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_algo_ref": self._algo_ref and object}  # a copy of a used callback starts anew


class EarlyStoppingCallback(_SingleRunCallback):
    """Stops when `mean_reward` has not risen by `min_delta` for `patience` updates.

    Steps before the first update, which fill a buffer, do not count. An infinite reward is not a gain. When
    another algorithm trains, the count starts again.
    """

    def __init__(self, patience: int = 10, min_delta: float = 0.0) -> None:
        _require_positive_ints(patience=patience)
        delta: Any = min_delta
        if not isinstance(delta, Real) or math.isnan(delta):
            raise ConfigError(f"min_delta={min_delta!r}: expected a number")
        self.patience = patience
        self.min_delta = min_delta
        self._reset()

    def _reset(self) -> None:
        self.best = float("-inf")
        self.updates_without_gain = 0

    def on_step(self, **kwargs: Any) -> bool:
        """Compare `mean_reward` with the best so far."""
        reward = kwargs["metrics"]["mean_reward"]
        if reward != reward:  # no episode has ended yet
            return True
        if math.isfinite(reward) and reward > self.best + self.min_delta:
            self.best, self.updates_without_gain = reward, 0
        else:
            self.updates_without_gain += 1
        return self.updates_without_gain < self.patience

    def state(self) -> dict[str, Any]:
        """The best reward so far, and the number of updates since."""
        return {"best": self.best, "waited": self.updates_without_gain}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state()` returned."""
        super().restore(state)
        self.best, self.updates_without_gain = _read_finite_best(state), int(state["waited"])


def _read_finite_best(state: Mapping[str, Any]) -> float:
    """Return the best reward of a saved state; an infinite one, from an earlier version, counts as none."""
    best = float(state["best"])
    return best if math.isfinite(best) else float("-inf")


class EvalCallback(_SingleRunCallback):
    """Evaluates every `eval_freq` steps in separate environments; stores `(step, mean return)`.

    If `best_model_path` is given, a checkpoint is written there whenever the mean return is a new best. NaN
    and infinities are never the best. When another algorithm trains, `eval_results` starts again.
    Raises `ConfigError` if `best_model_path` holds a checkpoint of another run.
    """

    def __init__(
        self,
        eval_freq: int = 10_000,
        n_eval_episodes: int = 50,
        best_model_path: str | Path | None = None,
    ) -> None:
        _require_positive_ints(eval_freq=eval_freq, n_eval_episodes=n_eval_episodes)
        if best_model_path is not None:
            parse_folder_path(best_model_path, "best_model_path")
        self.eval_freq = eval_freq
        self.n_eval_episodes = n_eval_episodes
        self.best_model_path = best_model_path
        self._reset()

    def _reset(self) -> None:
        self.best_reward = float("-inf")
        self.eval_results: list[tuple[int, float]] = []
        self._n_evaluations = 0

    def on_step(self, **kwargs: Any) -> bool:
        """Evaluate if `step` has passed another multiple of `eval_freq`."""
        step, algo = kwargs["step"], kwargs["algo"]
        if step // self.eval_freq <= self._n_evaluations:
            return True
        self._n_evaluations = step // self.eval_freq
        mean = algo.evaluate(self.n_eval_episodes).mean
        self.eval_results.append((step, mean))
        if math.isfinite(mean) and mean > self.best_reward:
            self.best_reward = mean
            if self.best_model_path is not None:
                algo.save(self.best_model_path)
        return True

    def state(self) -> dict[str, Any]:
        """The evaluations so far."""
        results = [list(result) for result in self.eval_results]
        return {"results": results, "best": self.best_reward, "evaluated": self._n_evaluations}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state()` returned."""
        super().restore(state)
        self.eval_results = [(int(step), float(mean)) for step, mean in state["results"]]
        finite_means = [mean for _, mean in self.eval_results if math.isfinite(mean)]
        self.best_reward = max(finite_means, default=_read_finite_best(state))
        self._n_evaluations = int(state["evaluated"])


class CheckpointCallback(_SingleRunCallback):
    """Saves `path/step-<12 digits>` every `save_freq` steps.

    Placed last in the list, it saves the current states of the other callbacks. At the start of training it
    creates the folder `path`. Raises `StorageError` if it cannot be written, and `ConfigError` if it holds
    checkpoints of another run.
    """

    def __init__(self, save_freq: int, path: str | Path) -> None:
        _require_positive_ints(save_freq=save_freq)
        self.save_freq = save_freq
        self.path = parse_path(path, "path")
        self._reset()

    def _reset(self) -> None:
        self._n_saves = 0

    def on_training_start(self, **kwargs: Any) -> None:
        """Create the folder; a path that cannot be written fails now, not after hours of training."""
        super().on_training_start(**kwargs)
        make_folder(self.path)

    def on_step(self, **kwargs: Any) -> bool:
        """Save if `step` has passed another multiple of `save_freq`."""
        step = kwargs["step"]
        if step // self.save_freq > self._n_saves:
            self._n_saves = step // self.save_freq
            make_folder(self.path)
            kwargs["algo"].save(self.path / f"step-{step:012d}")
        return True

    def state(self) -> dict[str, Any]:
        """The number of saves that were due."""
        return {"saved": self._n_saves}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state()` returned."""
        super().restore(state)
        self._n_saves = int(state["saved"])
