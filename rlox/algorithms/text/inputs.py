"""Construction of the model, the codec and the prompts of a run on text."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import cast

import torch
from torch import nn

from rlox.algorithms.text.objects import TextRuntimeObjects
from rlox.configs import DPOConfig, RunConfig, SFTConfig
from rlox.configs.params import object_name
from rlox.configs.run import search_note
from rlox.configs.text import REWARDS, TINY, GenerationConfig, TextAlgorithmConfig
from rlox.errors import CheckpointError, ConfigError
from rlox.llm import Llama, LlamaSize, Task, TextModel
from rlox.llm.chat_turns import SETTING, require_turn_end
from rlox.llm.codecs import ByteCodec, CharacterCodec, Codec, Tokenizer
from rlox.llm.datasets import DatasetPrompts, TextDataset
from rlox.llm.llama_files import adapter_hint, read_eos_ids
from rlox.llm.prompts import Prompts, TaskPrompts, answer_context
from rlox.llm.transformers_files import is_model, is_tokenizer, load_model

__all__ = ["is_new_model", "make_codec", "make_model", "make_prompts"]

BYTE_TOKENIZER = "bytes"  # value of `tokenizer` with which each byte is a token
DATASET_MAX_POSITIONS = 2048  # positions of a new model that is trained on a dataset


def is_new_model(config: RunConfig, objects: TextRuntimeObjects) -> bool:
    """Return whether the run makes a new model, whose tokens depend on the task or dataset."""
    return objects.model is None and objects.size is None and config.model in (None, TINY)


def make_codec(
    config: RunConfig, task: Task | None, model: nn.Module | None, has_checkpoint_size: bool
) -> Codec | None:
    """Return the configured tokenizer, else the model's, else the task's codec, bytes or None.

    `has_size`: a checkpoint gives the size of the model, so the model's folder is not needed.
    """
    has_model_folder = model is None and config.model not in (None, TINY)
    needs_tokenizer = config.dataset is not None and config.tokenizer is None  # from the model folder
    if (
        has_model_folder
        and (needs_tokenizer or not has_checkpoint_size)
        and not is_model(Path(str(config.model)))
    ):
        folder = Path(str(config.model))
        raise ConfigError(
            f"model={config.model}: expected tiny, or a folder with config.json and model.safetensors; "
            f"nothing is downloaded{adapter_hint(folder)}{search_note(folder)}"
        )
    if config.tokenizer == BYTE_TOKENIZER:
        return ByteCodec()
    if config.tokenizer is not None:
        return Tokenizer(Path(config.tokenizer))
    if has_model_folder and is_tokenizer(Path(str(config.model))):
        return Tokenizer(Path(str(config.model)))
    if task is not None:
        return task.codec
    if config.dataset is None:
        return None
    if has_model_folder or model is not None:
        raise ConfigError(
            f"dataset={config.dataset}: model={config.model} comes without a tokenizer; set "
            f"tokenizer=FOLDER, or tokenizer={BYTE_TOKENIZER} for a model whose tokens are bytes (258 tokens)"
        )
    return ByteCodec()


def make_prompts(
    config: RunConfig,
    task: Task | None,
    codec: Codec | None,
    is_training: bool,
    max_positions: int | None,
    max_new_tokens: int,
    eos_ids: tuple[int, ...],
) -> Prompts | None:
    """Make the prompts of a task or a dataset; None without either.

    Each row of a dataset has to fit into `max_positions` with `max_new_tokens` more tokens. `eos_ids` are
    the tokens that end a completion.
    """
    algo = cast(TextAlgorithmConfig, config.algo)
    assistant_only = isinstance(algo, SFTConfig) and algo.assistant_only_loss
    if assistant_only and config.dataset is None:
        raise ConfigError(f"{SETTING} needs conversations in a file: set dataset, or leave that setting out")
    if task is not None:
        return TaskPrompts(task, config.seed, codec)
    if config.dataset is None or codec is None:
        return None
    if not is_training and not Path(config.dataset).is_file():  # the run can still generate
        return None
    paths = {"dataset": config.dataset, "eval_dataset": config.eval_dataset}
    datasets = {
        key: TextDataset(Path(path), codec, key, assistant_only)
        for key, path in paths.items()
        if path is not None
    }
    for key, dataset in datasets.items():
        dataset.require_positions(max_positions, max_new_tokens)
        if set(REWARDS) & set(map(str, algo.rewards)):
            dataset.require_answers()
        if is_training:
            _warn_of_double_bos(dataset, codec, f"{key}={dataset.path}")
            if isinstance(algo, DPOConfig):
                _warn_of_equal_pairs(dataset, f"{key}={dataset.path}")
            if (conversation := dataset.conversation) is not None:
                require_turn_end(codec, *conversation, eos_ids, max_new_tokens > 0, f"{key}={dataset.path}")
    if (eval_dataset := datasets.get("eval_dataset")) is not None:
        eval_dataset.require_same_columns(datasets["dataset"])
    prompts = DatasetPrompts(datasets["dataset"], datasets.get("eval_dataset"), config.seed, codec)
    if isinstance(algo, GenerationConfig) and not prompts.has_prompts:
        raise ConfigError(
            f"dataset={config.dataset}: {algo.name} completes prompts, but the dataset's rows are whole "
            "texts; expected a column prompt"
        )
    return prompts


def _warn_of_double_bos(dataset: TextDataset, codec: Codec, place: str) -> None:
    """Warn if texts already begin with the token that the tokenizer puts before each text."""
    bos_id = codec.bos_id if isinstance(codec, Tokenizer) else None
    for row in dataset.rows if bos_id is not None and dataset.conversation is None else ():
        prompt = row.prompt
        answer_start = [] if prompt.answer_ids is None else prompt.answer_ids[:2].tolist()
        if [*answer_context(prompt)[:2].tolist(), *answer_start][:2] == [bos_id, bos_id]:
            warnings.warn(
                f"{place}, line {row.line} begins with token {bos_id} twice: its text already has the token "
                "that the tokenizer adds; remove it from the texts",
                UserWarning,
                stacklevel=2,
            )
            return


def _warn_of_equal_pairs(dataset: TextDataset, place: str) -> None:
    """Warn of pairs with equal answers, whose gradients cancel; raise `ConfigError` if all are equal."""
    pairs = [(row.line, row.prompt.answer_ids, row.prompt.rejected_ids) for row in dataset.rows]
    equal_lines = [n for n, a, b in pairs if a is not None and b is not None and torch.equal(a, b)]
    description = f"chosen and rejected are the same tokens in {len(equal_lines)} of {len(pairs)} rows"
    if len(equal_lines) == len(pairs):
        raise ConfigError(f"{place}: {description}, so there is nothing to learn; expected different answers")
    if equal_lines:
        warnings.warn(
            f"{place}: {description} (the first is line {equal_lines[0]}): nothing is learned from these, "
            "and the accuracy counts each of them as wrong; remove them",
            UserWarning,
            stacklevel=2,
        )


def make_model(config: RunConfig, objects: TextRuntimeObjects, codec: Codec | None) -> nn.Module:
    """Return the given model, a model of the checkpoint's size, a new model, or that of a folder."""
    if objects.model is not None:
        _require_vocabulary(objects.model, codec, object_name(objects.model))
        _warn_of_half_precision(objects.model)
        return objects.model
    if objects.size is not None:
        model = Llama(objects.size)
        model.eos_ids = objects.eos_ids or _folder_eos_ids(config)
        _require_vocabulary(model, codec, str(config.model))
        return model
    if config.model in (None, TINY):
        assert codec is not None
        size = LlamaSize(vocab_size=len(codec))
        long_size = replace(size, max_position_embeddings=DATASET_MAX_POSITIONS)
        return Llama(size if config.dataset is None else long_size)
    try:
        module = load_model(Path(str(config.model)))
    except CheckpointError as error:
        raise ConfigError(f"model={config.model}: {error}") from error
    _require_vocabulary(module, codec, str(config.model))
    return module


