"""What algorithms on text have in common: a model, prompts, what is right, and their façades."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from rlox.configs import RunConfig
from rlox.configs.code import Code, name_of
from rlox.configs.params import is_object_name, object_name
from rlox.configs.tasks import require_task
from rlox.configs.text import OF_SERVERS, REWARDS, TINY, TextAlgorithmConfig, WritingConfig
from rlox.distributed import Group, join
from rlox.errors import ConfigError
from rlox.importing import load
from rlox.llm import (
    Completed,
    Llama,
    LlamaSize,
    Sampling,
    Task,
    TextModel,
    load_llama,
    task_of,
)
from rlox.llm.judges import FunctionJudge, Judge, Judges, RewardFunction, TaskJudge
from rlox.llm.prompts import TaskPrompts
from rlox.llm.serving import GenerationServer
from rlox.runs.checkpoint import Checkpoint
from rlox.runs.loading import Objects
from rlox.sources.text import TextSource
from rlox.training.loop import Learner
from rlox.training.parts import Parts, Tools
from rlox.training.text import TextActor, TextEvaluator, written_by

__all__ = ["SIZE", "Preference", "Text", "TextGiven", "frozen_copy", "text_of", "text_parts"]

# (pairs) -> which of each is better, 0 or 1, or -1 of neither.
Preference = Callable[[list[Any]], Sequence[int]]

SIZE = "size"  # of the model, among what a learner saves
LONGEST = 64  # tokens of a completion, where nothing says how many


@dataclass(frozen=True)
class TextGiven(Objects):
    """Objects that a façade was given, which no file holds."""

    model: nn.Module | None = None
    ref_model: nn.Module | None = None
    rewards: tuple[RewardFunction, ...] = ()
    preference: Preference | None = None
    size: LlamaSize | None = None  # of a model that a checkpoint has the weights of
    server: GenerationServer | None = None  # that writes completions in the model's place

    def __post_init__(self) -> None:
        for name in ("model", "ref_model"):
            there = getattr(self, name)
            if not isinstance(there, nn.Module | None):
                raise ConfigError(
                    f"{name} is a {type(there).__name__}, expected a torch.nn.Module whose "
                    "forward(input_ids) returns logits"
                )
        if not isinstance(self.server, GenerationServer | None):
            raise ConfigError(f"server={self.server!r}: expected a GenerationServer, or its kind")
        if self.preference is not None and not callable(self.preference):
            raise ConfigError(f"preference_fn={self.preference!r}: expected a function (pairs)")

    def names(self) -> dict[str, Any]:
        """Of functions, by the field of the algorithm's configuration."""
        names: dict[str, Any] = {}
        if self.rewards:
            names["rewards"] = tuple(object_name(function) for function in self.rewards)
        if self.preference is not None:
            names["preference"] = object_name(self.preference)
        return names

    def remade(self, saved: Checkpoint) -> TextGiven:
        """With the size of the model, so that the folder that it came from may be gone."""
        size = saved.optimizer.get(SIZE)
        return self if size is None else replace(self, size=LlamaSize(**size))

    def named(self, config: RunConfig) -> RunConfig:
        """The configuration with the names of these, which it cannot hold."""
        algo: Any = config.algo
        names = self.names()
        if self.server is not None:  # in the place of one that is configured
            names |= {f.name: f.default for f in fields(algo) if f.name in ("server", *OF_SERVERS)}
        named = replace(config, algo=replace(algo, **names))
        return named if self.model is None else replace(named, model=object_name(self.model))


@dataclass(frozen=True)
class Text:
    """What a configuration and a façade's arguments say of a run on text."""

    model: TextModel
    task: Task | None
    prompts: TaskPrompts | None
    judge: Judge | None  # None: nothing says what a completion is worth
    weights: tuple[float, ...] | None
    sampling: Sampling  # as completions to learn from are drawn
    given: TextGiven
    group: Group  # the processes that learn together

    @property
    def evaluator(self) -> TextEvaluator | None:
        """None without prompts that are held out, or without a judge."""
        if self.prompts is None or self.judge is None:
            return None
        return TextEvaluator(self.model, self.prompts, self.judge, self.weights, self.sampling)

    def written(self, prompts: list[Tensor], generator: torch.Generator | None) -> Completed:
        """Completions of the best tokens, or of those that are drawn, to look at."""
        return written_by(self.model, prompts, self.sampling, generator)


