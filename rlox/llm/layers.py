"""Layers that are computed a second time on the way back, so that what is inside of them need not be kept."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from rlox.errors import ConfigError
from rlox.llm.llama import Llama, LlamaLayer

__all__ = ["computed_twice", "is_known", "layers_of"]


def is_known(module: nn.Module) -> bool:
    """Whether a model is a `Llama`, or of transformers."""
    return isinstance(module, (Llama, _of_transformers("modeling_utils", "PreTrainedModel")))


def layers_of(module: nn.Module) -> list[nn.Module]:
    """The layers of a `Llama`, or of a model of transformers; `ConfigError` where there are none."""
    kinds = (LlamaLayer, _of_transformers("modeling_layers", "GradientCheckpointingLayer"))
    found = [part for part in module.modules() if isinstance(part, kinds)]
    if not found:
        raise ConfigError(
            f"algo.gradient_checkpointing=true: {type(module).__name__} has no layers that are known, "
            "expected a Llama or a model of transformers; leave it out"
        )
    return found


def _of_transformers(module: str, name: str) -> Any:
    """A class of transformers; an instance of it is nowhere where that was not imported."""
    return getattr(sys.modules.get(f"transformers.{module}"), name, ())


@contextmanager
def computed_twice(layers: Sequence[nn.Module]) -> Iterator[None]:
    """What these say in the block is computed again on the way back, without dropout in both."""
    if not torch.is_grad_enabled():
        yield
        return
    parts: Any = layers
    for layer in parts:
        layer.forward = _again(layer.forward)
    try:
        yield
    finally:
        for layer in parts:
            del layer.forward


def _again(once: Callable[..., Any]) -> Callable[..., Any]:
    def forward(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(once, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)

    return forward
