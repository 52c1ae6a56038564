"""The façades of algorithms on text: a model, a reference and functions in an environment's place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Number
from os import PathLike, fspath
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from rlox.algorithms.text import Preference, Text, TextGiven
from rlox.callbacks import Callback, LoggerCallback
from rlox.configs import EvalConfig
from rlox.configs.check import whole_number
from rlox.configs.params import is_object_name
from rlox.configs.tasks import looked_for_in, with_task
from rlox.configs.text import TEXT, TINY, GroupConfig, TextAlgorithmConfig
from rlox.errors import ConfigError, RewardError
from rlox.llm.codecs import Tokenizer
from rlox.llm.pretrained import save_model
from rlox.llm.prompts import GivenPrompts, Prompt, rows_of
from rlox.llm.reward_arguments import RewardFunction
from rlox.llm.rewards import weighted_rewards
from rlox.llm.serving import GenerationServer
from rlox.runs.algorithm import Algorithm
from rlox.runs.interrupts import whole_updates
from rlox.runs.progress import reporting, shown
from rlox.sources.text import TextSource, WritingSource
from rlox.training.evaluate import Evaluation
from rlox.training.setup import config_from_arguments, torch_threads, tuned_arguments
from rlox.training.text import TextEvaluator
from rlox.types import Clock

__all__ = ["Model", "Rewarding", "TextAlgorithm", "WritingAlgorithm", "functions_of"]

# A model, or where one is: tiny, a folder.
Model = nn.Module | str | PathLike[str] | None
# One reward function, or several.
Rewarding = RewardFunction | Sequence[RewardFunction] | None

# Arguments that are of the configuration besides the algorithm's: paths.
FILES = ("dataset", "eval_dataset", "tokenizer")

# Methods to look at numbers with, which learning does not go through.
ASIDE = ("compute_loss", "loss", "reference_log_probs")

# What from_checkpoint has for runs in environments, and runs on text have not.
NOT_TEXT = ("env", "env_id", "env_kwargs", "wrappers", "reward_wrappers", "policy")


class TextAlgorithm(Algorithm):
    """The façade of algorithms on text, which count prompts."""

    objects: ClassVar[tuple[str, ...]] = ("ref_model",)  # that it can be given besides others'

    def _begin(
        self,
        model: Model,
        task: str | None,
        seed: int,
        options: dict[str, Any],
        objects: tuple[Any, ...],
        logger: LoggerCallback | None,
        callbacks: Callback | Sequence[Callback] | None,
        server: GenerationServer | str | None = None,
    ) -> None:
        """As `Algorithm.__init__`, by a façade's arguments; `objects`: reference, rewards, preference."""
        _require_called(type(self))
        ref_model, reward_fn, *preference = objects
        if isinstance(server, str):  # as the command line has it
            options, server = {**options, "server": server}, None
        folder = isinstance(model, str | PathLike)
        module: Any = None if folder else model
        preferring = preference[0] if preference else None
        functions = functions_of(reward_fn)
        given = TextGiven(module, ref_model, functions, preferring, server=server)
        for name in given.names():
            if name in options:
                raise ConfigError(
                    f"{name}={options[name]} and a function: one argument for both; give one of them"
                )
        files = _paths(options)
        options = {name: value for name, value in options.items() if name not in FILES}
        config = config_from_arguments(self.name, TEXT, 1, seed, options | given.names())
        named = fspath(cast(Any, model)) if folder else config.model
        config = with_task(replace(config, model=named, task=task, **files))
        super().__init__(config, None, given, logger, callbacks)

    @classmethod
    def tuned(  # type: ignore[override]  # a model in an environment's place
        cls,
        model: Model = None,
        preset: str | None = None,
        *,
        task: str | None = None,
        **options: Any,
    ) -> Self:
        """One with the tuned hyperparameters of text, as `rlox train` applies them; `options` win."""
        given, total = tuned_arguments(cls.name, preset or TEXT, None, options)
        facade: Any = cls
        algorithm: Self = facade(model, task=task, **given)
        algorithm.aim(total)
        return algorithm

    @classmethod
    def from_checkpoint(  # type: ignore[override]  # a model in an environment's place
        cls,
        path: str | Path,
        model: Model = None,
        ref_model: nn.Module | None = None,
        reward_fn: Rewarding = None,
        preference_fn: Preference | None = None,
        logger: LoggerCallback | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        trust: bool = False,
        device: str | None = None,
        server: GenerationServer | None = None,
        **others: Any,
    ) -> Self:
        """Restore from a run folder or a checkpoint folder, as `Algorithm.from_checkpoint`.

        What was an object is given again: `model`, into which the weights are loaded, a `ref_model` of the
        user's own, functions, a `server`. `dataset`, `eval_dataset`, `tokenizer` and a path as `model` are
        where these are now.
        """
        for name in NOT_TEXT:
            if there := others.get(name):
                key = name.removesuffix("_id")
                raise ConfigError(f"{key}={there}: {cls.name} learns text; leave it out")
        given = {"ref_model": ref_model, "preference_fn": preference_fn, "server": server}
        for name, there in given.items():
            if there is not None and name not in cls.objects:
                raise ConfigError(f"{name} is given, and {cls.name} has none; leave it out")
        functions = functions_of(reward_fn)
        files = _paths(others)
        others = {name: value for name, value in others.items() if name not in FILES}
        if isinstance(model, str | PathLike):  # where its folder is now
            files, model = {**files, "model": fspath(model)}, None
        objects = TextGiven(model, ref_model, functions, preference_fn, server=server, files=files)
        more: dict[str, Any] = {
            "policy": objects,
            "logger": logger,
            "callbacks": callbacks,
            "trust": trust,
        }
        return super().from_checkpoint(path, device=device, **more, **others)

    def generate(
        self, prompts: Tensor | Sequence[Tensor] | Sequence[str], deterministic: bool = True
    ) -> list[Any]:
        """The completion of each prompt, of the best tokens or of drawn ones, up to its end.

        Tokens of tokens; of texts texts, where there is a task or a tokenizer.
        """
        self._predictions += not deterministic
        generator = self._sampling(deterministic, "predict", self._predictions)
        codec = self._text.codec
        texts = not isinstance(prompts, Tensor) and any(isinstance(p, str) for p in prompts)
        if not texts or codec is None:
            return self._text.written(rows_of(cast(Any, prompts)), generator).rows()
        rows = [torch.from_numpy(codec.encode(cast(str, prompt))) for prompt in prompts]
        return [codec.decode(row.numpy()) for row in self._text.written(rows, generator).rows()]

    def predict(self, obs: Any, deterministic: bool = True, action_masks: Any = None) -> Any:
        """`generate`, by the name that other algorithms have for it."""
        if action_masks is not None:
            raise ConfigError(f"action_masks: {self.name} writes text; leave them out")
        return self.generate(obs, deterministic)

    def evaluate(self, episodes: Any = 50, *given: Any, **options: Any) -> Any:
        """Mean reward of a completion of each of these prompts, a number.

        Of so many prompts in place of them an `Evaluation`, as `Algorithm.evaluate`: prompts of the task
        that nothing is learned from.
        """
        text = self._text
        if isinstance(episodes, Number) and self.parts.evaluate is not None:
            return super().evaluate(episodes, *given, **options)  # type: ignore[arg-type]
        named = self.config.dataset
        if isinstance(episodes, Number) and named is not None and text.prompts is None:
            raise ConfigError(
                f"dataset={named}: there is no such file any more{looked_for_in(named)}, and its rows are "
                "evaluated by; dataset=PATH says where it is, in Python from_checkpoint(path, dataset=PATH)"
            )
        if text.judge is None:
            raise ConfigError(
                "nothing says what a completion is worth: give a reward_fn, or a task"
            )
        if isinstance(episodes, Number):
            raise ConfigError(
                f"{self.name} has no prompts that are held out: give evaluate() prompts, or a task"
            )
        if given or options:
            raise ConfigError(
                "evaluate(prompts) takes nothing else: a seed is of a number of held-out prompts"
            )
        prompts = [Prompt(row) for row in rows_of(episodes)]
        with torch_threads(self.config.torch_threads):
            written = text.written([prompt.ids for prompt in prompts], None)
            worth = weighted_rewards(text.judge(prompts, written), text.weights)
        if np.isnan(worth).all():
            raise RewardError("no completion got a reward, expected a number for one at least")
        return float(np.nanmean(worth))

    def best_of(self, n: int, episodes: int = 50, seed: int = 100_000) -> Evaluation:
        """As `evaluate` of so many prompts, of the best by reward of `n` drawn completions of each."""
        evaluator = self.parts.evaluate
        if not isinstance(evaluator, TextEvaluator):
            raise ConfigError("best_of needs prompts that are held out and rewards: give a task")
        n = whole_number(EvalConfig, "episodes", n, "n")
        episodes = whole_number(EvalConfig, "episodes", episodes, "episodes")
        seed = whole_number(EvalConfig, "seed", seed, "seed")
        generator = self.streams.generator("evaluate", seed, str(self.parts.actor.device))
        with torch_threads(self.config.torch_threads):
            return evaluator.best_of(n, episodes, seed, generator)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the model as a folder that transformers loads, with its tokenizer if it has one.

        Of a model with adapters these, as peft loads them.
        """
        text, base = self._text, self.config.model
        whose = None if base in (None, TINY) or is_object_name(str(base)) else base
        tokenizer = text.codec if isinstance(text.codec, Tokenizer) else None
        begin = None if tokenizer is None else tokenizer.begin
        how = text.sampling
        save_model(text.model.module, Path(folder), how.eos, how.pad, begin, whose)
        if tokenizer is not None:
            tokenizer.save(Path(folder))

    def summary(self) -> dict[str, float | int]:
        """As of others, with the seeds' names of the loss and of KL beside those of the log."""
        row = super().summary() | {"samples": self.clock.samples}
        return row | {short: row[name] for name, short in SHORT.items() if name in row}

    @property
    def _text(self) -> Text:
        learner: Any = self.learner
        text: Text = learner.text
        return text

    def _hand(
        self,
        batch: Callable[[Clock], Any],
        prompts: int,
        step: bool = True,
        progress: bool = False,
    ) -> dict[str, float]:
        """Learn from what is handed over, so many prompts; schedules go on over the total after a `step`."""
        source: TextSource[Any] = self.source
        # a call from within training is refused, which goes on with what it was handed
        before, source.handed = source.handed, batch
        end = self.clock.samples + prompts
        total = max(end, self.clock.horizon) if step else end

        def watch(clock: Clock, *_: object) -> None:
            if clock.samples >= end:
                self.stop("that was all")

        try:
            self._exact.tell(self.clock.now, self.env_id, trains=True)
            with reporting(progress) as report, whole_updates(self.stop):
                told = [shown(report, self.clock.now, self.recent)] if report else []
                self.fit(total, hooks=(watch, *told))
        finally:
            source.handed = before
        return {name: float(value) for name, value in self.summary().items()}


