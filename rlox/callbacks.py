"""Callbacks and the logger interface: user code that watches, and may stop, training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Real
from pathlib import Path
from typing import Any
from weakref import ref

from rlox.disk import make_folder, own_folder, path_of
from rlox.envs.base import copied
from rlox.errors import ConfigError
from rlox.hooks import HOOKS, LOGGED, require_callable, require_no_other
from rlox.types import Episode

__all__ = [
    "Callback",
    "CheckpointCallback",
    "EarlyStoppingCallback",
    "EvalCallback",
    "LoggerCallback",
    "Watchers",
    "as_callbacks",
    "as_logger",
    "named",
]


class Callback:
    """Override what you need. Every method receives `algo`, and where it applies what follows.

    `step` counts the run's unit, environment steps for most; `metrics` has `mean_reward` and the last
    update's metrics, and `train/success_rate` where episodes say whether they reached their goal;
    `episodes` are the `rlox.types.Episode`s that ended since the call before, each with the `info` of
    its last step where the environment gives one (`is_success`, say). Each callback has copies of its own.
    """

    def on_training_start(self, **kwargs: Any) -> None:
        """Once, before the first rollout; also `total_timesteps`."""

    def on_rollout_end(self, **kwargs: Any) -> None:
        """After each rollout, or stretch of steps, with its update if one was due."""

    def on_step(self, **kwargs: Any) -> bool:
        """After each update; return False to stop training."""
        return True

    def on_training_end(self, **kwargs: Any) -> None:
        """Once, after the last update."""

    def state(self) -> dict[str, Any]:
        """What the callback's future depends on, for a checkpoint: None, numbers, text, lists, tuples,
        dicts, arrays, tensors. An empty dict is not kept: nothing depends on it.
        """
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`; not called where that was empty."""


class LoggerCallback:
    """Receives metrics rows; override to send them somewhere."""

    def on_train_step(self, step: int, metrics: dict[str, Any]) -> None:
        """After each update; `step` counts the run's unit."""


class Watchers:
    """The callbacks and the logger of a run, and for each callback the episodes since the last update."""

    def __init__(
        self, callbacks: Callback | Iterable[Callback] | None, logger: LoggerCallback | None
    ) -> None:
        self.callbacks, self.logger = as_callbacks(callbacks), as_logger(logger)
        self._since: dict[int, list[Episode]] = {}

    def begin(self, algo: Any, total_timesteps: int) -> None:
        """Tell that training begins."""
        for callback in self.callbacks:
            with named(callback):
                callback.on_training_start(algo=algo, total_timesteps=total_timesteps)

    def end(self, algo: Any, step: int) -> None:
        """Tell that it has ended."""
        for callback in self.callbacks:
            with named(callback):
                callback.on_training_end(algo=algo, step=step)

    def tick(
        self,
        algo: Any,
        step: int,
        summary: Callable[[], Mapping[str, Any]],
        episodes: Sequence[Episode],
        updates: int,
    ) -> bool:
        """Tell of a rollout, and of its `updates` where there are some; whether training goes on."""
        if not (self.callbacks or self.logger):
            return True
        metrics, goes_on = summary(), True
        if self.logger and updates:
            with named(self.logger, "logger"):
                self.logger.on_train_step(step, dict(metrics))
        for i, callback in enumerate(self.callbacks):
            told = {"algo": algo, "step": step}
            # infos that it may write into: logs and other callbacks have their own
            new = [episode._replace(info=copied(episode.info)) for episode in episodes]
            with named(callback):
                callback.on_rollout_end(**told, metrics=dict(metrics), episodes=tuple(new))
            since = self._since.pop(i, []) + new
            if not updates:
                self._since[i] = since
                continue
            with named(callback):
                answer = callback.on_step(**told, metrics=dict(metrics), episodes=tuple(since))
                goes_on = _truth(answer) and goes_on
        return goes_on


def _truth(answer: Any) -> bool:
    """Whether training goes on; NumPy's and torch's false are not False, and no answer is none."""
    if answer is None:
        return True
    try:
        if not isinstance(answer, str):
            return bool(answer)
    except (RuntimeError, ValueError):  # of an array of several
        pass
    raise ConfigError(f"on_step returned {answer!r:.80}, expected True, or False to stop training")


