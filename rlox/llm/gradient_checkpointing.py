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

__all__ = ["accepted_arguments", "checkpointed", "find_layers", "is_known_model", "transformers_class"]


def accepted_arguments(module: nn.Module) -> set[str]:
    """What a module's `forward` takes by name, also through wrappers of one module that hand on the rest."""
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
    """Whether a model is a `Llama` or of transformers, or a wrapper of one."""
    model_types = (Llama, transformers_class("modeling_utils", "PreTrainedModel"))
    return any(isinstance(module_part, model_types) for module_part in module.modules())


def find_layers(module: nn.Module) -> list[nn.Module]:
    """The layers of a `Llama`, or of a model of transformers; `ConfigError` where there are none."""
    layer_types = (LlamaLayer, transformers_class("modeling_layers", "GradientCheckpointingLayer"))
    layers = [module_part for module_part in module.modules() if isinstance(module_part, layer_types)]
    if not layers:
        raise ConfigError(
            f"algo.gradient_checkpointing=true: {type(module).__name__} has no layers that are known, "
            "expected a Llama or a model of transformers; leave it out"
        )
    return layers


def transformers_class(module: str, name: str) -> Any:
    """A class of transformers; without its import nothing, which nothing is an instance of."""
    return getattr(sys.modules.get(f"transformers.{module}"), name, ())


@contextmanager
def checkpointed(layers: Sequence[nn.Module]) -> Iterator[None]:
    """What these say in the block is computed again on the way back, without dropout in both."""
    if not torch.is_grad_enabled():
        yield
        return
    modules: Any = layers
    own_forwards = [vars(layer).get("forward") for layer in modules]  # of hooks of others
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
