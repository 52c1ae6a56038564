"""Layers that are computed a second time on the way back, so that what is inside of them need not be kept."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from rlox.errors import ConfigError
from rlox.llm.llama import Llama, LlamaLayer

__all__ = ["computed_twice", "is_known", "layers_of", "names_taken", "of_transformers"]


def names_taken(module: nn.Module) -> set[str]:
    """What a module's `forward` takes by name, also through wrappers of one module that hand on the rest."""
    names: set[str] = set()
    while True:
        given = inspect.signature(module.forward).parameters
        names |= set(given)
        inner = list(module.children())
        hands_on = any(of.kind is inspect.Parameter.VAR_KEYWORD for of in given.values())
        if not hands_on or len(inner) != 1:
            return names
        module = inner[0]


def is_known(module: nn.Module) -> bool:
    """Whether a model is a `Llama` or of transformers, or a wrapper of one."""
    kinds = (Llama, of_transformers("modeling_utils", "PreTrainedModel"))
    return any(isinstance(part, kinds) for part in module.modules())


def layers_of(module: nn.Module) -> list[nn.Module]:
    """The layers of a `Llama`, or of a model of transformers; `ConfigError` where there are none."""
    kinds = (LlamaLayer, of_transformers("modeling_layers", "GradientCheckpointingLayer"))
    found = [part for part in module.modules() if isinstance(part, kinds)]
    if not found:
        raise ConfigError(
            f"algo.gradient_checkpointing=true: {type(module).__name__} has no layers that are known, "
            "expected a Llama or a model of transformers; leave it out"
        )
    return found


def of_transformers(module: str, name: str) -> Any:
    """A class of transformers; without its import nothing, which nothing is an instance of."""
    return getattr(sys.modules.get(f"transformers.{module}"), name, ())


@contextmanager
def computed_twice(layers: Sequence[nn.Module]) -> Iterator[None]:
    """What these say in the block is computed again on the way back, without dropout in both."""
    if not torch.is_grad_enabled():
        yield
        return
    parts: Any = layers
    own = [vars(layer).get("forward") for layer in parts]  # of hooks of others
    for layer in parts:
        layer.forward = _again(layer.forward)
    try:
        yield
    finally:
        for layer, forward in zip(parts, own, strict=True):
            if forward is None:
                del layer.forward
            else:
                layer.forward = forward


def _again(once: Callable[..., Any]) -> Callable[..., Any]:
    def forward(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(once, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)

    return forward
