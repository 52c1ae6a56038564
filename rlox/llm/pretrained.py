"""Folders with a model or a tokenizer of transformers; nothing is downloaded, and no code of theirs runs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rlox.disk import replace_file
from rlox.errors import CheckpointError, ConfigError, MissingExtraError
from rlox.extras import install
from rlox.llm.adapters import has_adapters, save_adapters
from rlox.llm.llama import Llama
from rlox.llm.saved import CONFIG, GENERATION, is_llama, load_llama, save_llama, token_ids

__all__ = [
    "HERE",
    "ends_of",
    "is_model",
    "is_tokenizer",
    "load_model",
    "room_of",
    "save_model",
    "sees_later_tokens",
    "transformers_of",
]

# What is asked of transformers each time.
HERE: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
TOKENIZERS = ("tokenizer.json", "tokenizer_config.json")


def is_model(folder: Path) -> bool:
    """Whether there is a model."""
    return (folder / CONFIG).is_file()


def is_tokenizer(folder: Path) -> bool:
    """Whether there is a tokenizer."""
    return any((folder / name).is_file() for name in TOKENIZERS)


def transformers_of(what: str) -> Any:
    """The package; `MissingExtraError` says what it is for."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        import transformers
    except ImportError as error:
        raise MissingExtraError(
            f"{what} needs the package transformers: {install('llm')}"
        ) from error
    return transformers


def load_model(folder: Path) -> nn.Module:
    """The causal model in a folder, in float32, from safetensors only.

    What is a Llama by all that its config.json says is one of `rlox.llm`, others are of transformers.
    """
    if is_llama(folder):
        return load_llama(folder).float()
    if not any(folder.glob("*.safetensors")):
        raise CheckpointError(
            f"{folder} has no *.safetensors, and weights are taken from nothing else"
        )
    about = json.loads((folder / CONFIG).read_bytes())
    transformers = transformers_of(f"a model of {about.get('model_type', 'an unknown kind')}")
    try:
        with _quiet(transformers.utils.logging):
            made, told = transformers.AutoModelForCausalLM.from_pretrained(
                folder,
                use_safetensors=True,
                dtype=torch.float32,
                output_loading_info=True,
                **HERE,
            )
    except Exception as error:  # of a dozen kinds
        line = str(error).strip().partition("\n")[0]
        raise CheckpointError(
            f"{folder} has no causal model that transformers reads: {line:.200}"
        ) from error
    if missing := sorted(map(str, [*told["missing_keys"], *told["mismatched_keys"]])):
        raise CheckpointError(
            f"{folder}: its weights do not fit its {CONFIG}: {missing[0]} is missing, or of another shape"
        )
    module: nn.Module = made
    _require_causal(module, folder)
    return module


def sees_later_tokens(ask: Callable[[Tensor], Tensor]) -> bool:
    """Whether logits of a model change with a token behind them, by what `ask` says of ids `[3, 4]`.

    False of a model that says something else of the same text, too.
    """
    ids = torch.tensor([[0, 1, 0, 0], [0, 1, 0, 1], [0, 1, 0, 0]])  # tokens that every model has
    one, other, again = ask(ids)[:, :3]
    apart, same = (
        torch.allclose(one, of, atol=1e-3, rtol=1e-3, equal_nan=True) for of in (other, again)
    )
    return same and not apart


@torch.no_grad()
def _require_causal(module: nn.Module, folder: Path) -> None:
    """`CheckpointError` where what is said of a token depends on those behind it."""
    module.eval()
    if sees_later_tokens(lambda ids: module(input_ids=ids).logits):
        raise CheckpointError(
            f"{folder}: {type(module).__name__} sees tokens behind the one that it says, expected a "
            "causal model"
        )


@contextmanager
def _quiet(logging: Any) -> Iterator[None]:
    """Without a bar and tables, which are settings of the process."""
    shown, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity(logging.CRITICAL)
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()


def room_of(module: nn.Module) -> int | None:
    """Tokens of a sequence that a model has positions for; None: it does not say."""
    about = getattr(module, "size", None) or getattr(module, "config", None)
    found = getattr(about, "max_position_embeddings", None)
    if isinstance(found, bool) or not isinstance(found, int):
        return None
    return found


def ends_of(module: nn.Module) -> tuple[int, ...]:
    """The tokens that end a text by a model itself, those of its vocabulary, each once.

    Of a Llama those of its files; of a model of transformers the `eos_token_id` of its generation_config and
    of its config, as its `generate` has them.
    """
    config = getattr(module, "config", None)
    about = [getattr(module, "generation_config", None), config]
    about.append(getattr(config, "text_config", None))
    told = [] if not isinstance(module, Llama) else list(module.ends)
    for part in about:
        told += token_ids(getattr(part, "eos_token_id", None), f"{type(module).__name__}: eos")
    known = getattr(module, "size", None) or config
    tokens = getattr(known, "vocab_size", None)
    return tuple(t for t in dict.fromkeys(told) if not isinstance(tokens, int) or t < tokens)


def save_model(
    module: nn.Module,
    folder: Path,
    eos: Sequence[int],
    pad: int,
    bos: int | None = None,
    base: str | None = None,
) -> None:
    """Write a folder that transformers loads, or peft of adapters; `base` is the model's folder of before."""
    own: Any = module
    if has_adapters(module) and not callable(getattr(own, "get_base_model", None)):
        save_adapters(module, folder, base)
    elif isinstance(module, Llama):
        known = module.ends if set(module.ends) == set(eos) else eos  # in the order of its files
        save_llama(module, folder, eos=known, pad=pad, bos=bos)
        if base is not None and (Path(base) / GENERATION).is_file():  # how it is meant to write
            replace_file(folder / GENERATION, (Path(base) / GENERATION).read_bytes())
    elif callable(getattr(own, "save_pretrained", None)):
        with _quiet(transformers_of("a model of transformers").utils.logging):
            own.save_pretrained(folder)
    else:
        raise ConfigError(
            f"{type(module).__name__} has no save_pretrained, expected a Llama, a model of transformers or "
            "one with adapters; save() writes a checkpoint"
        )
