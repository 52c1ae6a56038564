"""Construction of runs on text: model, prompts, rewards, sampling, and the objects given to a façade."""

from __future__ import annotations

import copy
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from rlox.algorithms.text.inputs import is_new_model, make_codec, make_model, make_prompts
from rlox.algorithms.text.objects import TextRuntimeObjects
from rlox.configs import RunConfig
from rlox.configs.params import Code, display_name, is_object_name, object_name, spec_arguments
from rlox.configs.run import require_task
from rlox.configs.secrets import unwrap
from rlox.configs.text import REWARDS, GenerationConfig, TextAlgorithmConfig
from rlox.distributed import ProcessGroup, join
from rlox.errors import ConfigError
from rlox.importing import load
from rlox.llm import (
    GeneratedTokens,
    Sampling,
    Task,
    TextModel,
    task_of,
)
from rlox.llm.adapters import add_adapters, has_adapters
from rlox.llm.codecs import Codec, Tokenizer
from rlox.llm.completion_rewards import AnswerReward, CompletionReward, FunctionReward, RewardColumns
from rlox.llm.prompts import Prompts
from rlox.llm.reward_arguments import bind_arguments
from rlox.llm.transformers_files import eos_ids_of, max_positions_of
from rlox.sources.text import TextSource
from rlox.training.components import BuildContext, RunComponents
from rlox.training.loop import Learner
from rlox.training.text_evaluation import ScoreEvaluator, ScoreFunction, TextActor, TextEvaluator, generate

__all__ = [
    "TextContext",
    "build_text",
    "build_text_context",
    "frozen_copy",
]

DEFAULT_MAX_NEW_TOKENS = 64  # default maximum length of a completion


@dataclass(frozen=True)
class TextContext:
    """The parts of a run on text, made from its configuration and the façade's arguments."""

    model: TextModel
    codec: Codec | None  # None: prompts are given as tokens
    prompts: Prompts | None
    reward_function: CompletionReward | None  # None: completions get no reward
    weights: tuple[float, ...] | None
    sampling: Sampling  # settings for the completions in training
    objects: TextRuntimeObjects
    group: ProcessGroup  # the processes of a data-parallel run

    @property
    def evaluator(self) -> TextEvaluator | None:
        """The evaluator on held-out prompts; None without prompts or without a reward function."""
        if self.prompts is None or self.reward_function is None:
            return None
        return TextEvaluator(self.model, self.prompts, self.reward_function, self.weights, self.sampling)

    def generate(self, prompts: list[Tensor], generator: torch.Generator | None) -> GeneratedTokens:
        """Generate completions: greedily without a `generator`, else by sampling."""
        return generate(self.model, prompts, self.sampling, generator)


def build_text_context(config: RunConfig, context: BuildContext) -> TextContext:
    """Make the model, its codec, the prompts and the reward function of a run."""
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
    group = join()  # before anything moves to a GPU: each process has its own GPU
    with context.network_init(config):
        module = make_model(config, objects, codec)
        if algo.lora_r is not None:
            add_adapters(module, algo.lora_r, algo.lora_alpha, algo.lora_target_modules)
        if objects.model is None or config.device != "auto":  # else the model stays on the user's device
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
    is_file_gone = prompts is None and config.dataset is not None  # the run can still generate
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
    """Make the reward from the given functions, else `algo.rewards`, else the answers of the task."""
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
    """Make one reward: a built-in one by name, or a function."""
    if spec not in REWARDS:
        name = display_name(spec)
        function = bind_arguments(name, load(spec, key), unwrap(spec_arguments(spec)), key)
        return FunctionReward([(name, function)], codec, columns)
    if codec is None:
        raise ConfigError(
            f"{key}={spec} compares with the right answers of a task, and there is no task; set one, such as "
            "task=copy"
        )
    return AnswerReward(codec, str(spec))


def _make_sampling(
    algo: TextAlgorithmConfig, task: Task | None, codec: Codec | None, model_eos_ids: tuple[int, ...]
) -> Sampling:
    """Make the sampling settings; `model_eos_ids` are the model's end tokens, for runs without codec."""
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
    """Return a frozen copy of the module in evaluation mode, to serve as reference.

    With adapters, the copy shares the frozen base weights.
    """
    frozen = [p for p in module.parameters() if has_adapters(module) and not p.requires_grad]
    return copy.deepcopy(module, {id(p): p for p in frozen}).requires_grad_(False).eval()


def build_text(
    text: TextContext,
    source: TextSource[Any],
    learner: Learner[Any],
    score: ScoreFunction | None = None,
) -> RunComponents:
    """Build the components of a run; without rewards, `score` evaluates held-out answers."""
    actor = TextActor(text.model)
    evaluate: TextEvaluator | ScoreEvaluator | None = text.evaluator
    if evaluate is None and score is not None and text.prompts is not None:
        evaluate = ScoreEvaluator(text.model, text.prompts, score, source.batch_size, text.sampling)
    return RunComponents(source, learner, actor, evaluate, broadcast_done=text.group.broadcast_done)