@contextmanager
def named(given: Callback | LoggerCallback, role: str = "callback") -> Iterator[None]:
    """What user code raises in the block says whose it is."""
    try:
        yield
    except Exception as error:
        error.add_note(f"raised by the {role} {type(given).__name__}")
        raise


def as_callbacks(given: Callback | Iterable[Callback] | None) -> tuple[Callback, ...]:
    """One callback, several or none; `ConfigError` for what is none."""
    if given is None:
        return ()
    several = tuple(given) if isinstance(given, Iterable) else (given,)
    for callback in several:
        if isinstance(callback, type):
            raise ConfigError(
                f"callbacks={callback.__name__}: a class; make one: {callback.__name__}()"
            )
        if missing := [name for name in HOOKS if not callable(getattr(callback, name, None))]:
            raise ConfigError(
                f"callbacks: a {type(callback).__name__} lacks {', '.join(missing)}; derive it from "
                "rlox.callbacks.Callback"
            )
        _require_called("callbacks", callback, HOOKS)
        _require_kept(callback)
    for i, callback in enumerate(several):
        if any(callback is other for other in several[:i]):
            raise ConfigError(
                f"callbacks: the same {type(callback).__name__} is given twice, and would be called twice; "
                "give it once"
            )
    return several


def _require_kept(callback: Any) -> None:
    """`ConfigError` where a state would be saved and not given back, or neither."""
    kind, pair = type(callback), ("state", "restore")
    for name in pair:
        if isinstance(callback, Callback) and not callable(getattr(callback, name)):
            raise ConfigError(
                f"callbacks: {name} of a {kind.__name__} is no method, and hides {name}() of Callback; call "
                "it otherwise"
            )
    own = [
        name for name in pair if getattr(kind, name, None) not in (None, getattr(Callback, name))
    ]
    if isinstance(callback, Callback) and len(own) == 1:
        other = "restore" if own == ["state"] else "state"
        raise ConfigError(
            f"callbacks: a {kind.__name__} defines {own[0]}() without {other}(): what it remembers would be "
            "lost when a run goes on; define both"
        )
    if not isinstance(callback, Callback) and len(own) == 2:
        raise ConfigError(
            f"callbacks: a {kind.__name__} has state() and restore(), which are of a Callback alone; "
            "derive it from rlox.callbacks.Callback"
        )


def as_logger(given: LoggerCallback | None) -> LoggerCallback | None:
    """The logger; `ConfigError` for what is none."""
    if given is None:
        return None
    if not callable(getattr(given, "on_train_step", None)) or isinstance(given, type):
        raise ConfigError(
            f"logger={given!r}: expected an object made from a rlox.callbacks.LoggerCallback"
        )
    _require_called("logger", given, LOGGED)
    return given


def _require_called(key: str, given: Any, hooks: Mapping[str, tuple[str, ...]]) -> None:
    """`ConfigError` for a hook that cannot be called, and for what only reads as one; some are both kinds."""
    known = {*hooks}
    if all(callable(getattr(given, name, None)) for name in HOOKS):
        known |= {*HOOKS}
    if isinstance(given, LoggerCallback):
        known |= {*LOGGED}
    require_callable(key, given, hooks)
    require_no_other(key, given, hooks, known, (Callback, LoggerCallback))


def _require_whole(**given: Any) -> None:
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(f"{name}={value!r}: expected a whole number of at least 1")


class _OfOneRun(Callback):
    """A callback that begins anew where it is given to another algorithm: in a loop over seeds, say.

    Training of the same algorithm, and one that was loaded from a checkpoint, go on from what it remembers.
    """

    _algo: Callable[[], Any] | None = (
        None  # whose training it watched; None: of nobody, or restored
    )

    def on_training_start(self, **kwargs: Any) -> None:
        """Begin anew in the training of another algorithm."""
        algo = kwargs["algo"]
        if self._algo is not None and self._algo() is not algo:
            self._begin()
        self._algo = ref(algo)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        self._algo = None

    def _begin(self) -> None:
        """Forget what was remembered."""

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_algo": self._algo and object}  # a copy knows that it was another's


