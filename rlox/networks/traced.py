"""Network outputs with their backward pass: by hand-derived gradients or by autograd.

PPO and A2C run a network forward once and backward once. With their small networks building torch's graph
takes as long as the arithmetic, so known layers have hand-derived gradients (`rlox.networks.mlp`); any other
network uses torch's autograd. In both cases the gradients of the parameters replace the previous contents of
their `grad`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from rlox.errors import ConfigError

__all__ = [
    "REGISTRATION_REMEDY",
    "Graph",
    "Traced",
    "gradient_of",
    "gradients_of",
    "learned",
    "require_gradient",
    "require_path",
    "require_trainable_values",
    "way_back",
]


REGISTRATION_REMEDY = (
    "keep layers as attributes or in a torch.nn.ModuleList, not in a plain list, and detach nothing"
)


class Traced(ABC):
    """The detached output `out` for one input, and its backward pass; call it only once.

    Create and use it while autograd is off. `learn` writes the gradients of `parameters`.
    """

    out: Tensor
    parameters: Sequence[Tensor]

    @abstractmethod
    def learn(self, gradient: Tensor) -> None:
        """Write the gradients of the parameters, given that of `out`."""


class Graph(Traced):
    """Traces any function of `x` with `parameters`, by autograd."""

    def __init__(
        self, function: Callable[[Tensor], Tensor], x: Tensor, parameters: Iterable[nn.Parameter]
    ) -> None:
        with torch.enable_grad():
            self._out = function(x.detach())
        self.out = self._out.detach()
        self.parameters = learned(parameters)
        self._learn = way_back([self._out], self.parameters)

    def learn(self, gradient: Tensor) -> None:
        """Write the gradients of the parameters, by autograd."""
        self._learn(gradient)


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


def gradients_of(
    outputs: Sequence[Tensor], parameters: Sequence[nn.Parameter], slopes: Sequence[Tensor | None]
) -> list[Tensor]:
    """Return the gradients of `parameters` by autograd, given those of `outputs`; None counts as 0.

    It raises `ConfigError` if autograd recorded none of the outputs, or if they depend on none of the
    parameters.
    """
    pairs = [
        (out, slope.sum_to_size(out.shape))
        for out, slope in zip(outputs, slopes, strict=True)
        if slope is not None and out.requires_grad
    ]
    if not pairs:
        raise _missing_gradient_error("the network's output has")
    outs, grads = zip(*pairs, strict=True)
    found = torch.autograd.grad(outs, parameters, grads, allow_unused=True)
    if parameters and all(gradient is None for gradient in found):
        raise ConfigError(
            "nothing can be learned: the network's output depends on none of its parameters; "
            f"{REGISTRATION_REMEDY}"
        )
    return [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]


def way_back(outputs: Sequence[Tensor], parameters: Sequence[nn.Parameter]) -> Callable[..., None]:
    """Return the backward function of `outputs`, by autograd: it writes the gradients of `parameters`.

    It takes a gradient for each output, as `gradients_of` does.
    """

    def back(*slopes: Tensor | None) -> None:
        torch._foreach_copy_([gradient_of(p) for p in parameters], gradients_of(outputs, parameters, slopes))

    return back


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


def gradient_of(parameter: Tensor) -> Tensor:
    """Return the memory for the gradient of `parameter`: a part of an optimizer's vector, or its own."""
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad
