"""What algorithms on text have in common: a model, prompts, what is right, and their façades."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from rlox.algorithms.text_inputs import is_new_model, make_codec, make_model, make_prompts
from rlox.configs import RunConfig
from rlox.configs.code import Code, arguments_of, display_name
from rlox.configs.params import is_object_name, object_name
from rlox.configs.secrets import unwrap
from rlox.configs.tasks import require_task
from rlox.configs.text import REWARDS, SERVER_FIELDS, GenerationConfig, TextAlgorithmConfig
from rlox.distributed import ProcessGroup, join
from rlox.errors import ConfigError
from rlox.importing import load
from rlox.llm import (
    GeneratedTokens,
    LlamaSize,
    Sampling,
    Task,
    TextModel,
    task_of,
)
from rlox.llm.adapters import add_adapters, has_adapters
from rlox.llm.codecs import Codec, Tokenizer
from rlox.llm.completion_rewards import AnswerReward, CompletionReward, FunctionReward, RewardColumns
from rlox.llm.prompts import Prompts
from rlox.llm.reward_arguments import RewardFunction, bind_arguments, require_takes_pairs
from rlox.llm.serving import GenerationServer
from rlox.llm.transformers_files import eos_ids_of, max_positions_of
from rlox.runs.checkpoint import Checkpoint
from rlox.runs.loading import RuntimeObjects
from rlox.sources.text import TextSource
from rlox.training.components import BuildContext, RunComponents
from rlox.training.loop import Learner
from rlox.training.text_evaluation import ScoreEvaluator, ScoreFunction, TextActor, TextEvaluator, generate

__all__ = [
    "EOS_KEY",
    "SIZE_KEY",
    "PreferenceFunction",
    "TextContext",
    "TextRuntimeObjects",
    "build_text",
    "build_text_context",
    "frozen_copy",
]

# (pairs) -> which of each is better, 0 or 1, or -1 of neither.
PreferenceFunction = Callable[[list[Any]], Sequence[int]]

SIZE_KEY, EOS_KEY = "size", "ends"  # of the model, among what a learner saves
DEFAULT_MAX_NEW_TOKENS = 64  # tokens of a completion, where nothing says how many


@dataclass(frozen=True)
class TextRuntimeObjects(RuntimeObjects):
    """Objects that a façade was given, which no file holds."""

    model: nn.Module | None = None
    ref_model: nn.Module | None = None
    rewards: tuple[RewardFunction, ...] = ()
    preference: PreferenceFunction | None = None
    size: LlamaSize | None = None  # of a model that a checkpoint has the weights of
    eos_ids: tuple[int, ...] = ()  # of texts, by the files of that model
    server: GenerationServer | None = None  # that writes completions in the model's place
    files: Mapping[str, str] = field(default_factory=dict)  # where files are that a checkpoint names

    def __post_init__(self) -> None:
        for name in ("model", "ref_model"):
            value = getattr(self, name)
            if not isinstance(value, nn.Module | None):
                raise ConfigError(
                    f"{name} is a {type(value).__name__}, expected a torch.nn.Module whose "
                    "forward(input_ids) returns logits"
                )
        if not isinstance(self.server, GenerationServer | None):
            raise ConfigError(f"server={self.server!r}: expected a GenerationServer, or its kind")
        if self.preference is not None and not callable(self.preference):
            raise ConfigError(f"preference_fn={self.preference!r}: expected a function (pairs)")
        if self.preference is not None:
            require_takes_pairs(self.preference, f"preference_fn={object_name(self.preference)}")

    def function_names(self) -> dict[str, Any]:
        """Of functions, by the field of the algorithm's configuration."""
        names: dict[str, Any] = {}
        if self.rewards:
            names["rewards"] = tuple(object_name(function) for function in self.rewards)
        if self.preference is not None:
            names["preference"] = object_name(self.preference)
        return names

    def restored_from(self, checkpoint: Checkpoint) -> TextRuntimeObjects:
        """With the size of the model, so that the folder that it came from may be gone."""
        size, eos_ids = checkpoint.optimizer.get(SIZE_KEY), checkpoint.optimizer.get(EOS_KEY, ())
        return self if size is None else replace(self, size=LlamaSize(**size), eos_ids=tuple(eos_ids))

    def with_names(self, config: RunConfig) -> RunConfig:
        """The configuration with the names of these, which it cannot hold."""
        algo: Any = config.algo
        names = self.function_names()
        if self.server is not None:  # in the place of one that is configured
            names |= {f.name: f.default for f in fields(algo) if f.name in ("server", *SERVER_FIELDS)}
        named = replace(config, algo=replace(algo, **names), **cast(Any, self.files))
        return named if self.model is None else replace(named, model=object_name(self.model))


@dataclass(frozen=True)
class TextContext:
    """What a configuration and a façade's arguments say of a run on text."""

    model: TextModel
    codec: Codec | None  # None: prompts are handed over as tokens
    prompts: Prompts | None
    reward_function: CompletionReward | None  # None: nothing says what a completion is worth
    weights: tuple[float, ...] | None
    sampling: Sampling  # as completions to learn from are drawn
    objects: TextRuntimeObjects
    group: ProcessGroup  # the processes that learn together

    @property
    def evaluator(self) -> TextEvaluator | None:
        """None without prompts that are held out, or without a judge."""
        if self.prompts is None or self.reward_function is None:
            return None
        return TextEvaluator(self.model, self.prompts, self.reward_function, self.weights, self.sampling)

    def generate(self, prompts: list[Tensor], generator: torch.Generator | None) -> GeneratedTokens:
        """Completions of the best tokens, or of those that are drawn, to look at."""
        return generate(self.model, prompts, self.sampling, generator)


