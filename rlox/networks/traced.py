"""What a network says, and the way back from it: gradients without a graph where they are written out.

A learner asks a network once and goes back once. With the small networks of reinforcement learning the
graph that torch makes for that takes as long as the arithmetic, so that layers of a kind we know come with
their gradients written out (`rlox.networks.layers`); any other network goes back by torch's autograd.
Either way the gradients of parameters are what is in their `grad` afterwards, whatever was there before.
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
    "learned",
    "require_gradient",
    "require_trainable_values",
    "way_back",
]


REGISTRATION_REMEDY = (
    "keep layers as attributes or in a torch.nn.ModuleList, not in a plain list, and detach nothing"
)


class Traced(ABC):
    """`out`, without gradient, of one input, and two ways back, of which one is gone, once.

    Made and used where autograd records nothing. `parameters` are those that `learn` writes gradients of.
    """

    out: Tensor
    parameters: Sequence[Tensor]

    @abstractmethod
    def learn(self, gradient: Tensor) -> None:
        """The gradients of the parameters, for that of `out`."""

    @abstractmethod
    def back(self, gradient: Tensor) -> Tensor:
        """The gradient of the input, for that of `out`; parameters keep theirs."""


class Graph(Traced):
    """Of any function of `x` with `parameters`, by autograd."""

    def __init__(
        self, function: Callable[[Tensor], Tensor], x: Tensor, parameters: Iterable[nn.Parameter]
    ) -> None:
        with torch.enable_grad():
            self._x = x.detach().requires_grad_(x.is_floating_point())  # bytes have none
            self._out = function(self._x)
        self.out = self._out.detach()
        self.parameters = learned(parameters)
        self._learn = way_back([self._out], self.parameters)

    def learn(self, gradient: Tensor) -> None:
        """By the graph."""
        self._learn(gradient)

    def back(self, gradient: Tensor) -> Tensor:
        """By the graph."""
        require_gradient("what the network says has", self._out)
        found: Tensor | None
        (found,) = torch.autograd.grad(self._out, self._x, gradient, allow_unused=True)
        if found is None:
            raise ConfigError(
                "nothing can be learned: no gradient leads from what the network says to what it was given; "
                "the network must not detach it"
            )
        return found


def require_gradient(subject: str, output: Tensor) -> None:
    """`ConfigError`, with what is said to have none (`subject`), where autograd recorded nothing of an
    output.
    """
    if not output.requires_grad:
        raise _missing_gradient_error(subject)


def _missing_gradient_error(subject: str) -> ConfigError:
    return ConfigError(
        f"nothing can be learned: {subject} no gradient; it must not be computed under torch.no_grad() or "
        "torch.inference_mode(), nor be detached, and a parameter behind it must have requires_grad=True"
    )


def require_trainable_values(get_values: Callable[[], object], log_prob: Tensor, module: nn.Module) -> None:
    """`ConfigError` where values without gradient come from parameters that only they could train.

    `get_values` gives the values again. A constant, and what frozen layers say, has nothing to learn; nor has
    what the actor says, which the log-probability trains.
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
    """The ids of the parameters whose numbers torch's functions are given."""

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
        # `weight.device`, `weight.new_zeros(n)` and `zeros_like(weight)` read no number of it
        if name != "__get__" and not name.startswith("new_") and not name.endswith("_like"):
            arguments = [*args, *keywords.values()]
            for argument in arguments:
                if isinstance(argument, list | tuple):
                    arguments += argument
                elif isinstance(argument, nn.Parameter):
                    self.parameter_ids.add(id(argument))
        return func(*args, **keywords)


def learned(parameters: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    """Those that are not frozen."""
    return [p for p in parameters if p.requires_grad]


def way_back(outputs: Sequence[Tensor], parameters: Sequence[nn.Parameter]) -> Callable[..., None]:
    """From `outputs` of autograd: takes a gradient for each, None: 0, and leaves those of `parameters`.

    Where autograd recorded nothing of any output, or of no parameter, going back is a `ConfigError`.
    """

    def back(*gradients: Tensor | None) -> None:
        pairs = [
            (out, gradient.sum_to_size(out.shape))
            for out, gradient in zip(outputs, gradients, strict=True)
            if gradient is not None and out.requires_grad
        ]
        if not pairs:
            raise _missing_gradient_error("what the network says has")
        outs, slopes = zip(*pairs, strict=True)
        found = torch.autograd.grad(outs, parameters, slopes, allow_unused=True)
        if parameters and all(gradient is None for gradient in found):
            raise ConfigError(
                "nothing can be learned: what the network says depends on none of its parameters; "
                f"{REGISTRATION_REMEDY}"
            )
        torch._foreach_copy_(
            [gradient_of(p) for p in parameters],
            [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)],
        )

    return back


def gradient_of(parameter: Tensor) -> Tensor:
    """Where the gradient of `parameter` is to be written: an optimizer's part, or memory of its own."""
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad
