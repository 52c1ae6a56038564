"""Loading of transformers models and tokenizers from folders, without downloads or code from the folders."""

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
from rlox.extras import install_command
from rlox.llm.adapters import has_adapters, save_adapters
from rlox.llm.llama import Llama
from rlox.llm.llama_files import CONFIG_FILE, GENERATION_FILE, is_llama, load_llama, save_llama, token_ids

__all__ = [
    "LOCAL_ONLY",
    "depends_on_later_tokens",
    "eos_ids_of",
    "import_transformers",
    "is_model",
    "is_tokenizer",
    "load_model",
    "max_positions_of",
    "save_model",
]

# Arguments of every `from_pretrained`.
LOCAL_ONLY: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")


def is_model(folder: Path) -> bool:
    """Return whether the folder has a model."""
    return (folder / CONFIG_FILE).is_file()


def is_tokenizer(folder: Path) -> bool:
    """Return whether the folder has a tokenizer."""
    return any((folder / name).is_file() for name in TOKENIZER_FILES)


def import_transformers(purpose: str) -> Any:
    """Import transformers; `MissingExtraError` with the purpose if it is not installed."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        import transformers
    except ImportError as error:
        raise MissingExtraError(
            f"{purpose} needs the package transformers: {install_command('llm')}"
        ) from error
    return transformers


def load_model(folder: Path) -> nn.Module:
    """Load the causal model in a folder, in float32, from safetensors only.

    If `rlox.llm.Llama` supports all of config.json, the model is a `Llama`, else a transformers model.
    """
    if is_llama(folder):
        return load_llama(folder).float()
    if not any(folder.glob("*.safetensors")):
        raise CheckpointError(f"{folder} has no *.safetensors, and weights are loaded from no other file")
    config = json.loads((folder / CONFIG_FILE).read_bytes())
    transformers = import_transformers(f"a model of {config.get('model_type', 'an unknown kind')}")
    try:
        with _silence_transformers(transformers.utils.logging):
            loaded_model, loading_info = transformers.AutoModelForCausalLM.from_pretrained(
                folder,
                use_safetensors=True,
                dtype=torch.float32,
                output_loading_info=True,
                **LOCAL_ONLY,
            )
    except Exception as error:  # transformers raises many different classes
        first_line = str(error).strip().partition("\n")[0]
        raise CheckpointError(
            f"{folder} has no causal model that transformers reads: {first_line:.200}"
        ) from error
    if missing := sorted(map(str, [*loading_info["missing_keys"], *loading_info["mismatched_keys"]])):
        raise CheckpointError(
            f"{folder}: its weights do not fit its {CONFIG_FILE}: {missing[0]} is missing, or of another "
            "shape"
        )
    module: nn.Module = loaded_model
    _require_causal(module, folder)
    return module


def depends_on_later_tokens(get_logits: Callable[[Tensor], Tensor]) -> bool:
    """Return whether logits change with a later token, tested with `get_logits` on ids `[3, 4]`.

    It returns False for a model that gives different logits for the same text.
    """
    ids = torch.tensor([[0, 1, 0, 0], [0, 1, 0, 1], [0, 1, 0, 0]])  # every model has tokens 0 and 1
    first_logits, second_logits, repeated_logits = get_logits(ids)[:, :3]
    is_unchanged, is_repeatable = (
        torch.allclose(first_logits, compared, atol=1e-3, rtol=1e-3, equal_nan=True)
        for compared in (second_logits, repeated_logits)
    )
    return is_repeatable and not is_unchanged


@torch.no_grad()
def _require_causal(module: nn.Module, folder: Path) -> None:
    """Raise `CheckpointError` if logits depend on later tokens."""
    module.eval()
    if depends_on_later_tokens(lambda ids: module(input_ids=ids).logits):
        raise CheckpointError(
            f"{folder}: the logits of {type(module).__name__} depend on later tokens, expected a causal model"
        )


@contextmanager
def _silence_transformers(logging: Any) -> Iterator[None]:
    """Disable progress bars and logs of transformers in the block; both are process-wide settings."""
    had_progress_bar, level = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity(logging.CRITICAL)
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if had_progress_bar:
            logging.enable_progress_bar()


def max_positions_of(module: nn.Module) -> int | None:
    """Return a model's maximum number of positions; None if unknown."""
    model_config = getattr(module, "size", None) or getattr(module, "config", None)
    max_positions = getattr(model_config, "max_position_embeddings", None)
    if isinstance(max_positions, bool) or not isinstance(max_positions, int):
        return None
    return max_positions


def eos_ids_of(module: nn.Module) -> tuple[int, ...]:
    """Return the model's EOS tokens within its vocabulary, without duplicates.

    For a `Llama` they are those of its files; for a transformers model the `eos_token_id` of its
    generation_config and config, as in its `generate`.
    """
    config = getattr(module, "config", None)
    configs = [getattr(module, "generation_config", None), config]
    configs.append(getattr(config, "text_config", None))
    eos_ids = [] if not isinstance(module, Llama) else list(module.eos_ids)
    for config_part in configs:
        eos_ids += token_ids(getattr(config_part, "eos_token_id", None), f"{type(module).__name__}: eos")
    size_or_config = getattr(module, "size", None) or config
    vocab_size = getattr(size_or_config, "vocab_size", None)
    return tuple(t for t in dict.fromkeys(eos_ids) if not isinstance(vocab_size, int) or t < vocab_size)


def save_model(
    module: nn.Module,
    folder: Path,
    eos: Sequence[int],
    pad: int,
    bos: int | None = None,
    base: str | None = None,
) -> None:
    """Write a folder for transformers, or adapters for peft; `base` is the original model's folder."""
    model: Any = module
    if has_adapters(module) and not callable(getattr(model, "get_base_model", None)):
        save_adapters(module, folder, base)
    elif isinstance(module, Llama):
        eos_ids = module.eos_ids if set(module.eos_ids) == set(eos) else eos  # keep the loaded order
        save_llama(module, folder, eos=eos_ids, pad=pad, bos=bos)
        if base is not None and (Path(base) / GENERATION_FILE).is_file():  # generation settings
            replace_file(folder / GENERATION_FILE, (Path(base) / GENERATION_FILE).read_bytes())
    elif callable(getattr(model, "save_pretrained", None)):
        with _silence_transformers(import_transformers("a model of transformers").utils.logging):
            model.save_pretrained(folder)
    else:
        raise ConfigError(
            f"{type(module).__name__} has no save_pretrained, expected a Llama, a model of transformers or "
            "one with adapters; save() writes a checkpoint"
        )