# The loss with its penalty, where there is one.
SHORT = {"loss/policy": "loss", "loss/total": "loss", "policy/kl": "kl"}


class WritingAlgorithm(TextAlgorithm):
    """Of those that learn from completions of the model's own."""

    objects: ClassVar[tuple[str, ...]] = ("ref_model", "server")

    def train_step(self, prompts: Tensor | Sequence[Tensor]) -> dict[str, float]:
        """One batch of these prompts `[B, P]`, or of different lengths; its metrics."""
        rows = rows_of(prompts)
        return self._through(rows, len(rows), 1, step=True)

    def train(  # type: ignore[override]  # prompts in place of a number of them
        self, prompts: Tensor | Sequence[Tensor] | int, n_epochs: int = 1, progress: bool = False
    ) -> dict[str, float]:
        """Go through all prompts so many times, a batch of `batch_size` of them after the other.

        A number in their place: until the run has learned from so many prompts of its task in all.
        """
        if isinstance(prompts, Number):
            if n_epochs != 1:
                raise ConfigError(
                    f"n_epochs={n_epochs} is of prompts that are given, and {prompts} says how many of the "
                    "task; leave it out"
                )
            return super().train(prompts, progress)  # type: ignore[arg-type]
        epochs = whole_number(GroupConfig, "n_epochs", n_epochs, "n_epochs")
        config = cast(TextAlgorithmConfig, self.config.algo)
        rows = rows_of(cast(Any, prompts))
        return self._through(rows, config.batch_size, epochs, False, progress)

    def _through(
        self,
        rows: list[Tensor],
        batch_size: int,
        epochs: int,
        step: bool,
        progress: bool = False,
    ) -> dict[str, float]:
        source: WritingSource = self.source
        for count in {min(batch_size, len(rows)), len(rows) % batch_size or batch_size}:
            source.own(count)  # before anything is learned
        given = GivenPrompts(rows, self.clock.samples)
        return self._hand(
            lambda clock: source.batch_of(given.learned(clock.samples, batch_size), clock),
            epochs * len(rows),
            step,
            progress,
        )


