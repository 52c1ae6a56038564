"""What a run on text is about: its model, its tokens, and where its prompts come from."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import torch
from torch import nn

from rlox.configs import DPOConfig, RunConfig, SFTConfig
from rlox.configs.params import object_name
from rlox.configs.tasks import looked_for_in
from rlox.configs.text import REWARDS, TINY, TextAlgorithmConfig, WritingConfig
from rlox.errors import CheckpointError, ConfigError
from rlox.llm import Llama, LlamaSize, Task, TextModel
from rlox.llm.codecs import Bytes, Characters, Codec, Tokenizer
from rlox.llm.datasets import DatasetPrompts, TextDataset
from rlox.llm.pretrained import is_model, is_tokenizer, load_model
from rlox.llm.prompts import Prompts, TaskPrompts, learned_after
from rlox.llm.saved import ends_in, of_adapters
from rlox.llm.turns import ONLY, require_turn_end

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
        folder = Path(str(config.model))
        raise ConfigError(
            f"model={config.model}: expected tiny, or a folder with config.json and model.safetensors; "
            f"nothing is downloaded{of_adapters(folder)}{looked_for_in(folder)}"
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
    ends: tuple[int, ...],
) -> Prompts | None:
    """Of a task or a dataset, as far as the model has positions for them and `new` tokens up to `ends`."""
    algo = cast(TextAlgorithmConfig, config.algo)
    only = isinstance(algo, SFTConfig) and algo.assistant_only_loss
    if only and config.dataset is None:
        raise ConfigError(f"{ONLY} is of conversations in a file: set dataset, or leave it out")
    if task is not None:
        return TaskPrompts(task, config.seed, codec)
    if config.dataset is None or codec is None:
        return None
    if not learns and not Path(config.dataset).is_file():  # enough to write what is asked for
        return None
    named = {"dataset": config.dataset, "eval_dataset": config.eval_dataset}
    rows = {
        key: TextDataset(Path(path), codec, key, only)
        for key, path in named.items()
        if path is not None
    }
    for key, dataset in rows.items():
        dataset.require_room(room, new)
        if set(REWARDS) & set(map(str, algo.rewards)):
            dataset.require_answers()
        if learns:
            _warn_of_two_begins(dataset, codec, f"{key}={dataset.path}")
            if isinstance(algo, DPOConfig):
                _warn_of_equal_pairs(dataset, f"{key}={dataset.path}")
            if (told := dataset.conversation) is not None:
                require_turn_end(codec, *told, ends, new > 0, f"{key}={dataset.path}")
    if (held := rows.get("eval_dataset")) is not None:
        held.require_like(rows["dataset"])
    made = DatasetPrompts(rows["dataset"], rows.get("eval_dataset"), config.seed, codec)
    if isinstance(algo, WritingConfig) and not made.prompted:
        raise ConfigError(
            f"dataset={config.dataset}: {algo.name} completes prompts, and its rows are whole texts; "
            "expected a column prompt"
        )
    return made


def _warn_of_two_begins(dataset: TextDataset, codec: Codec, at: str) -> None:
    """Where texts have the token already that the tokenizer puts before each."""
    begin = codec.begin if isinstance(codec, Tokenizer) else None
    for row in dataset.rows if begin is not None and dataset.conversation is None else ():
        prompt = row.prompt
        right = [] if prompt.right is None else prompt.right[:2].tolist()
        if [*learned_after(prompt)[:2].tolist(), *right][:2] == [begin, begin]:
            warnings.warn(
                f"{at}, line {row.line} begins with token {begin} twice: its text has what the tokenizer "
                "puts before each; take it out of the texts",
                UserWarning,
                stacklevel=2,
            )
            return


def _warn_of_equal_pairs(dataset: TextDataset, at: str) -> None:
    """Where both answers are the same tokens, whose gradients cancel; `ConfigError` where all are."""
    pairs = [(row.line, row.prompt.right, row.prompt.wrong) for row in dataset.rows]
    same = [n for n, a, b in pairs if a is not None and b is not None and torch.equal(a, b)]
    told = f"of {len(same)} of {len(pairs)} rows chosen and rejected are the same tokens"
    if len(same) == len(pairs):
        raise ConfigError(f"{at}: {told}, so that there is nothing to learn; expected two answers")
    if same:
        warnings.warn(
            f"{at}: {told} (the first is line {same[0]}): nothing is learned from these, and none counts as "
            "right; take them out",
            UserWarning,
            stacklevel=2,
        )


def module_of(config: RunConfig, given: TextGiven, codec: Codec | None) -> nn.Module:
    """The model that was given, that a checkpoint has the size of, a new one, or a folder's."""
    if given.model is not None:
        _require_vocabulary(given.model, codec, object_name(given.model))
        _warn_of_halves(given.model)
        return given.model
    if given.size is not None:
        made = Llama(given.size)
        made.ends = given.ends or _ends_beside(config)
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


def _ends_beside(config: RunConfig) -> tuple[int, ...]:
    """Those of the model's folder, if it is still there: older checkpoints do not have them."""
    return () if config.model in (None, TINY) else ends_in(Path(str(config.model)))


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