class EarlyStoppingCallback(_OfOneRun):
    """Stops when `mean_reward` has not risen by `min_delta` for `patience` updates.

    Steps before the first update, which fill a buffer, do not count. An infinite reward is no rise. The
    training of another algorithm begins a new count.
    """

    def __init__(self, patience: int = 10, min_delta: float = 0.0) -> None:
        _require_whole(patience=patience)
        least: Any = min_delta
        if not isinstance(least, Real) or math.isnan(least):
            raise ConfigError(f"min_delta={min_delta!r}: expected a number")
        self.patience = patience
        self.min_delta = min_delta
        self._begin()

    def _begin(self) -> None:
        self.best = float("-inf")
        self.waited = 0

    def on_step(self, **kwargs: Any) -> bool:
        """Compare `mean_reward` with the best so far."""
        reward = kwargs["metrics"]["mean_reward"]
        if reward != reward:  # no episode has ended yet
            return True
        if math.isfinite(reward) and reward > self.best + self.min_delta:
            self.best, self.waited = reward, 0
        else:
            self.waited += 1
        return self.waited < self.patience

    def state(self) -> dict[str, Any]:
        """The best so far, and for how long it has been that."""
        return {"best": self.best, "waited": self.waited}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        super().restore(state)
        self.best, self.waited = _finite_best(state), int(state["waited"])


def _finite_best(state: Mapping[str, Any]) -> float:
    """The best of a saved state; before the first one where an earlier version took infinity for it."""
    best = float(state["best"])
    return best if math.isfinite(best) else float("-inf")


class EvalCallback(_OfOneRun):
    """Evaluates every `eval_freq` steps on environments of its own; keeps `(step, mean return)`.

    `best_model_path` names a checkpoint folder to write whenever the mean return is a new best. NaN and
    infinities are never the best. The training of another algorithm begins a new list of `eval_results`, and
    is refused where `best_model_path` holds a checkpoint of another run (`ConfigError`).
    """

    def __init__(
        self,
        eval_freq: int = 10_000,
        n_eval_episodes: int = 50,
        best_model_path: str | Path | None = None,
    ) -> None:
        _require_whole(eval_freq=eval_freq, n_eval_episodes=n_eval_episodes)
        if best_model_path is not None:
            own_folder(best_model_path, "best_model_path")
        self.eval_freq = eval_freq
        self.n_eval_episodes = n_eval_episodes
        self.best_model_path = best_model_path
        self._begin()

    def _begin(self) -> None:
        self.best_reward = float("-inf")
        self.eval_results: list[tuple[int, float]] = []
        self._evaluated = 0

    def on_step(self, **kwargs: Any) -> bool:
        """Evaluate once for every multiple of `eval_freq` passed."""
        step, algo = kwargs["step"], kwargs["algo"]
        if step // self.eval_freq <= self._evaluated:
            return True
        self._evaluated = step // self.eval_freq
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
        return {"results": results, "best": self.best_reward, "evaluated": self._evaluated}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        super().restore(state)
        self.eval_results = [(int(step), float(mean)) for step, mean in state["results"]]
        finite = [mean for _, mean in self.eval_results if math.isfinite(mean)]
        self.best_reward = max(finite, default=_finite_best(state))
        self._evaluated = int(state["evaluated"])


class CheckpointCallback(_OfOneRun):
    """Saves `path/step-<12 digits>` every `save_freq` steps; last in the list, it has the others' states.

    Training begins with making the folder `path`: `StorageError` where it cannot be written, `ConfigError`
    where it holds checkpoints of another run.
    """

    def __init__(self, save_freq: int, path: str | Path) -> None:
        _require_whole(save_freq=save_freq)
        self.save_freq = save_freq
        self.path = path_of(path, "path")
        self._begin()

    def _begin(self) -> None:
        self._saved = 0

    def on_training_start(self, **kwargs: Any) -> None:
        """Make the folder, so that hours of training do not end at the first save."""
        super().on_training_start(**kwargs)
        make_folder(self.path)

    def on_step(self, **kwargs: Any) -> bool:
        """Save once for every multiple of `save_freq` passed."""
        step = kwargs["step"]
        if step // self.save_freq > self._saved:
            self._saved = step // self.save_freq
            make_folder(self.path)
            kwargs["algo"].save(self.path / f"step-{step:012d}")
        return True

    def state(self) -> dict[str, Any]:
        """How many saves were due."""
        return {"saved": self._saved}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from `state()`."""
        super().restore(state)
        self._saved = int(state["saved"])
