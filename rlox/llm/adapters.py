"""Low-rank adapters (LoRA, Hu et al. 2021, arXiv:2106.09685) in a model's linear layers, by peft."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor, nn

from rlox.disk import replace_file
from rlox.errors import ConfigError, MissingExtraError
from rlox.extras import install_command
from rlox.llm.gradient_checkpointing import transformers_class
from rlox.llm.llama import Llama

__all__ = ["TrainableWeights", "add_adapters", "has_adapters", "save_adapters"]

BASE_KEY = "base_model.sha256"  # stored with the adapter weights


def add_adapters(module: nn.Module, rank: int, alpha: float, targets: Sequence[str] = ()) -> None:
    """Add adapters to linear layers and freeze all other weights; the initial outputs do not change.

    A layer W becomes W + alpha / rank * B A, with B = 0 and A random. `targets` are last parts of layer names
    (`q_proj`); by default all linear layers except the output layer.
    """
    peft = _import_peft()
    if has_adapters(module):
        raise ConfigError(
            f"algo.lora_r={rank}: {type(module).__name__} has adapters already, which are trained; leave "
            "algo.lora_r out"
        )
    layer_types = (nn.Linear, transformers_class("pytorch_utils", "Conv1D"))
    linear_names = {
        name.rpartition(".")[2]
        for name, module_part in module.named_modules()
        if isinstance(module_part, layer_types)
    }
    target_names = set(targets) or linear_names - {"lm_head", "embed_out", "score"}
    if missing := sorted(target_names - linear_names):
        raise ConfigError(
            f"algo.lora_target_modules: {type(module).__name__} has no linear layer {missing[0]}, expected "
            f"some of {', '.join(sorted(linear_names)) or 'none'}"
        )
    if not target_names:
        raise ConfigError(f"algo.lora_r: {type(module).__name__} has no linear layer for adapters")
    if isinstance(module, Llama) and module.size.tie_word_embeddings and "lm_head" in target_names:
        warnings.warn(
            "algo.lora_target_modules has lm_head, whose weights are the embedding's too "
            "(tie_word_embeddings): adapters change only the logits, but merging them would also change the "
            "embedding; leave lm_head out",
            UserWarning,
            stacklevel=2,
        )
    config = peft.LoraConfig(r=rank, lora_alpha=alpha, target_modules=sorted(target_names), lora_dropout=0.0)
    with warnings.catch_warnings():  # peft detects transposed layers itself, and warns about it
        warnings.filterwarnings("ignore", message="fan_in_fan_out")
        peft.inject_adapter_in_model(config, module)


def has_adapters(module: nn.Module) -> bool:
    """Return whether peft has added adapters."""
    return bool(getattr(module, "peft_config", None))


class TrainableWeights:
    """The weights of a module that a run saves: all of them, or only the adapters if there are some.

    Parameters
    ----------
    module : the module, whose trained parameters require gradients
    original : the trainable weights of the module of which `module` is a copy; None if it is no copy
    """

    def __init__(self, module: nn.Module, original: TrainableWeights | None = None) -> None:
        self._module, self._original = module, original
        trained = [name for name, value in module.named_parameters() if value.requires_grad]
        self._names: list[str] = trained if original is None else original._names
        self._has_adapters = has_adapters(module)

    def weights(self) -> dict[str, Tensor]:
        """Return the live tensors by name; with adapters, also the SHA-256 of the base weights."""
        if not self._has_adapters:
            return dict(self._module.state_dict())
        parameters = dict(self._module.named_parameters())
        return {**{name: parameters[name].detach() for name in self._names}, BASE_KEY: self._base_digest}

    def copies(self) -> dict[str, Tensor]:
        """Return copies of `weights()`, which later updates do not change."""
        return {name: value.detach().clone() for name, value in self.weights().items()}

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Load weights; an error for other names or shapes, and for adapters of another base model."""
        if not self._has_adapters:
            self._module.load_state_dict(dict(weights))
            return
        own_weights = self.weights()
        if unmatched := sorted(own_weights.keys() ^ weights.keys()):
            raise ConfigError(
                f"either the model or the loaded weights lack {unmatched[0]}: adapters are in other layers"
            )
        if not torch.equal(own_weights.pop(BASE_KEY), weights[BASE_KEY]):
            raise ConfigError(
                "its adapters are of another model than this one, or algo.lora_alpha differs (the SHA-256 "
                "covers both): load them into the model that they were trained with"
            )
        with torch.no_grad():
            for name, value in own_weights.items():
                value.copy_(weights[name])

    @cached_property
    def _base_digest(self) -> Tensor:
        """SHA-256 of the base parameters and adapter scalings, uint8 `[32]`."""
        if self._original is not None:
            return self._original._base_digest
        digest, trainable_names = hashlib.sha256(), set(self._names)
        for name, value in self._module.named_parameters():
            if name not in trainable_names:
                digest.update(f"{name} {value.dtype} {list(value.shape)}".encode())
                digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
        for name, part in self._module.named_modules():
            if scaling := getattr(part, "scaling", None):  # alpha / rank of a layer with adapters
                digest.update(f"{name} {scaling}".encode())
        return torch.from_numpy(np.frombuffer(digest.digest(), np.uint8).copy())


def save_adapters(module: nn.Module, folder: Path, base: str | None = None) -> None:
    """Write adapter_config.json and adapter_model.safetensors, which `PeftModel` loads into `base`."""
    folder.mkdir(parents=True, exist_ok=True)
    peft_model: Any = module
    adapter_name = next(iter(peft_model.peft_config))
    adapter_state: dict[str, Tensor] = _import_peft().get_peft_model_state_dict(
        module, adapter_name=adapter_name
    )
    tensors = {
        f"base_model.model.{name.removeprefix('base_model.model.')}": value.detach().cpu().contiguous()
        for name, value in adapter_state.items()
    }
    settings = replace(
        peft_model.peft_config[adapter_name],
        task_type="CAUSAL_LM",
        base_model_name_or_path=base,
        inference_mode=True,
    )
    replace_file(folder / "adapter_model.safetensors", safetensors.torch.save(tensors, {"format": "pt"}))
    settings.save_pretrained(str(folder))


def _import_peft() -> Any:
    try:
        import peft
    except ImportError as error:
        raise MissingExtraError(
            f"adapters (algo.lora_r) need the package peft: {install_command('llm')}"
        ) from error
    return peft
