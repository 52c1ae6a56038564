"""Gradients by autograd, with errors for policies and losses through which nothing would be learned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from rlox.errors import ConfigError

__all__ = [
    "REGISTRATION_REMEDY",
    "gradients_of",
    "learned",
    "require_gradient",
    "require_path",
    "require_trainable_values",
]


REGISTRATION_REMEDY = (
    "keep layers as attributes or in a torch.nn.ModuleList, not in a plain list, and detach nothing"
)


def require_gradient(subject: str, output: Tensor) -> None:
    """Raise `ConfigError` if autograd did not record an output, which `subject` names."""
    if not output.requires_grad:
        raise _missing_gradient_error(subject)


def _missing_gradient_error(subject: str) -> ConfigError:
    return ConfigError(
        f"nothing can be learned: {subject} no gradient; it must not be computed under torch.no_grad() or "
        "torch.inference_mode(), nor be detached, and a parameter behind it must have requires_grad=True"
    )


def require_trainable_values(get_values: Callable[[], object], log_prob: Tensor, module: nn.Module) -> None:
    """Raise `ConfigError` if values without gradient depend on parameters that nothing else trains.

    `get_values` computes the values again. Constants and outputs of frozen layers need no training;
    parameters of the actor are trained by the log-probability.
    """
    trainable = {name: p for name, p in module.named_parameters() if p.requires_grad}
    gradients = torch.autograd.grad(
        log_prob.sum(), list(trainable.values()), retain_graph=True, allow_unused=True
    )
    untrained_names = {
        id(p): name for (name, p), g in zip(trainable.items(), gradients, strict=True) if g is None
    }
    with _ParameterReads() as reads:
        get_values()
    if names := [name for key, name in untrained_names.items() if key in reads.parameter_ids]:
        raise ConfigError(
            f"get_value gave values without gradient, so that {', '.join(names)} would never learn; it must "
            "not compute them under torch.no_grad() or torch.inference_mode(), nor detach them; freeze these "
            "parameters (requires_grad_(False)) if they are to stay as they are"
        )


class _ParameterReads(TorchFunctionMode):
    """Collects the ids of parameters whose values are arguments of torch functions."""

    def __init__(self) -> None:
        super().__init__()
        self.parameter_ids: set[int] = set()

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        keywords = kwargs or {}
        name = func.__name__
        # `weight.device`, `weight.new_zeros(n)` and `zeros_like(weight)` do not read its values
        if name != "__get__" and not name.startswith("new_") and not name.endswith("_like"):
            arguments = [*args, *keywords.values()]
            for argument in arguments:
                if isinstance(argument, list | tuple):
                    arguments += argument
                elif isinstance(argument, nn.Parameter):
                    self.parameter_ids.add(id(argument))
        return func(*args, **keywords)


def learned(parameters: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    """Return the parameters that are not frozen."""
    return [p for p in parameters if p.requires_grad]


def gradients_of(loss: Tensor, parameters: Sequence[nn.Parameter]) -> list[Tensor]:
    """Return the gradients of a scalar `loss` with respect to `parameters`; 0 for one it does not depend on.

    It raises `ConfigError` if autograd did not record the loss, or if it depends on none of the parameters.
    """
    require_gradient("the loss has", loss)
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    if parameters and all(gradient is None for gradient in found):
        raise ConfigError(
            "nothing can be learned: the loss depends on none of the parameters to learn; "
            f"{REGISTRATION_REMEDY}"
        )
    return [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]


def require_path(output: Tensor, inputs: Tensor, subject: str) -> None:
    """Raise `ConfigError` if no gradient leads from `output` to `inputs`, which `subject` names."""
    (gradient,) = (
        torch.autograd.grad(output.sum(), inputs, retain_graph=True, allow_unused=True)
        if output.requires_grad
        else (None,)
    )
    if gradient is None:
        raise ConfigError(
            f"nothing can be learned: no gradient leads from the critics' values to {subject}; a critic must "
            "not detach its inputs"
        )
