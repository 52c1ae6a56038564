"""What algorithms on text have in common: a model, prompts, what is right, and their façades."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from rlox.algorithms.text_inputs import codec_of, is_new, module_of, prompts_of
from rlox.configs import RunConfig
from rlox.configs.code import Code, arguments_of, name_of
from rlox.configs.params import is_object_name, object_name
from rlox.configs.secrets import revealed
from rlox.configs.tasks import require_task
from rlox.configs.text import OF_SERVERS, REWARDS, TextAlgorithmConfig, WritingConfig
from rlox.distributed import Group, join
from rlox.errors import ConfigError
from rlox.importing import load
from rlox.llm import (
    Completed,
    LlamaSize,
    Sampling,
    Task,
    TextModel,
    task_of,
)
from rlox.llm.adapters import add_adapters, has_adapters
from rlox.llm.codecs import Codec, Tokenizer
from rlox.llm.judges import AnswerJudge, FunctionJudge, Judge, Judges
from rlox.llm.pretrained import ends_of, room_of
from rlox.llm.prompts import Prompts
from rlox.llm.reward_arguments import RewardFunction, require_pairs, with_arguments
from rlox.llm.serving import GenerationServer
from rlox.runs.checkpoint import Checkpoint
from rlox.runs.loading import Objects
from rlox.sources.text import TextSource
from rlox.training.loop import Learner
from rlox.training.parts import Parts, Tools
from rlox.training.text import Score, ScoreEvaluator, TextActor, TextEvaluator, written_by

__all__ = [
    "ENDS",
    "SIZE",
    "Preference",
    "Text",
    "TextGiven",
    "frozen_copy",
    "text_of",
    "text_parts",
]

# (pairs) -> which of each is better, 0 or 1, or -1 of neither.
Preference = Callable[[list[Any]], Sequence[int]]

SIZE, ENDS = "size", "ends"  # of the model, among what a learner saves
LONGEST = 64  # tokens of a completion, where nothing says how many


@dataclass(frozen=True)
class TextGiven(Objects):
    """Objects that a façade was given, which no file holds."""

    model: nn.Module | None = None
    ref_model: nn.Module | None = None
    rewards: tuple[RewardFunction, ...] = ()
    preference: Preference | None = None
    size: LlamaSize | None = None  # of a model that a checkpoint has the weights of
    ends: tuple[int, ...] = ()  # of texts, by the files of that model
    server: GenerationServer | None = None  # that writes completions in the model's place
    files: Mapping[str, str] = field(
        default_factory=dict
    )  # where files are that a checkpoint names

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
        if self.preference is not None:
            require_pairs(self.preference, f"preference_fn={object_name(self.preference)}")

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
        size, ends = saved.optimizer.get(SIZE), saved.optimizer.get(ENDS, ())
        return self if size is None else replace(self, size=LlamaSize(**size), ends=tuple(ends))

    def named(self, config: RunConfig) -> RunConfig:
        """The configuration with the names of these, which it cannot hold."""
        algo: Any = config.algo
        names = self.names()
        if self.server is not None:  # in the place of one that is configured
            names |= {f.name: f.default for f in fields(algo) if f.name in ("server", *OF_SERVERS)}
        named = replace(config, algo=replace(algo, **names), **cast(Any, self.files))
        return named if self.model is None else replace(named, model=object_name(self.model))


@dataclass(frozen=True)
class Text:
    """What a configuration and a façade's arguments say of a run on text."""

    model: TextModel
    codec: Codec | None  # None: prompts are handed over as tokens
    prompts: Prompts | None
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
    if tools.replay and (config.dataset is not None or is_new(config, given)):
        require_task(config)
    codec = codec_of(config, task, given.model, given.size is not None)
    group = join()  # before anything is put on a GPU: each process has its own
    with tools.networks(config):
        module = module_of(config, given, codec)
        if algo.lora_r is not None:
            add_adapters(module, algo.lora_r, algo.lora_alpha, algo.lora_target_modules)
        if given.model is None or config.device != "auto":  # else where the user has put it
            module = module.to(tools.device)
    ends = ends_of(module)
    if isinstance(codec, Tokenizer):
        codec.add_ends((*ends, *algo.eos_token_id))
    sampling = _sampling(algo, task, codec, ends)
    judged = given.rewards or algo.rewards or task is not None
    new = sampling.max_new_tokens if judged or isinstance(algo, WritingConfig) else 0
    prompts = prompts_of(config, task, codec, tools.replay, room_of(module), new, sampling.eos)
    columns = () if prompts is None else prompts.columns
    gone = prompts is None and config.dataset is not None  # enough to write what is asked for
    judge = _judge(algo, given, codec, None if gone else columns, task is not None)
    return Text(
        model=TextModel(module, algo.bf16, algo.gradient_checkpointing, algo.packing),
        codec=codec,
        prompts=prompts,
        judge=judge,
        weights=algo.reward_weights or None,
        sampling=sampling,
        given=given,
        group=group,
    )


