"""Loading and saving of Llama folders with config.json and model.safetensors, as in transformers."""

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
    "CONFIG_FILE",
    "GENERATION_FILE",
    "adapter_hint",
    "is_llama",
    "load_llama",
    "read_eos_ids",
    "save_llama",
    "token_ids",
]

CONFIG_FILE, WEIGHTS_FILE, ARCHITECTURE = "config.json", "model.safetensors", "LlamaForCausalLM"
GENERATION_FILE, ADAPTER_FILE = "generation_config.json", "adapter_config.json"
INDEX_FILE = "model.safetensors.index.json"  # index of a model in several files
EMBEDDING_KEY, HEAD_KEY = "model.embed_tokens.weight", "lm_head.weight"
JSON_ERRORS = (OSError, ValueError, RecursionError)  # errors in reading a JSON file
# Settings that change the model's function, with the values that `Llama` implements.
SUPPORTED_VALUES: dict[str, tuple[Any, ...]] = {
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
    """Write a model folder, with the weights in their own dtype; `eos` ends a text, `pad` follows it."""
    if not isinstance(model, Llama):
        raise ConfigError(
            f"model is a {type(model).__name__}, expected a rlox.llm.Llama; save other models by their "
            "save_pretrained"
        )
    eos_ids = [eos] if isinstance(eos, int) else list(eos or ())
    token_config = {"eos": eos_ids, "pad": [] if pad is None else [pad], "bos": [] if bos is None else [bos]}
    for name, ids in token_config.items():
        if any(isinstance(t, bool) or not isinstance(t, int) or t < 0 for t in ids):
            raise ConfigError(f"{name}={ids}, expected token ids")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    if model.size.tie_word_embeddings:
        del weights[HEAD_KEY]
    dtype = str(model.lm_head.weight.dtype).removeprefix("torch.")
    model_config = {
        "architectures": [ARCHITECTURE],
        "model_type": "llama",
        "hidden_act": "silu",
        "dtype": dtype,
    }
    special_token_ids = {
        "eos_token_id": eos_ids if len(eos_ids) > 1 else next(iter(eos_ids), None),
        "pad_token_id": pad,
        "bos_token_id": bos,
    }  # without them transformers assumes its own ids
    replace_file(folder / WEIGHTS_FILE, safetensors.torch.save(weights, {"format": "pt"}))
    document = json.dumps({**model_config, **special_token_ids, **asdict(model.size)}, indent=1)
    replace_file(folder / CONFIG_FILE, document.encode())


def load_llama(folder: Path) -> Llama:
    """Load the model in a folder, from safetensors only; `CheckpointError` if `Llama` does not support it."""
    folder = Path(folder)
    try:
        model_config = json.loads((folder / CONFIG_FILE).read_bytes())
        weights = _read_weights(folder)
    except (*JSON_ERRORS, AttributeError, LookupError, safetensors.SafetensorError) as error:
        raise CheckpointError(
            f"{folder} is no model with {CONFIG_FILE} and {WEIGHTS_FILE}: {error}"
        ) from error
    size = _parse_size(folder, model_config)
    if size.tie_word_embeddings:
        # like transformers: if config.json and the weights contradict each other, the weights count
        tied_weights = [weights[name] for name in (EMBEDDING_KEY, HEAD_KEY) if name in weights]
        if len(tied_weights) == 1:
            weights |= {EMBEDDING_KEY: tied_weights[0], HEAD_KEY: tied_weights[0]}
        elif tied_weights and not torch.equal(*tied_weights):
            size = replace(size, tie_word_embeddings=False)
    with torch.device("meta"):
        model = Llama(size)
    model.eos_ids = read_eos_ids(folder)
    try:
        model.load_state_dict(weights, assign=True)
    except RuntimeError as error:
        raise CheckpointError(f"{folder}: its weights do not fit its {CONFIG_FILE}: {error}") from error
    if size.tie_word_embeddings:
        model.lm_head.weight = model.model.embed_tokens.weight
    return model


def read_eos_ids(folder: Path) -> tuple[int, ...]:
    """Return the EOS tokens of generation_config.json and config.json, in this order, without duplicates."""
    eos_ids: list[int] = []
    for name in (GENERATION_FILE, CONFIG_FILE):
        path = Path(folder) / name
        if not path.is_file():
            continue
        try:
            config = json.loads(path.read_bytes())
        except JSON_ERRORS as error:
            raise CheckpointError(f"{path} is no JSON: {error}") from error
        for config_part in (config, config.get("text_config") if isinstance(config, dict) else None):
            if isinstance(config_part, dict):
                eos_ids += token_ids(config_part.get("eos_token_id"), f"{path}: eos_token_id")
    return tuple(dict.fromkeys(eos_ids))


def adapter_hint(folder: Path) -> str:
    """Return a hint for a folder that peft wrote; empty for other folders."""
    if not (Path(folder) / ADAPTER_FILE).is_file():
        return ""
    return (
        f"; it has adapters ({ADAPTER_FILE}), not a model: merge them into their base model (in peft "
        "merge_and_unload(), then save_pretrained)"
    )


def token_ids(value: Any, name: str) -> list[int]:
    """Parse token ids from a number, a list or null; `CheckpointError` for anything else."""
    values = value if isinstance(value, list | tuple) else [] if value is None else [value]
    for token in values:
        if isinstance(token, bool) or not isinstance(token, int):
            raise CheckpointError(f"{name}={value!r:.60}, expected a token id or a list of token ids")
    return [token for token in values if token >= 0]


def _read_weights(folder: Path) -> dict[str, Any]:
    """Read the weights from the one file of the model, or from all files that its index names."""
    if not (folder / INDEX_FILE).is_file():
        return safetensors.torch.load_file(folder / WEIGHTS_FILE)
    weight_map = json.loads((folder / INDEX_FILE).read_bytes())["weight_map"]
    weights: dict[str, Any] = {}
    for name in sorted(set(weight_map.values())):
        if Path(name).name != name:
            raise ValueError(f"{INDEX_FILE} names {name}, which is no file of the folder")
        weights |= safetensors.torch.load_file(folder / name)
    if missing := sorted(set(weight_map) - set(weights)):
        raise ValueError(f"{missing[0]} is in none of the files that {INDEX_FILE} names")
    return weights


def is_llama(folder: Path) -> bool:
    """Return whether a folder has a model that `Llama` implements, without transformers."""
    try:
        model_config = json.loads((folder / CONFIG_FILE).read_bytes())
    except JSON_ERRORS as error:
        raise CheckpointError(f"{folder / CONFIG_FILE} is no JSON: {error}{adapter_hint(folder)}") from error
    return _names_llama(model_config) and not _unsupported_settings(model_config)


def _names_llama(model_config: Any) -> bool:
    return isinstance(model_config, dict) and ARCHITECTURE in (model_config.get("architectures") or ())


def _unsupported_settings(model_config: dict[str, Any]) -> str:
    """Return the settings of a config.json that `Llama` does not implement; empty if there are none."""
    settings = [
        f"{name}={model_config[name]}"
        for name, allowed in SUPPORTED_VALUES.items()
        if model_config.get(name) not in allowed
    ]
    rope = model_config.get("rope_parameters") or {}
    rope_type = rope.get("rope_type") if isinstance(rope, dict) else None
    if rope_type not in (None, "default"):
        settings.append(f"rope_type={rope_type}")
    heads, head_dim = model_config.get("num_attention_heads"), model_config.get("head_dim")
    if head_dim is not None and heads and head_dim * heads != model_config.get("hidden_size"):
        settings.append(f"head_dim={head_dim}")
    return ", ".join(settings)


def _parse_size(folder: Path, model_config: Any) -> LlamaSize:
    if not _names_llama(model_config):
        raise CheckpointError(f"{folder / CONFIG_FILE}: expected architectures=[{ARCHITECTURE}]")
    if unsupported := _unsupported_settings(model_config):
        raise CheckpointError(
            f"{folder / CONFIG_FILE}: {unsupported}; such a model needs the package transformers"
        )
    # newer files have rope_theta in rope_parameters
    rope = model_config.get("rope_parameters") or {}
    if not isinstance(rope, dict):
        raise CheckpointError(f"{folder / CONFIG_FILE}: rope_parameters={rope}, expected an object")
    fields_by_name = {**model_config, **rope}
    fields_by_name.setdefault("num_key_value_heads", fields_by_name.get("num_attention_heads"))
    fields_by_name.setdefault("max_position_embeddings", 2048)  # default of transformers
    try:
        return LlamaSize(
            **{f.name: fields_by_name[f.name] for f in fields(LlamaSize) if f.name in fields_by_name}
        )
    except (TypeError, ConfigError) as error:
        raise CheckpointError(f"{folder / CONFIG_FILE}: {error}") from error