def _require_called(cls: type[TextAlgorithm]) -> None:
    """`ConfigError` for a method of somebody's own in the place of one that no training calls."""
    if not all(_is_ours(_owner(cls, name)) for name in ("make", "train_step")):
        return  # an algorithm, or a step, of their own may call it
    for name in ASIDE:
        owner = _owner(cls, name)
        if not _is_ours(owner):
            raise ConfigError(
                f"{owner.__name__}.{name}: train and train_step of {cls.name} never call it, so that it "
                "would change nothing; write a loop of your own (docs/language_models.md has one), "
                "override train_step too, or give the method another name"
            )


def _owner(cls: type[Any], name: str) -> type[Any]:
    """The class that a method is of; `TextAlgorithm` where there is none."""
    return next((of for of in cls.__mro__ if name in vars(of)), TextAlgorithm)


def _is_ours(cls: type[Any]) -> bool:
    return cls.__module__.startswith("rlox.")


def _paths(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the files that a run is about."""
    named = {name: options[name] for name in FILES if options.get(name) is not None}
    for name, value in named.items():
        if not isinstance(value, str | PathLike):
            raise ConfigError(f"{name}={value!r:.60}: expected a path")
    return {name: fspath(value) for name, value in named.items()}


def functions_of(given: Rewarding) -> tuple[RewardFunction, ...]:
    """One reward function, several or none."""
    if given is None:
        return ()
    several = (
        tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else (given,)
    )
    for function in several:
        if not callable(function):
            raise ConfigError(f"reward_fn={function!r}: expected a function (completions, prompts)")
    return several