def text_of(config: RunConfig, tools: Tools) -> Text:
    """The model, and where prompts and rewards come from."""
    algo = cast(TextAlgorithmConfig, config.algo)
    given: Any = tools.policy
    if not isinstance(given, TextGiven | None):
        raise ConfigError(f"{algo.name} takes no policy of your own; give it a model")
    given = given or TextGiven()
    if given.model is None and is_object_name(config.model or ""):
        raise ConfigError(f"model={config.model}: an object, which is not saved; give it again")
    task = None if config.task is None else task_of(config.task)
    if given.model is None:
        require_task(config)
    group = join()  # before anything is put on a GPU: each process has its own
    with tools.networks(config):
        module = _module(config, given, task)
        if given.model is None or config.device != "auto":  # else where the user has put it
            module = module.to(tools.device)
    return Text(
        model=TextModel(module),
        task=task,
        prompts=None if task is None else TaskPrompts(task, config.seed),
        judge=_judge(algo, given, task),
        weights=algo.reward_weights or None,
        sampling=_sampling(algo, task),
        given=given,
        group=group,
    )


def _module(config: RunConfig, given: TextGiven, task: Task | None) -> nn.Module:
    if given.model is not None:
        return given.model
    if given.size is not None:
        return Llama(given.size)
    assert task is not None
    tokens = len(task.characters)
    if config.model in (None, TINY):
        return Llama(LlamaSize(vocab_size=tokens))
    folder = Path(str(config.model))
    if not (folder / "config.json").is_file():
        raise ConfigError(
            f"model={config.model}: expected tiny, or a folder with config.json and model.safetensors"
        )
    module = load_llama(folder)
    if module.size.vocab_size != tokens:
        raise ConfigError(
            f"model={config.model} has {module.size.vocab_size} tokens, task={task.name} {tokens}"
        )
    return module


def _judge(algo: TextAlgorithmConfig, given: TextGiven, task: Task | None) -> Judge | None:
    if given.rewards:
        named = [(object_name(function), function) for function in given.rewards]
        return FunctionJudge(named)
    if algo.rewards:
        keys = (f"algo.rewards[{i}]" for i in range(len(algo.rewards)))
        return Judges([_one_judge(*of, task) for of in zip(keys, algo.rewards, strict=True)])
    return None if task is None else TaskJudge(task)


def _one_judge(key: str, spec: Code, task: Task | None) -> Judge:
    """A word for a task's, or a function."""
    if spec not in REWARDS:
        return FunctionJudge([(name_of(spec), load(spec, key))])
    if task is None:
        raise ConfigError(
            f"{key}={spec} is by the right answers of a task, and there is none: task=copy"
        )
    return TaskJudge(task, str(spec))


def _sampling(algo: TextAlgorithmConfig, task: Task | None) -> Sampling:
    end = () if task is None else (task.characters.END,)
    pad = 0 if task is None else task.characters.PAD
    longest = LONGEST if task is None else task.longest + 1
    drawn = {}
    if isinstance(algo, WritingConfig):
        drawn = {name: getattr(algo, name) for name in ("temperature", "top_k", "top_p", "min_p")}
    return Sampling(
        max_new_tokens=algo.max_new_tokens or longest,
        eos=algo.eos_token_id or end,
        pad=pad if algo.pad_token_id is None else algo.pad_token_id,
        **drawn,
    )


def frozen_copy(module: nn.Module) -> nn.Module:
    """A reference: the module as it is now, in evaluation mode, of which nothing learns."""
    return copy.deepcopy(module).requires_grad_(False).eval()


def text_parts(text: Text, source: TextSource[Any], learner: Learner[Any]) -> Parts:
    """A run of these."""
    actor = TextActor(text.model.module, text.model.device)
    return Parts(source, learner, actor, text.evaluator, agreed=text.group.agreed)
