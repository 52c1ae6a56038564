"""What makes features of observations with images in them: a convolutional network for each image.

Rows of bytes come in (`rlox.envs.spaces`) and become floating-point numbers here, on the device. Pixels are
divided by the greatest value that their space allows, 255 of a picture.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rlox.errors import ConfigError, ShapeError
from rlox.networks.ensemble import EnsembleMLP
from rlox.networks.noisy import apply
from rlox.networks.traced import Graph, Traced
from rlox.parameters.cost import Cost

__all__ = [
    "CONVOLUTIONS",
    "Behind",
    "EncodedEnsemble",
    "Encoder",
    "Picture",
    "behind",
    "cost_of",
    "orthogonal_encoder",
]


# Where the pixels of an image lie side by side, with all their channels, Nature takes four fifths of the time
# forwards and back (PPO, 84 x 84 x 4) and IMPALA two thirds.
LAST = torch.channels_last


class Picture(NamedTuple):
    """An image as networks take it: `[H, W]`, `[H, W, C]` or `[C, H, W]`, or K frames of such."""

    shape: tuple[int, ...]
    channels_first: bool
    high: float  # what its pixels are divided by

    @property
    def planes(self) -> tuple[int, int, int]:
        """Channels, of all frames together, height and width."""
        if len(self.shape) == 2:
            return 1, self.shape[0], self.shape[1]
        frames = self.shape[0] if len(self.shape) == 4 else 1
        channels, height, width = self.shape[-3:]
        if not self.channels_first:
            height, width, channels = self.shape[-3:]
        return frames * channels, height, width

    def of(self, pixels: Tensor) -> Tensor:
        """`[B, size]` as they lie in a row, as a view or a copy `[B, C, H, W]`."""
        images = pixels.reshape(len(pixels), *self.shape)
        if len(self.shape) == 2:
            return images.unsqueeze(1)
        if not self.channels_first:
            images = images.movedim(-1, -3)
        return images.flatten(1, -3) if len(self.shape) == 4 else images


def nature(channels: int) -> nn.Sequential:
    """Three convolutions, of 8x8, 4x4 and 3x3 (Mnih et al. 2015, "Model architecture")."""
    return nn.Sequential(
        nn.Conv2d(channels, 32, 8, 4),
        nn.ReLU(),
        nn.Conv2d(32, 64, 4, 2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, 1),
        nn.ReLU(),
        nn.Flatten(),
    )


def small(channels: int) -> nn.Sequential:
    """Three convolutions of 2x2, for grids of a few cells (as for MiniGrid's 7x7 in its documentation)."""
    return nn.Sequential(
        nn.Conv2d(channels, 16, 2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 2),
        nn.ReLU(),
        nn.Conv2d(32, 64, 2),
        nn.ReLU(),
        nn.Flatten(),
    )


class Residual(nn.Module):
    """x + conv(relu(conv(relu(x)))), 3x3, of `channels`."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """`[B, channels, H, W]` to the same."""
        more: Tensor = self.second(torch.relu(self.first(torch.relu(x))))
        return x + more


def impala(channels: int) -> nn.Sequential:
    """Three sections of a convolution, a pooling, two residual blocks (Espeholt et al. 2018, figure 3)."""
    layers: list[nn.Module] = []
    for width in (16, 32, 32):
        layers += [
            nn.Conv2d(channels, width, 3, padding=1),
            nn.MaxPool2d(3, 2, padding=1),
            Residual(width),
            Residual(width),
        ]
        channels = width
    return nn.Sequential(*layers, nn.ReLU(), nn.Flatten())


class Convolutions(NamedTuple):
    """A kind of network for images."""

    make: Callable[[int], nn.Sequential]
    least: int  # height and width that it takes
    features: int  # of the linear layer behind it, unless they are said


CONVOLUTIONS = {
    "nature": Convolutions(nature, 36, 512),
    "impala": Convolutions(impala, 1, 256),
    "small": Convolutions(small, 4, 128),
}


class Encoder(nn.Module):
    """Rows `[..., dim]` of bytes to features `[..., features]`: the numbers as they are, then each image's.

    Parameters
    ----------
    numbers : float32 numbers that a row begins with
    pictures : the images behind them, in turn
    kinds : of each picture's network, of `CONVOLUTIONS`, or `mlp`: its pixels as they are
    features : of the linear layer with ReLU behind each network; None: as many as is usual for its kind
    """

    highs: Tensor  # [pictures], what pixels are divided by: saved, as weights say nothing of it

    def __init__(
        self,
        numbers: int,
        pictures: Sequence[Picture],
        kinds: Sequence[str],
        features: int | None = None,
    ) -> None:
        super().__init__()
        self._numbers, self._pictures = 4 * numbers, tuple(pictures)
        self._cuts = [math.prod(picture.shape) for picture in pictures]
        self.dim = self._numbers + sum(self._cuts)
        nets = [_net(*pair, features) for pair in zip(pictures, kinds, strict=True)]
        self.nets = nn.ModuleList(net for net, _ in nets)
        self.register_buffer("highs", torch.tensor([picture.high for picture in pictures]))
        self.features = numbers + sum(width for _, width in nets)

    def forward(self, rows: Tensor) -> Tensor:
        """`[..., dim]` uint8 to `[..., features]`."""
        if rows.dtype != torch.uint8 or rows.shape[-1] != self.dim:
            raise ShapeError(
                f"rows of shape {tuple(rows.shape)} {rows.dtype}, expected [..., {self.dim}] torch.uint8, as "
                "the environment's observations are encoded"
            )
        flat = rows.reshape(-1, self.dim)
        kind = next((p.dtype for p in self.parameters()), torch.float32)
        said = []
        if self._numbers:  # a copy, as four bytes in a row need not lie where a number may
            numbers = flat[:, : self._numbers].clone(memory_format=torch.contiguous_format)
            said.append(numbers.view(torch.float32).to(kind))
        pixels = torch.split(flat[:, self._numbers :], self._cuts, -1)
        for net, picture, part in zip(self.nets, self._pictures, pixels, strict=True):
            layout = torch.preserve_format if isinstance(net, nn.Flatten) else LAST
            said.append(net(picture.of(part).to(kind, memory_format=layout).div_(picture.high)))
        return torch.cat(said, -1).view(*rows.shape[:-1], self.features)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        """Weights for pixels that are divided by the same; `ConfigError` for those of other ones.

        Those of target networks do not say it: they come with others that do.
        """
        name, here = f"{prefix}highs", self.highs.tolist()
        there = state_dict.get(name, self.highs)
        if there.tolist() != here:
            raise ConfigError(
                f"its networks see pixels divided by {there.tolist()}, these by {here}; give it an "
                "environment whose images have the same greatest values"
            )
        super()._load_from_state_dict({**state_dict, name: there}, prefix, *rest)


def _net(picture: Picture, kind: str, features: int | None) -> tuple[nn.Module, int]:
    """The network of a picture `[B, C, H, W]`, and how many features it gives."""
    if kind == "mlp":
        return nn.Flatten(), math.prod(picture.shape)
    convolutions, size = _convolutions(picture, kind, features)
    return nn.Sequential(
        *convolutions, nn.Linear(_flat(convolutions, picture), size), nn.ReLU()
    ), size


def _convolutions(picture: Picture, kind: str, features: int | None) -> tuple[nn.Sequential, int]:
    """What a linear layer of so many features comes behind."""
    made = CONVOLUTIONS[kind]
    return made.make(picture.planes[0]), features or made.features


def _flat(convolutions: nn.Sequential, picture: Picture) -> int:
    """How many numbers convolutions make of a picture."""
    device = next(convolutions.parameters()).device
    with torch.no_grad():
        out: Tensor = convolutions(torch.zeros(1, *picture.planes, device=device))
    return out.shape[-1]


def orthogonal_encoder(encoder: Encoder) -> None:
    """Orthogonal weights of gain sqrt 2 and zero biases, as PPO has them for images (Huang et al. 2022)."""
    for layer in encoder.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.orthogonal_(layer.weight, math.sqrt(2))
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)


def cost_of(
    numbers: int, pictures: Sequence[Picture], kinds: Sequence[str], features: int | None = None
) -> Cost:
    """What the encoder of these arguments takes, before there is one: its linear layers may be huge."""
    pixels = sum(math.prod(picture.shape) for picture in pictures)
    sizes, parameters, width = [4 * numbers + pixels], 0, numbers
    with torch.random.fork_rng(devices=[]):  # the weights here are nobody's
        for picture, kind in zip(pictures, kinds, strict=True):
            if kind == "mlp":
                sizes.append(math.prod(picture.shape))
                width += sizes[-1]
                continue
            convolutions, size = _convolutions(picture, kind, features)
            given = _given(convolutions, picture)
            sizes += [*given, size, size]
            flat = given[-1]
            parameters += sum(p.numel() for p in convolutions.parameters()) + (flat + 1) * size
            width += size
    return Cost(parameters, sum(sizes), sum(sorted(sizes)[-2:]), width)


def _given(convolutions: nn.Sequential, picture: Picture) -> list[int]:
    """How many numbers each layer makes of a picture."""
    found: list[int] = []
    for layer in convolutions.modules():
        if not list(layer.children()):
            layer.register_forward_hook(lambda m, given, out: found.append(out.numel()))
    _flat(convolutions, picture)
    return found


class Behind(nn.Module):
    """A network, perhaps with noise, behind an encoder."""

    def __init__(self, encoder: nn.Module, net: nn.Module) -> None:
        super().__init__()
        self.encoder, self.net = encoder, net

    def forward(self, rows: Tensor, noise: Tensor | None = None) -> Tensor:
        """The network of what the encoder makes of rows `[..., dim]`."""
        return apply(self.net, self.encoder(rows), noise)


def behind(encoder: Encoder | None, net: Any) -> Any:
    """`net` behind an encoder of its own; itself where there is none. Layers in a row stay so."""
    if encoder is None:
        return net
    return nn.Sequential(encoder, *net) if type(net) is nn.Sequential else Behind(encoder, net)


class EncodedEnsemble(EnsembleMLP):
    """The members of `ensemble` behind one encoder, which all of them train."""

    def __init__(self, encoder: Encoder, ensemble: EnsembleMLP) -> None:
        nn.Module.__init__(self)
        self.encoder = encoder
        self.weights, self.biases = ensemble.weights, ensemble.biases
        self.activation = ensemble.activation

    def forward(self, x: Tensor, members: int | None = None) -> Tensor:
        """Rows `[B, dim]` to `[members, B, out]`."""
        return super().forward(self.encoder(x), members)

    def trace(self, x: Tensor, members: int | None = None) -> Traced:
        """`forward`, and its gradients by autograd."""
        return Graph(lambda rows: self(rows, members), x, self.parameters())

    def trace_vectors(self, obs: Tensor, actions: Tensor, members: int | None = None) -> Traced:
        """Of rows `[B, dim]` beside vectors `[B, act_dim]`, to which its `back` goes."""
        plain = super().forward
        return Graph(
            lambda given: plain(torch.cat([self.encoder(obs), given], -1), members),
            actions,
            self.parameters(),
        )