def build_text_context(config: RunConfig, context: BuildContext) -> TextContext:
    """The model, and where prompts and rewards come from."""
    algo = cast(TextAlgorithmConfig, config.algo)
    objects: Any = context.policy
    if not isinstance(objects, TextRuntimeObjects | None):
        raise ConfigError(f"{algo.name} takes no policy of your own; give it a model")
    objects = objects or TextRuntimeObjects()
    if objects.model is None and is_object_name(config.model or ""):
        raise ConfigError(f"model={config.model}: an object, which is not saved; give it again")
    task = None if config.task is None else task_of(config.task)
    if context.fills_buffer and (config.dataset is not None or is_new_model(config, objects)):
        require_task(config)
    codec = make_codec(config, task, objects.model, objects.size is not None)
    group = join()  # before anything is put on a GPU: each process has its own
    with context.network_init(config):
        module = make_model(config, objects, codec)
        if algo.lora_r is not None:
            add_adapters(module, algo.lora_r, algo.lora_alpha, algo.lora_target_modules)
        if objects.model is None or config.device != "auto":  # else where the user has put it
            module = module.to(context.device)
    eos_ids = eos_ids_of(module)
    if isinstance(codec, Tokenizer):
        codec.add_eos_ids((*eos_ids, *algo.eos_token_id))
    sampling = _make_sampling(algo, task, codec, eos_ids)
    is_rewarded = objects.rewards or algo.rewards or task is not None
    max_new_tokens = sampling.max_new_tokens if is_rewarded or isinstance(algo, GenerationConfig) else 0
    prompts = make_prompts(
        config, task, codec, context.fills_buffer, max_positions_of(module), max_new_tokens, sampling.eos
    )
    columns = () if prompts is None else prompts.columns
    is_file_gone = prompts is None and config.dataset is not None  # enough to write what is asked for
    reward_function = _make_reward_function(
        algo, objects, codec, None if is_file_gone else columns, task is not None
    )
    return TextContext(
        model=TextModel(module, algo.bf16, algo.gradient_checkpointing, algo.packing),
        codec=codec,
        prompts=prompts,
        reward_function=reward_function,
        weights=algo.reward_weights or None,
        sampling=sampling,
        objects=objects,
        group=group,
    )


def _make_reward_function(
    algo: TextAlgorithmConfig,
    objects: TextRuntimeObjects,
    codec: Codec | None,
    columns: Collection[str] | None,
    has_task: bool,
) -> CompletionReward | None:
    """By functions, or answers; those of a task are checked (`has_task`) unless something else is said."""
    if objects.rewards:
        named_functions = [(object_name(function), function) for function in objects.rewards]
        return FunctionReward(named_functions, codec, columns)
    if algo.rewards:
        keys = (f"algo.rewards[{i}]" for i in range(len(algo.rewards)))
        specs = zip(keys, algo.rewards, strict=True)
        return RewardColumns([_make_single_reward(key, spec, codec, columns) for key, spec in specs])
    return AnswerReward(codec) if has_task and codec is not None else None


def _make_single_reward(
    key: str, spec: Code, codec: Codec | None, columns: Collection[str] | None
) -> CompletionReward:
    """A word for a right answer's, or a function."""
    if spec not in REWARDS:
        name = display_name(spec)
        function = bind_arguments(name, load(spec, key), unwrap(arguments_of(spec)), key)
        return FunctionReward([(name, function)], codec, columns)
    if codec is None:
        raise ConfigError(f"{key}={spec} is by the right answers of a task, and there is none: task=copy")
    return AnswerReward(codec, str(spec))


def _make_sampling(
    algo: TextAlgorithmConfig, task: Task | None, codec: Codec | None, model_eos_ids: tuple[int, ...]
) -> Sampling:
    """How completions are drawn; `model_eos_ids` are the ends of the model, whose tokens may be nobody's
    else.
    """
    eos_ids, pad = (model_eos_ids, 0) if codec is None else (codec.eos_ids, codec.pad)
    default_length = DEFAULT_MAX_NEW_TOKENS if task is None else task.max_answer_length + 1
    sampling_options = {}
    if isinstance(algo, GenerationConfig):
        sampling_options = {name: getattr(algo, name) for name in ("temperature", "top_k", "top_p", "min_p")}
    return Sampling(
        max_new_tokens=algo.max_new_tokens or default_length,
        eos=algo.eos_token_id or eos_ids,
        pad=pad if algo.pad_token_id is None else algo.pad_token_id,
        **sampling_options,
    )


def frozen_copy(module: nn.Module) -> nn.Module:
    """A reference: the module as it is now, in evaluation mode, of which nothing learns.

    Where adapters learn, it shares what they are in.
    """
    frozen = [p for p in module.parameters() if has_adapters(module) and not p.requires_grad]
    return copy.deepcopy(module, {id(p): p for p in frozen}).requires_grad_(False).eval()


def build_text(
    text: TextContext,
    source: TextSource[Any],
    learner: Learner[Any],
    score: ScoreFunction | None = None,
) -> RunComponents:
    """A run of these; without rewards `score` says what held-out answers are worth."""
    actor = TextActor(text.model)
    evaluate: TextEvaluator | ScoreEvaluator | None = text.evaluator
    if evaluate is None and score is not None and text.prompts is not None:
        evaluate = ScoreEvaluator(text.model, text.prompts, score, source.batch_size, text.sampling)
    return RunComponents(source, learner, actor, evaluate, broadcast_done=text.group.broadcast_done)
