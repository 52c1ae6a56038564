"""What a run on text is about: its model, its tokens, and where its prompts come from."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from torch import nn

from rlox.configs import RunConfig
from rlox.configs.params import object_name
from rlox.configs.text import REWARDS, TINY, TextAlgorithmConfig
from rlox.errors import CheckpointError, ConfigError
from rlox.llm import Llama, LlamaSize, Task, TextModel
from rlox.llm.codecs import Bytes, Characters, Codec, Tokenizer
from rlox.llm.datasets import DatasetPrompts, TextDataset
from rlox.llm.pretrained import is_model, is_tokenizer, load_model
from rlox.llm.prompts import Prompts, TaskPrompts

if TYPE_CHECKING:
    from rlox.algorithms.text import TextGiven

__all__ = ["codec_of", "is_new", "module_of", "prompts_of"]

BYTES = "bytes"  # in place of a tokenizer
LONG = 2048  # positions of a new model of a dataset


def is_new(config: RunConfig, given: TextGiven) -> bool:
    """Whether a model is made here, whose tokens a task or a dataset says."""
    return given.model is None and given.size is None and config.model in (None, TINY)


def codec_of(
    config: RunConfig, task: Task | None, given: nn.Module | None, sized: bool
) -> Codec | None:
    """The tokenizer that is named, or beside the model; else the task's characters, of a new model bytes."""
    own = given is None and config.model not in (None, TINY)
    inside = config.dataset is not None and config.tokenizer is None  # the tokenizer was there
    if own and (inside or not sized) and not is_model(Path(str(config.model))):
        raise ConfigError(
            f"model={config.model}: expected tiny, or a folder with config.json and model.safetensors; "
            "nothing is downloaded"
        )
    if config.tokenizer == BYTES:
        return Bytes()
    if config.tokenizer is not None:
        return Tokenizer(Path(config.tokenizer))
    if own and is_tokenizer(Path(str(config.model))):
        return Tokenizer(Path(str(config.model)))
    if task is not None:
        return task.characters
    if config.dataset is None:
        return None
    if own or given is not None:
        raise ConfigError(
            f"dataset={config.dataset}: model={config.model} has no tokenizer beside it; set "
            f"tokenizer=FOLDER, or tokenizer={BYTES} of a model that knows 258 tokens, of bytes"
        )
    return Bytes()


def prompts_of(
    config: RunConfig,
    task: Task | None,
    codec: Codec | None,
    learns: bool,
    room: int | None,
    new: int,
) -> Prompts | None:
    """Of a task or a dataset, as far as the model has positions for them and `new` tokens."""
    if task is not None:
        return TaskPrompts(task, config.seed, codec)
    if config.dataset is None or codec is None:
        return None
    if not learns and not Path(config.dataset).is_file():  # enough to write what is asked for
        return None
    named = {"dataset": config.dataset, "eval_dataset": config.eval_dataset}
    rows = {
        key: TextDataset(Path(path), codec, key) for key, path in named.items() if path is not None
    }
    for dataset in rows.values():
        dataset.require_room(room, new)
        if set(REWARDS) & set(map(str, cast(TextAlgorithmConfig, config.algo).rewards)):
            dataset.require_answers()
    if (held := rows.get("eval_dataset")) is not None:
        held.require_like(rows["dataset"])
    return DatasetPrompts(rows["dataset"], rows.get("eval_dataset"), config.seed, codec)


def module_of(config: RunConfig, given: TextGiven, codec: Codec | None) -> nn.Module:
    """The model that was given, that a checkpoint has the size of, a new one, or a folder's."""
    if given.model is not None:
        _require_vocabulary(given.model, codec, object_name(given.model))
        _warn_of_halves(given.model)
        return given.model
    if given.size is not None:
        made = Llama(given.size)
        _require_vocabulary(made, codec, str(config.model))
        return made
    if config.model in (None, TINY):
        assert codec is not None
        size = LlamaSize(vocab_size=len(codec))
        long = replace(size, max_position_embeddings=LONG)
        return Llama(size if config.dataset is None else long)
    try:
        module = load_model(Path(str(config.model)))
    except CheckpointError as error:
        raise ConfigError(f"model={config.model}: {error}") from error
    _require_vocabulary(module, codec, str(config.model))
    return module


def _require_vocabulary(module: nn.Module, codec: Codec | None, name: str) -> None:
    """`ConfigError` where tokens are not those of the model, as far as it says how many it has."""
    tokens = TextModel(module).vocabulary
    if codec is None or not tokens:
        return
    exact = isinstance(codec, Characters)  # others have fewer than their model, of a round number
    if len(codec) > tokens or (exact and len(codec) != tokens):
        kind = "its tokenizer" if isinstance(codec, Tokenizer) else "text as characters or bytes"
        raise ConfigError(f"model={name} has {tokens} tokens, {kind} {len(codec)}")


def _warn_of_halves(module: nn.Module) -> None:
    """Where weights that learn have so few digits that small steps leave them as they are."""
    kinds = {p.dtype for p in module.parameters() if p.requires_grad}
    if halves := kinds & {torch.bfloat16, torch.float16}:
        warnings.warn(
            f"the weights of model are {next(iter(halves))}, in which steps of a small learning_rate are "
            "rounded away: give it in float32 (model.float()), with bf16=True for products in bfloat16",
            UserWarning,
            stacklevel=2,
        )
