"""Linear layers with learned noise, which replaces epsilon-greedy exploration (Fortunato et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from rlox.networks.mlp import ACTIVATIONS, require_activation
from rlox.rng import Streams

__all__ = [
    "NoisyLinear",
    "NoisyMLP",
    "apply_with_noise",
    "factorized_noise",
    "keyed_factorized_noise",
    "noise_size",
]


class NoisyLinear(nn.Module):
    """y = (W + S * f(e_out) f(e_in)^T) x + b + s * f(e_out), factorised noise (equations 9 to 11).

    Initially W, b ~ U(-1/sqrt p, 1/sqrt p) and S, s = `sigma` / sqrt p for p inputs (section 3.2). Noise
    is an argument, so none has to be saved, and the layer is deterministic without it.
    """

    def __init__(self, inputs: int, outputs: int, sigma: float) -> None:
        super().__init__()
        self.inputs, self.outputs = inputs, outputs
        bound = inputs**-0.5
        self.weight = nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound))
        self.weight_sigma = nn.Parameter(torch.full((outputs, inputs), sigma * bound))
        self.bias_sigma = nn.Parameter(torch.full((outputs,), sigma * bound))

    def forward(self, x: Tensor, noise: Tensor | None = None) -> Tensor:
        """Compute `[..., p]` -> `[..., q]`; `noise` is f(e_in) and f(e_out), `[p + q]`; None: no noise."""
        mean = functional.linear(x, self.weight, self.bias)
        if noise is None:
            return mean
        input_noise, output_noise = noise[: self.inputs], noise[self.inputs :]
        # the noisy weights are never computed: the factors are applied to inputs and outputs
        noisy_term = functional.linear(x * input_noise, self.weight_sigma, self.bias_sigma)
        return torch.addcmul(mean, noisy_term, output_noise)


class NoisyMLP(nn.Module):
    """`mlp` with noisy layers; with `activate_last` also with an activation after the last one."""

    def __init__(
        self, sizes: Sequence[int], activation: str, sigma: float, activate_last: bool = False
    ) -> None:
        super().__init__()
        require_activation(activation)
        pairs = list(pairwise(sizes))
        self.layers = nn.ModuleList(NoisyLinear(*pair, sigma) for pair in pairs)
        self.activation = ACTIVATIONS[activation]()
        self._n_activations = len(pairs) if activate_last else len(pairs) - 1
        self._noise_sizes = [p + q for p, q in pairs]

    def forward(self, x: Tensor, noise: Tensor | None = None) -> Tensor:
        """Compute `[..., sizes[0]]` -> `[..., sizes[-1]]`; `noise` has the factors of all layers in order."""
        parts = () if noise is None else torch.split(noise, self._noise_sizes)
        for n, layer in enumerate(self.layers):
            x = layer(x, parts[n] if parts else None)
            if n < self._n_activations:
                x = self.activation(x)
        return x


def apply_with_noise(net: nn.Module, x: Tensor, noise: Tensor | None) -> Tensor:
    """Return `net(x)`, with `noise` if it is given; only noisy networks accept it."""
    y: Tensor = net(x) if noise is None else net(x, noise)
    return y


def noise_size(net: nn.Module) -> int:
    """Return the number of noise factors of the noisy layers in `net`, 0 without such layers."""
    return sum(m.inputs + m.outputs for m in net.modules() if isinstance(m, NoisyLinear))


def factorized_noise(shape: tuple[int, ...], generator: torch.Generator | None = None) -> Tensor:
    """Draw f(e) = sgn(e) sqrt|e| of standard normal e, `shape` (equation 11)."""
    device = "cpu" if generator is None else generator.device
    e = torch.randn(shape, generator=generator, device=device)
    return e.abs().sqrt_().copysign_(e)


def keyed_factorized_noise(seed: int, stream: str, index: int, shape: tuple[int, ...]) -> Tensor:
    """Draw `factorized_noise` as a function of the run's seed, the name of a stream and an index in it."""
    return factorized_noise(shape, Streams(seed).generator(stream, index))