def _judge(
    algo: TextAlgorithmConfig,
    given: TextGiven,
    codec: Codec | None,
    columns: Collection[str] | None,
    checked: bool,
) -> Judge | None:
    """By functions, or answers; those of a task are `checked` unless something else is said."""
    if given.rewards:
        named = [(object_name(function), function) for function in given.rewards]
        return FunctionJudge(named, codec, columns)
    if algo.rewards:
        keys = (f"algo.rewards[{i}]" for i in range(len(algo.rewards)))
        specs = zip(keys, algo.rewards, strict=True)
        return Judges([_one_judge(key, spec, codec, columns) for key, spec in specs])
    return AnswerJudge(codec) if checked and codec is not None else None


def _one_judge(key: str, spec: Code, codec: Codec | None, columns: Collection[str] | None) -> Judge:
    """A word for a right answer's, or a function."""
    if spec not in REWARDS:
        name = name_of(spec)
        function = with_arguments(name, load(spec, key), revealed(arguments_of(spec)), key)
        return FunctionJudge([(name, function)], codec, columns)
    if codec is None:
        raise ConfigError(
            f"{key}={spec} is by the right answers of a task, and there is none: task=copy"
        )
    return AnswerJudge(codec, str(spec))


def _sampling(
    algo: TextAlgorithmConfig, task: Task | None, codec: Codec | None, own: tuple[int, ...]
) -> Sampling:
    """How completions are drawn; `own` ends are of the model, whose tokens may be nobody's else."""
    ends, pad = (own, 0) if codec is None else (codec.ends, codec.pad)
    longest = LONGEST if task is None else task.longest + 1
    drawn = {}
    if isinstance(algo, WritingConfig):
        drawn = {name: getattr(algo, name) for name in ("temperature", "top_k", "top_p", "min_p")}
    return Sampling(
        max_new_tokens=algo.max_new_tokens or longest,
        eos=algo.eos_token_id or ends,
        pad=pad if algo.pad_token_id is None else algo.pad_token_id,
        **drawn,
    )


def frozen_copy(module: nn.Module) -> nn.Module:
    """A reference: the module as it is now, in evaluation mode, of which nothing learns.

    Where adapters learn, it shares what they are in.
    """
    frozen = [p for p in module.parameters() if has_adapters(module) and not p.requires_grad]
    return copy.deepcopy(module, {id(p): p for p in frozen}).requires_grad_(False).eval()


def text_parts(
    text: Text,
    source: TextSource[Any],
    learner: Learner[Any],
    score: Score | None = None,
) -> Parts:
    """A run of these; without rewards `score` says what held-out answers are worth."""
    actor = TextActor(text.model)
    evaluate: TextEvaluator | ScoreEvaluator | None = text.evaluator
    if evaluate is None and score is not None and text.prompts is not None:
        evaluate = ScoreEvaluator(text.model, text.prompts, score, source.batch_size, text.sampling)
    return Parts(source, learner, actor, evaluate, agreed=text.group.agreed)
