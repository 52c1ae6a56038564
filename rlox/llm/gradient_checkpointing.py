"""Gradient checkpointing: the backward pass recomputes layers, so that activations need not be kept."""

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

__all__ = ["accepted_arguments", "checkpointed", "find_layers", "is_known_model", "transformers_class"]


def accepted_arguments(module: nn.Module) -> set[str]:
    """Return the argument names of a module's `forward`.

    If `forward` takes `**kwargs` and the module has a single child, the child's names are included.
    """
    names: set[str] = set()
    while True:
        parameters = inspect.signature(module.forward).parameters
        names |= set(parameters)
        children = list(module.children())
        takes_kwargs = any(
            parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()
        )
        if not takes_kwargs or len(children) != 1:
            return names
        module = children[0]


def is_known_model(module: nn.Module) -> bool:
    """Return whether a model is a `Llama` or a transformers model, or wraps one."""
    model_types = (Llama, transformers_class("modeling_utils", "PreTrainedModel"))
    return any(isinstance(module_part, model_types) for module_part in module.modules())


def find_layers(module: nn.Module) -> list[nn.Module]:
    """Return the layers of a `Llama` or a transformers model; `ConfigError` if there are none."""
    layer_types = (LlamaLayer, transformers_class("modeling_layers", "GradientCheckpointingLayer"))
    layers = [module_part for module_part in module.modules() if isinstance(module_part, layer_types)]
    if not layers:
        raise ConfigError(
            f"algo.gradient_checkpointing=true: {type(module).__name__} has no layers that rlox knows, "
            "expected a Llama or a model of transformers; leave the setting out"
        )
    return layers


def transformers_class(module: str, name: str) -> Any:
    """Return a class of transformers; an empty tuple for `isinstance` if its module is not imported."""
    return getattr(sys.modules.get(f"transformers.{module}"), name, ())


@contextmanager
def checkpointed(layers: Sequence[nn.Module]) -> Iterator[None]:
    """Checkpoint the calls of `layers` in the block; random states are not kept, so dropout has to be off."""
    if not torch.is_grad_enabled():
        yield
        return
    modules: Any = layers
    own_forwards = [vars(layer).get("forward") for layer in modules]  # set on instances by other hooks
    for layer in modules:
        layer.forward = _with_checkpoint(layer.forward)
    try:
        yield
    finally:
        for layer, forward in zip(modules, own_forwards, strict=True):
            if forward is None:
                del layer.forward
            else:
                layer.forward = forward


def _with_checkpoint(forward_function: Callable[..., Any]) -> Callable[..., Any]:
    def forward(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(forward_function, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)

    return forward