def _folder_eos_ids(config: RunConfig) -> tuple[int, ...]:
    """Return the end tokens in the model's folder, if it still exists, since older checkpoints lack them."""
    return () if config.model in (None, TINY) else read_eos_ids(Path(str(config.model)))


def _require_vocabulary(module: nn.Module, codec: Codec | None, name: str) -> None:
    """Raise `ConfigError` if the vocabulary size of the model is known and the codec does not fit it."""
    n_tokens = TextModel(module).vocabulary
    if codec is None or not n_tokens:
        return
    is_exact = isinstance(codec, CharacterCodec)  # others may be smaller than their model's vocabulary
    if len(codec) > n_tokens or (is_exact and len(codec) != n_tokens):
        kind = "its tokenizer" if isinstance(codec, Tokenizer) else "text as characters or bytes"
        raise ConfigError(f"model={name} has {n_tokens} tokens, {kind} has {len(codec)}")


def _warn_of_half_precision(module: nn.Module) -> None:
    """Warn if trainable weights have half precision, which rounds small steps away."""
    dtypes = {p.dtype for p in module.parameters() if p.requires_grad}
    if half_types := dtypes & {torch.bfloat16, torch.float16}:
        warnings.warn(
            f"the weights of model are {next(iter(half_types))}, in which steps of a small learning_rate are "
            "rounded away: give the model in float32 (model.float()), with bf16=True for matrix products in "
            "bfloat16",
            UserWarning,
            stacklevel=2,
        )
