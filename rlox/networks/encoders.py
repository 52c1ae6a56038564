"""Encoders of observations with images: a convolutional network for each image.

Inputs are rows of bytes (`rlox.envs.spaces`), which are converted to floating-point numbers here, on the
device. Pixels are divided by the greatest value that their space allows, usually 255.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rlox.errors import ConfigError, ShapeError
from rlox.networks.mlp import EnsembleMLP
from rlox.networks.noisy import apply_with_noise
from rlox.parameters.encoder_cost import EncoderCost

__all__ = [
    "CONVOLUTIONS",
    "EncodedCritics",
    "EncodedEnsemble",
    "EncodedNetwork",
    "Encoder",
    "ImageSpec",
    "SelectColumns",
    "add_encoder",
    "encoder_cost",
    "init_orthogonal_encoder",
]


# With channels_last memory, forward and backward passes take four fifths of the time with Nature
# (PPO, 84 x 84 x 4) and two thirds with IMPALA.
CHANNELS_LAST = torch.channels_last


class ImageSpec(NamedTuple):
    """The layout of an image: `[H, W]`, `[H, W, C]` or `[C, H, W]`, or K frames of one of these."""

    shape: tuple[int, ...]
    channels_first: bool
    max_value: float  # divisor of the pixels

    @property
    def planes(self) -> tuple[int, int, int]:
        """Channels (of all frames together), height and width."""
        if len(self.shape) == 2:
            return 1, self.shape[0], self.shape[1]
        frames = self.shape[0] if len(self.shape) == 4 else 1
        channels, height, width = self.shape[-3:]
        if not self.channels_first:
            height, width, channels = self.shape[-3:]
        return frames * channels, height, width

    def to_images(self, pixels: Tensor) -> Tensor:
        """Return pixels `[B, size]`, as rows contain them, as a view or copy `[B, C, H, W]`."""
        images = pixels.reshape(len(pixels), *self.shape)
        if len(self.shape) == 2:
            return images.unsqueeze(1)
        if not self.channels_first:
            images = images.movedim(-1, -3)
        return images.flatten(1, -3) if len(self.shape) == 4 else images


def nature_cnn(channels: int) -> nn.Sequential:
    """Return three convolutions of 8x8, 4x4 and 3x3 (Mnih et al. 2015, "Model architecture")."""
    return nn.Sequential(
        nn.Conv2d(channels, 32, 8, 4),
        nn.ReLU(),
        nn.Conv2d(32, 64, 4, 2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, 1),
        nn.ReLU(),
        nn.Flatten(),
    )


def small_cnn(channels: int) -> nn.Sequential:
    """Return three convolutions of 2x2, for grids of a few cells (as MiniGrid documents for 7x7)."""
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
    """x + conv(relu(conv(relu(x)))), with 3x3 convolutions that keep the number of channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """Compute `[B, channels, H, W]` from the same shape."""
        residual: Tensor = self.second(torch.relu(self.first(torch.relu(x))))
        return x + residual


def impala_cnn(channels: int) -> nn.Sequential:
    """Return three sections: convolution, pooling, two residual blocks (Espeholt et al. 2018, figure 3)."""
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


class ConvolutionSpec(NamedTuple):
    """A type of convolutional network."""

    make: Callable[[int], nn.Sequential]
    min_size: int  # minimum height and width of images
    features: int  # default width of the linear layer after it


CONVOLUTIONS = {
    "nature": ConvolutionSpec(nature_cnn, 36, 512),
    "impala": ConvolutionSpec(impala_cnn, 1, 256),
    "small": ConvolutionSpec(small_cnn, 4, 128),
}


