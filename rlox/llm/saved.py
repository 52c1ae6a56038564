"""Folders with a model: config.json and model.safetensors, as transformers has them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch

from rlox.disk import replace_file
from rlox.errors import CheckpointError, ConfigError
from rlox.llm.llama import Llama, LlamaSize

__all__ = [
    "CONFIG",
    "GENERATION",
    "ends_in",
    "is_llama",
    "load_llama",
    "of_adapters",
    "save_llama",
    "token_ids",
]

CONFIG, WEIGHTS, KIND = "config.json", "model.safetensors", "LlamaForCausalLM"
GENERATION, ADAPTERS = "generation_config.json", "adapter_config.json"
INDEX = "model.safetensors.index.json"  # of a model in several files
FIRST, LAST = "model.embed_tokens.weight", "lm_head.weight"
UNREADABLE = (OSError, ValueError, RecursionError)  # of a file of JSON
# What changes the function and is not here, with the values that are.
ONLY: dict[str, tuple[Any, ...]] = {
    "attention_dropout": (None, 0, 0.0),
    "quantization_config": (None,),
    "hidden_act": (None, "silu"),
    "attention_bias": (None, False),
    "mlp_bias": (None, False),
    "rope_scaling": (None,),
}


def save_llama(
    model: Llama,
    folder: Path,
    eos: int | Sequence[int] | None = None,
    pad: int | None = None,
    bos: int | None = None,
) -> None:
    """Write the folder, with the weights in their own precision; `eos` ends a text, `pad` is behind one."""
    if not isinstance(model, Llama):
        raise ConfigError(
            f"model is a {type(model).__name__}, expected a rlox.llm.Llama; others have a save_pretrained"
        )
    ends = [eos] if isinstance(eos, int) else list(eos or ())
    tokens = {"eos": ends, "pad": [] if pad is None else [pad], "bos": [] if bos is None else [bos]}
    for name, several in tokens.items():
        if any(isinstance(t, bool) or not isinstance(t, int) or t < 0 for t in several):
            raise ConfigError(f"{name}={several}, expected token ids")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    weights = {
        name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()
    }
    if model.size.tie_word_embeddings:
        del weights[LAST]
    dtype = str(model.lm_head.weight.dtype).removeprefix("torch.")
    about = {"architectures": [KIND], "model_type": "llama", "hidden_act": "silu", "dtype": dtype}
    named = {
        "eos_token_id": ends if len(ends) > 1 else next(iter(ends), None),
        "pad_token_id": pad,
        "bos_token_id": bos,
    }  # else transformers has its own
    replace_file(folder / WEIGHTS, safetensors.torch.save(weights, {"format": "pt"}))
    document = json.dumps({**about, **named, **asdict(model.size)}, indent=1)
    replace_file(folder / CONFIG, document.encode())


def load_llama(folder: Path) -> Llama:
    """The model in a folder, from safetensors only; `CheckpointError` for what is none of this kind."""
    folder = Path(folder)
    try:
        about = json.loads((folder / CONFIG).read_bytes())
        weights = _weights(folder)
    except (*UNREADABLE, AttributeError, LookupError, safetensors.SafetensorError) as error:
        raise CheckpointError(
            f"{folder} is no model with {CONFIG} and {WEIGHTS}: {error}"
        ) from error
    size = _size(folder, about)
    if size.tie_word_embeddings:
        # as transformers has it, which follows the weights where config.json says otherwise
        there = [weights[name] for name in (FIRST, LAST) if name in weights]
        if len(there) == 1:
            weights |= {FIRST: there[0], LAST: there[0]}
        elif there and not torch.equal(*there):
            size = replace(size, tie_word_embeddings=False)
    with torch.device("meta"):
        model = Llama(size)
    model.ends = ends_in(folder)
    try:
        model.load_state_dict(weights, assign=True)
    except RuntimeError as error:
        raise CheckpointError(f"{folder}: its weights do not fit its {CONFIG}: {error}") from error
    if size.tie_word_embeddings:
        model.lm_head.weight = model.model.embed_tokens.weight
    return model


def ends_in(folder: Path) -> tuple[int, ...]:
    """The tokens that end a text by generation_config.json and config.json, each once, in this order."""
    found: list[int] = []
    for name in (GENERATION, CONFIG):
        path = Path(folder) / name
        if not path.is_file():
            continue
        try:
            about = json.loads(path.read_bytes())
        except UNREADABLE as error:
            raise CheckpointError(f"{path} is no JSON: {error}") from error
        for part in (about, about.get("text_config") if isinstance(about, dict) else None):
            if isinstance(part, dict):
                found += token_ids(part.get("eos_token_id"), f"{path}: eos_token_id")
    return tuple(dict.fromkeys(found))


def of_adapters(folder: Path) -> str:
    """What is told of a folder that peft wrote; empty of others."""
    if not (Path(folder) / ADAPTERS).is_file():
        return ""
    return (
        f"; it has adapters ({ADAPTERS}), no model: merge them into theirs (in peft merge_and_unload(), then "
        "save_pretrained)"
    )


def token_ids(value: Any, name: str) -> list[int]:
    """What files write as a number, a list or null; `CheckpointError` for anything else."""
    several = value if isinstance(value, list | tuple) else [] if value is None else [value]
    for token in several:
        if isinstance(token, bool) or not isinstance(token, int):
            raise CheckpointError(f"{name}={value!r:.60}, expected a token id or a list of some")
    return [token for token in several if token >= 0]


def _weights(folder: Path) -> dict[str, Any]:
    """Of one file, or of those that an index names."""
    if not (folder / INDEX).is_file():
        return safetensors.torch.load_file(folder / WEIGHTS)
    named = json.loads((folder / INDEX).read_bytes())["weight_map"]
    found: dict[str, Any] = {}
    for name in sorted(set(named.values())):
        if Path(name).name != name:
            raise ValueError(f"{INDEX} names {name}, which is no file of the folder")
        found |= safetensors.torch.load_file(folder / name)
    if missing := sorted(set(named) - set(found)):
        raise ValueError(f"{missing[0]} is in none of the files that {INDEX} names")
    return found


def is_llama(folder: Path) -> bool:
    """Whether what a folder has is a `Llama`, and not a kind of it that only transformers has."""
    try:
        about = json.loads((folder / CONFIG).read_bytes())
    except UNREADABLE as error:
        raise CheckpointError(
            f"{folder / CONFIG} is no JSON: {error}{of_adapters(folder)}"
        ) from error
    return _is_llama(about) and not _otherwise(about)


def _is_llama(about: Any) -> bool:
    return isinstance(about, dict) and KIND in (about.get("architectures") or ())


def _otherwise(about: dict[str, Any]) -> str:
    """What a config.json says that is another function; empty where that is nothing."""
    told = [f"{name}={about[name]}" for name, known in ONLY.items() if about.get(name) not in known]
    rope = about.get("rope_parameters") or {}
    kind = rope.get("rope_type") if isinstance(rope, dict) else None
    if kind not in (None, "default"):
        told.append(f"rope_type={kind}")
    heads, wide = about.get("num_attention_heads"), about.get("head_dim")
    if wide is not None and heads and wide * heads != about.get("hidden_size"):
        told.append(f"head_dim={wide}")
    return ", ".join(told)


def _size(folder: Path, about: Any) -> LlamaSize:
    if not _is_llama(about):
        raise CheckpointError(f"{folder / CONFIG} says no architectures=[{KIND}]")
    if told := _otherwise(about):
        raise CheckpointError(
            f"{folder / CONFIG}: {told}; such a model needs the package transformers"
        )
    # newer files have the base of the positions among their parameters
    rope = about.get("rope_parameters") or {}
    if not isinstance(rope, dict):
        raise CheckpointError(f"{folder / CONFIG}: rope_parameters={rope}, expected an object")
    given = {**about, **rope}
    given.setdefault("num_key_value_heads", given.get("num_attention_heads"))
    given.setdefault("max_position_embeddings", 2048)  # as transformers has it
    try:
        return LlamaSize(**{f.name: given[f.name] for f in fields(LlamaSize) if f.name in given})
    except (TypeError, ConfigError) as error:
        raise CheckpointError(f"{folder / CONFIG}: {error}") from error
