"""The façades of algorithms on text, which take a model, a reference and functions, not an environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from numbers import Number
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from rlox.algorithms.text.components import TextContext
from rlox.algorithms.text.objects import (
    REFERENCE_OBJECT,
    TEXT_OBJECTS,
    PreferenceFunction,
    TextRuntimeObjects,
)
from rlox.callbacks import Callback, CallbackRunner, LoggerCallback
from rlox.configs import ALGO_CONFIGS, EvalConfig
from rlox.configs.arguments import arguments_of
from rlox.configs.check import check_integer
from rlox.configs.env import TEXT
from rlox.configs.params import is_object_name
from rlox.configs.run import search_note, with_task
from rlox.configs.text import TINY, GroupConfig, TextAlgorithmConfig
from rlox.errors import ConfigError, RewardError
from rlox.llm.advantages import weighted_rewards
from rlox.llm.codecs import Tokenizer
from rlox.llm.prompts import FixedPrompts, Prompt, parse_token_rows
from rlox.llm.reward_arguments import RewardFunction
from rlox.llm.serving import GenerationServer
from rlox.llm.transformers_files import save_model
from rlox.runs.algorithm import Algorithm
from rlox.runs.interrupts import finish_update_on_interrupt
from rlox.runs.progress import make_reporter_if, progress_hook
from rlox.sources.text import GenerationSource, TextSource
from rlox.training.evaluate import Evaluation
from rlox.training.setup import config_from_arguments, torch_threads, tuned_arguments
from rlox.training.text_evaluation import TextEvaluator
from rlox.types import Clock

__all__ = ["GenerationAlgorithm", "ModelArgument", "RewardArgument", "TextAlgorithm", "as_reward_functions"]

# A model, `tiny`, or the folder of a model.
ModelArgument = nn.Module | str | PathLike[str] | None
# One reward function or several.
RewardArgument = RewardFunction | Sequence[RewardFunction] | None

# Arguments that are paths and belong to the run's configuration, not to the algorithm's.
FILE_ARGUMENTS = ("dataset", "eval_dataset", "tokenizer")

# Methods that only report numbers: training never calls them.
UNCALLED_METHODS = ("compute_loss", "loss", "reference_log_probs")

# Arguments of `Algorithm.from_checkpoint` that apply to runs in environments only.
ENV_ARGUMENTS = ("env", "env_id", "env_kwargs", "wrappers", "reward_wrappers", "policy")


class TextAlgorithm(Algorithm):
    """Base façade of algorithms on text; the run's length counts prompts."""

    object_arguments = TEXT_OBJECTS | REFERENCE_OBJECT

    def _init_from_arguments(self, objects: dict[str, Any], fields: dict[str, Any]) -> None:
        """Initialise from the constructor's arguments: objects, and fields of the configuration."""
        _reject_uncalled_overrides(type(self))
        takes_server = "server" in arguments_of(ALGO_CONFIGS[self.name])
        # the name of a kind of server is a value of the configuration
        is_object = takes_server and not isinstance(fields.get("server"), str)
        server = fields.pop("server", None) if is_object else None
        model, functions = objects["model"], as_reward_functions(objects["reward_fn"])
        is_folder = isinstance(model, str | PathLike)
        text_objects = TextRuntimeObjects(
            None if is_folder else model,
            objects.get("ref_model"),
            functions,
            objects.get("preference_fn"),
            server=server,
        )
        for name in text_objects.function_names():
            if name in fields:
                raise ConfigError(f"{name}={fields[name]} and a function are both given; give one of them")
        fields |= text_objects.function_names()
        config = config_from_arguments(self.name, TEXT, fields, self.object_arguments)
        model_name = fspath(model) if is_folder else config.model
        files = _file_paths(objects)
        config = with_task(replace(config, model=model_name, task=objects["task"], **files))
        callback_runner = CallbackRunner(objects["callbacks"], objects["logger"])
        self._build(config, callback_runner, policy=text_objects)

    @classmethod
    def tuned(  # type: ignore[override]  # a model in an environment's place
        cls,
        model: ModelArgument = None,
        preset: str | None = None,
        *,
        task: str | None = None,
        **options: Any,
    ) -> Self:
        """Make a run with tuned hyperparameters for text, as `rlox train` does; `options` override them."""
        arguments, total_steps = tuned_arguments(cls.name, preset or TEXT, None, options)
        algorithm = cls(model, task=task, **arguments)
        algorithm.set_total_steps(total_steps)
        return algorithm

    @classmethod
    def from_checkpoint(  # type: ignore[override]  # a model in an environment's place
        cls,
        path: str | Path,
        model: ModelArgument = None,
        ref_model: nn.Module | None = None,
        reward_fn: RewardArgument = None,
        preference_fn: PreferenceFunction | None = None,
        logger: LoggerCallback | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        trust: bool = False,
        device: str | None = None,
        server: GenerationServer | None = None,
        **overrides: Any,
    ) -> Self:
        """Restore from a run folder or a checkpoint folder, like `Algorithm.from_checkpoint`.

        Objects have to be given again: a `model`, into which the weights are loaded, the user's own
        `ref_model`, functions, a `server`. `dataset`, `eval_dataset`, `tokenizer` and a path as `model` give
        the present location of these files.
        """
        for name in ENV_ARGUMENTS:
            if argument := overrides.get(name):
                key = name.removesuffix("_id")
                raise ConfigError(
                    f"{key}={argument}: {cls.name} learns from text, without an environment; leave it out"
                )
        objects_by_name = {"ref_model": ref_model, "preference_fn": preference_fn, "server": server}
        accepted = {*cls.object_arguments, *arguments_of(ALGO_CONFIGS[cls.name])}
        for name, argument in objects_by_name.items():
            if argument is not None and name not in accepted:
                raise ConfigError(f"{name} is given, but {cls.name} uses none; leave it out")
        functions = as_reward_functions(reward_fn)
        files = _file_paths(overrides)
        overrides = {name: value for name, value in overrides.items() if name not in FILE_ARGUMENTS}
        if isinstance(model, str | PathLike):  # the present path of the model's folder
            files, model = {**files, "model": fspath(model)}, None
        text_objects = TextRuntimeObjects(
            model, ref_model, functions, preference_fn, server=server, files=files
        )
        arguments: dict[str, Any] = {
            "policy": text_objects,
            "logger": logger,
            "callbacks": callbacks,
            "trust": trust,
        }
        return super().from_checkpoint(path, device=device, **arguments, **overrides)

    def generate(
        self, prompts: Tensor | Sequence[Tensor] | Sequence[str], deterministic: bool = True
    ) -> list[Any]:
        """Complete each prompt, greedily or by sampling; completions stop at their end token.

        Prompts of tokens get tokens. Prompts of text get text, which needs a task or a tokenizer.
        """
        self._n_sampled_predictions += not deterministic
        generator = self._sampling_generator(deterministic, "predict", self._n_sampled_predictions)
        codec = self._text.codec
        are_texts = not isinstance(prompts, Tensor) and any(isinstance(p, str) for p in prompts)
        if not are_texts or codec is None:
            return self._text.generate(parse_token_rows(cast(Any, prompts)), generator).token_rows()
        rows = [torch.from_numpy(codec.encode(cast(str, prompt))) for prompt in prompts]
        return [codec.decode(row.numpy()) for row in self._text.generate(rows, generator).token_rows()]

    def predict(self, obs: Any, deterministic: bool = True, action_masks: Any = None) -> Any:
        """Call `generate`, under the name that other algorithms use."""
        if action_masks is not None:
            raise ConfigError(f"action_masks: {self.name} writes text; leave them out")
        return self.generate(obs, deterministic)

    def evaluate(self, episodes: Any = 50, *args: Any, **options: Any) -> Any:
        """Return the mean reward over one greedy completion of each of these prompts.

        Given a number instead of prompts, evaluate that many held-out prompts of the task and return an
        `Evaluation`, like `Algorithm.evaluate`.
        """
        text = self._text
        if isinstance(episodes, Number) and self.components.evaluate is not None:
            return super().evaluate(episodes, *args, **options)  # type: ignore[arg-type]
        dataset = self.config.dataset
        if isinstance(episodes, Number) and dataset is not None and text.prompts is None:
            raise ConfigError(
                f"dataset={dataset}: there is no such file any more{search_note(dataset)}, and the "
                "evaluation needs its rows; give its present path: dataset=PATH (in Python: "
                "from_checkpoint(path, dataset=PATH))"
            )
        if text.reward_function is None:
            raise ConfigError("completions have no reward: give a reward_fn, or a task")
        if isinstance(episodes, Number):
            raise ConfigError(f"{self.name} has no held-out prompts: give evaluate() prompts, or a task")
        if args or options:
            raise ConfigError(
                "evaluate(prompts) takes no other arguments: a seed applies to a number of held-out prompts"
            )
        prompts = [Prompt(row) for row in parse_token_rows(episodes)]
        with torch_threads(self.config.torch_threads):
            generated_tokens = text.generate([prompt.ids for prompt in prompts], None)
            rewards = weighted_rewards(text.reward_function(prompts, generated_tokens), text.weights)
        if np.isnan(rewards).all():
            raise RewardError("no completion got a reward, expected a number for at least one")
        return float(np.nanmean(rewards))

    def best_of(self, n: int, episodes: int = 50, seed: int = 100_000) -> Evaluation:
        """Evaluate held-out prompts, each by the highest-reward one of `n` sampled completions."""
        evaluator = self.components.evaluate
        if not isinstance(evaluator, TextEvaluator):
            raise ConfigError("best_of needs held-out prompts and rewards: give a task")
        n = check_integer(EvalConfig, "episodes", n, "n")
        episodes = check_integer(EvalConfig, "episodes", episodes, "episodes")
        seed = check_integer(EvalConfig, "seed", seed, "seed")
        generator = self.streams.generator("evaluate", seed, str(self.components.actor.device))
        with torch_threads(self.config.torch_threads):
            return evaluator.best_of(n, episodes, seed, generator)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the model as a folder that transformers loads, with its tokenizer if there is one.

        For a model with adapters, write the adapters, as peft loads them.
        """
        text, base = self._text, self.config.model
        base_folder = None if base in (None, TINY) or is_object_name(str(base)) else base
        tokenizer = text.codec if isinstance(text.codec, Tokenizer) else None
        bos_id = None if tokenizer is None else tokenizer.bos_id
        sampling = text.sampling
        save_model(text.model.module, Path(folder), sampling.eos, sampling.pad, bos_id, base_folder)
        if tokenizer is not None:
            tokenizer.save(Path(folder))

    def summary(self) -> dict[str, float | int]:
        """Return the summary as for other algorithms, and the loss and KL under short names too."""
        row = super().summary() | {"samples": self.clock.samples}
        return row | {alias: row[name] for name, alias in SHORT_METRIC_NAMES.items() if name in row}

    @property
    def _text(self) -> TextContext:
        learner: Any = self.learner
        text: TextContext = learner.text
        return text

    def _train_on(
        self,
        make_batch: Callable[[Clock], Any],
        n_prompts: int,
        counts_toward_total: bool = True,
        progress: bool = False,
    ) -> dict[str, float]:
        """Learn from `n_prompts` prompts, in batches from `make_batch`.

        With `counts_toward_total`, schedules extend over the run's total; else they end with this call.
        """
        source: TextSource[Any] = self.source
        # `fit` refuses a call from within training, which then continues with its previous batches
        previous, source.next_override = source.next_override, make_batch
        end = self.clock.samples + n_prompts
        total = max(end, self.clock.horizon) if counts_toward_total else end

        def stop_at_end(clock: Clock, *_: object) -> None:
            if clock.samples >= end:
                self.stop("that was all")

        try:
            self._resume_status.warn(self.clock.now, self.env_id, is_training=True)
            with make_reporter_if(progress) as report, finish_update_on_interrupt(self.stop):
                progress_hooks = [progress_hook(report, self.clock.now, self.recent)] if report else []
                self.fit(total, hooks=(stop_at_end, *progress_hooks))
        finally:
            source.next_override = previous
        return {name: float(value) for name, value in self.summary().items()}


# Of a run with both losses, `loss` is `loss/total`, which includes the penalty.
SHORT_METRIC_NAMES = {"loss/policy": "loss", "loss/total": "loss", "policy/kl": "kl"}


class GenerationAlgorithm(TextAlgorithm):
    """Base façade of algorithms that learn from completions of their own model."""

    def train_step(self, prompts: Tensor | Sequence[Tensor]) -> dict[str, float]:
        """Learn from one batch of prompts `[B, P]`, or rows of different lengths, and return its metrics."""
        rows = parse_token_rows(prompts)
        return self._train_epochs(rows, len(rows), 1, counts_toward_total=True)

    def train(  # type: ignore[override]  # prompts in place of a number of them
        self, prompts: Tensor | Sequence[Tensor] | int, n_epochs: int = 1, progress: bool = False
    ) -> dict[str, float]:
        """Train for `n_epochs` epochs over these prompts, in batches of `batch_size`.

        Given a number instead of prompts, train until the run has learned from that many prompts of its task.
        """
        if isinstance(prompts, Number):
            if n_epochs != 1:
                raise ConfigError(
                    f"n_epochs={n_epochs} applies to given prompts, and {prompts} is a number of the task's "
                    "prompts; leave n_epochs out"
                )
            return super().train(prompts, progress)  # type: ignore[arg-type]
        epochs = check_integer(GroupConfig, "n_epochs", n_epochs, "n_epochs")
        config = cast(TextAlgorithmConfig, self.config.algo)
        rows = parse_token_rows(cast(Any, prompts))
        return self._train_epochs(rows, config.batch_size, epochs, False, progress)

    def _train_epochs(
        self,
        rows: list[Tensor],
        batch_size: int,
        epochs: int,
        counts_toward_total: bool,
        progress: bool = False,
    ) -> dict[str, float]:
        source: GenerationSource = self.source
        for n_prompts in {min(batch_size, len(rows)), len(rows) % batch_size or batch_size}:
            source.local_rows(n_prompts)  # check the row counts before learning
        prompts = FixedPrompts(rows, self.clock.samples)
        return self._train_on(
            lambda clock: source.batch_of(prompts.training_prompts(clock.samples, batch_size), clock),
            epochs * len(rows),
            counts_toward_total,
            progress,
        )


def _reject_uncalled_overrides(cls: type[TextAlgorithm]) -> None:
    """Raise `ConfigError` if a subclass overrides a method that training never calls."""
    if not all(_is_builtin_class(_defining_class(cls, name)) for name in ("make", "train_step")):
        return  # an overridden `make` or `train_step` may call it
    for name in UNCALLED_METHODS:
        owner = _defining_class(cls, name)
        if not _is_builtin_class(owner):
            raise ConfigError(
                f"{owner.__name__}.{name}: train and train_step of {cls.name} never call it, so it would "
                "have no effect; write a loop of your own (docs/language_models.md has one), "
                "override train_step too, or give the method another name"
            )


def _defining_class(cls: type[Any], name: str) -> type[Any]:
    """Return the class that defines a method; `TextAlgorithm` if none does."""
    return next((base for base in cls.__mro__ if name in vars(base)), TextAlgorithm)


def _is_builtin_class(cls: type[Any]) -> bool:
    return cls.__module__.startswith("rlox.")


def _file_paths(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the paths among `options`; raise `ConfigError` if a value is not a path."""
    paths = {name: options[name] for name in FILE_ARGUMENTS if options.get(name) is not None}
    for name, value in paths.items():
        if not isinstance(value, str | PathLike):
            raise ConfigError(f"{name}={value!r:.60}: expected a path")
    return {name: fspath(value) for name, value in paths.items()}


def as_reward_functions(reward_fn: RewardArgument) -> tuple[RewardFunction, ...]:
    """Return the reward functions as a tuple; raise `ConfigError` if one is not callable."""
    if reward_fn is None:
        return ()
    functions = (
        tuple(reward_fn)
        if isinstance(reward_fn, Sequence) and not isinstance(reward_fn, str)
        else (reward_fn,)
    )
    for function in functions:
        if not callable(function):
            raise ConfigError(f"reward_fn={function!r}: expected a function (completions, prompts)")
    return functions