class Encoder(nn.Module):
    """Maps rows `[..., dim]` of bytes to `[..., features]`: first the numbers, then each image's features.

    Parameters
    ----------
    numbers : number of float32 values at the start of a row
    images : the images after them, in order
    kinds : each image's network, one of `CONVOLUTIONS`, or `mlp`: the pixels are the features
    features : width of the linear layer with ReLU after each network; None: the default of the network
    """

    highs: Tensor  # [images], divisors of the pixels; saved, as the weights do not contain them

    def __init__(
        self,
        numbers: int,
        images: Sequence[ImageSpec],
        kinds: Sequence[str],
        features: int | None = None,
    ) -> None:
        super().__init__()
        self._number_bytes, self._images = 4 * numbers, tuple(images)
        self._image_sizes = [math.prod(image.shape) for image in images]
        self.dim = self._number_bytes + sum(self._image_sizes)
        nets = [_image_network(*pair, features) for pair in zip(images, kinds, strict=True)]
        self.nets = nn.ModuleList(net for net, _ in nets)
        self.register_buffer("highs", torch.tensor([image.max_value for image in images]))
        self.features = numbers + sum(width for _, width in nets)

    def forward(self, rows: Tensor) -> Tensor:
        """Encode `[..., dim]` uint8 as `[..., features]`."""
        if rows.dtype != torch.uint8 or rows.shape[-1] != self.dim:
            raise ShapeError(
                f"rows of shape {tuple(rows.shape)} {rows.dtype}, expected [..., {self.dim}] torch.uint8, as "
                "the environment's observations are encoded"
            )
        flat = rows.reshape(-1, self.dim)
        dtype = next((p.dtype for p in self.parameters()), torch.float32)
        features = []
        if self._number_bytes:  # a copy: the bytes may not be aligned for float32
            numbers = flat[:, : self._number_bytes].clone(memory_format=torch.contiguous_format)
            features.append(numbers.view(torch.float32).to(dtype))
        pixels = torch.split(flat[:, self._number_bytes :], self._image_sizes, -1)
        for net, image, image_pixels in zip(self.nets, self._images, pixels, strict=True):
            layout = torch.preserve_format if isinstance(net, nn.Flatten) else CHANNELS_LAST
            features.append(
                net(image.to_images(image_pixels).to(dtype, memory_format=layout).div_(image.max_value))
            )
        return torch.cat(features, -1).view(*rows.shape[:-1], self.features)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        """Load weights for the same divisors of pixels; raise `ConfigError` for others.

        Saved target networks have no divisors; the online network saved with them has.
        """
        name, own_highs = f"{prefix}highs", self.highs.tolist()
        saved_highs = state_dict.get(name, self.highs)
        if saved_highs.tolist() != own_highs:
            raise ConfigError(
                f"its networks see pixels divided by {saved_highs.tolist()}, these by {own_highs}; give it "
                "an environment whose images have the same greatest values"
            )
        super()._load_from_state_dict({**state_dict, name: saved_highs}, prefix, *rest)


def _image_network(image: ImageSpec, kind: str, features: int | None) -> tuple[nn.Module, int]:
    """Return the network of an image `[B, C, H, W]`, and its number of features."""
    if kind == "mlp":
        return nn.Flatten(), math.prod(image.shape)
    convolutions, size = _convolutions(image, kind, features)
    return nn.Sequential(
        *convolutions, nn.Linear(_flattened_size(convolutions, image), size), nn.ReLU()
    ), size


def _convolutions(image: ImageSpec, kind: str, features: int | None) -> tuple[nn.Sequential, int]:
    """Return the convolutions before the linear layer, and that layer's width."""
    spec = CONVOLUTIONS[kind]
    return spec.make(image.planes[0]), features or spec.features


def _flattened_size(convolutions: nn.Sequential, image: ImageSpec) -> int:
    """Return the number of values that convolutions compute for an image."""
    device = next(convolutions.parameters()).device
    with torch.no_grad():
        out: Tensor = convolutions(torch.zeros(1, *image.planes, device=device))
    return out.shape[-1]


def init_orthogonal_encoder(encoder: Encoder) -> None:
    """Set orthogonal weights of gain sqrt 2 and zero biases, as PPO does for images (Huang et al. 2022)."""
    for layer in encoder.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.orthogonal_(layer.weight, math.sqrt(2))
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)


def encoder_cost(
    numbers: int, images: Sequence[ImageSpec], kinds: Sequence[str], features: int | None = None
) -> EncoderCost:
    """Return the cost of the encoder with these arguments; its linear layers, maybe huge, are not built."""
    pixels = sum(math.prod(image.shape) for image in images)
    sizes, parameters, width = [4 * numbers + pixels], 0, numbers
    with torch.random.fork_rng(devices=[]):  # temporary weights; keep the generator's state
        for image, kind in zip(images, kinds, strict=True):
            if kind == "mlp":
                sizes.append(math.prod(image.shape))
                width += sizes[-1]
                continue
            convolutions, size = _convolutions(image, kind, features)
            layer_sizes = _layer_sizes(convolutions, image)
            sizes += [*layer_sizes, size, size]
            flat = layer_sizes[-1]
            parameters += sum(p.numel() for p in convolutions.parameters()) + (flat + 1) * size
            width += size
    return EncoderCost(parameters, sum(sizes), sum(sorted(sizes)[-2:]), width)


def _layer_sizes(convolutions: nn.Sequential, image: ImageSpec) -> list[int]:
    """Return the number of values that each layer computes for an image."""
    sizes: list[int] = []
    for layer in convolutions.modules():
        if not list(layer.children()):
            layer.register_forward_hook(lambda m, inputs, out: sizes.append(out.numel()))
    _flattened_size(convolutions, image)
    return sizes


class SelectColumns(nn.Module):
    """Keeps some columns of rows `[..., n]`: the features that an actor sees, if its critic sees more."""

    columns: Tensor  # int64; not saved, since the configuration and the space determine it

    def __init__(self, columns: Sequence[int]) -> None:
        super().__init__()
        self.register_buffer("columns", torch.tensor(columns, dtype=torch.int64), persistent=False)

    def forward(self, rows: Tensor) -> Tensor:
        """Return the columns `[..., len(columns)]`."""
        return rows.index_select(-1, self.columns)


class EncodedNetwork(nn.Module):
    """A network, perhaps noisy, after an encoder."""

    def __init__(self, encoder: nn.Module, net: nn.Module) -> None:
        super().__init__()
        self.encoder, self.net = encoder, net

    def forward(self, rows: Tensor, noise: Tensor | None = None) -> Tensor:
        """Compute the network's outputs for the encoded rows `[..., dim]`."""
        return apply_with_noise(self.net, self.encoder(rows), noise)


def add_encoder(encoder: nn.Module | None, net: Any) -> Any:
    """Return `net` after its own encoder, or `net` itself without one; an `nn.Sequential` stays one."""
    if encoder is None:
        return net
    return nn.Sequential(encoder, *net) if type(net) is nn.Sequential else EncodedNetwork(encoder, net)


class EncodedCritics(EnsembleMLP):
    """Critics of a class of their own after one shared encoder, which all of them train."""

    def __init__(self, encoder: Encoder, critics: EnsembleMLP) -> None:
        nn.Module.__init__(self)
        self.encoder, self.critics = encoder, critics

    def forward(self, x: Tensor, members: int | None = None) -> Tensor:
        """Compute `[members, B, out]` from rows `[B, dim]`."""
        outputs: Tensor = self.critics(self.encoder(x), members)
        return outputs

    def with_actions(self, rows: Tensor, actions: Tensor, members: int | None = None) -> Tensor:
        """Compute `[members, B, out]` from rows `[B, dim]` and actions `[B, act_dim]`."""
        return self.critics.with_actions(self.encoder(rows), actions, members)


class EncodedEnsemble(EnsembleMLP):
    """The members of `ensemble` after one shared encoder, which all of them train."""

    def __init__(self, encoder: Encoder, ensemble: EnsembleMLP) -> None:
        nn.Module.__init__(self)
        self.encoder = encoder
        self.weights, self.biases = ensemble.weights, ensemble.biases
        self.activation = ensemble.activation

    def forward(self, x: Tensor, members: int | None = None) -> Tensor:
        """Compute `[members, B, out]` from rows `[B, dim]`."""
        return super().forward(self.encoder(x), members)

    def with_actions(self, rows: Tensor, actions: Tensor, members: int | None = None) -> Tensor:
        """Compute `[members, B, out]` from rows `[B, dim]`; `actions` are appended to the features."""
        return super().forward(torch.cat([self.encoder(rows), actions], -1), members)
