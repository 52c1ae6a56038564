"""Observation codecs: from Gymnasium spaces to the flat arrays that a policy reads.

An observation becomes one row. Without images the row is float32: `Box` flattened, `Discrete` and
`MultiDiscrete` one-hot, the parts of a `Dict` or `Tuple` in sequence, at any depth. With images the row is
uint8, so that a pixel takes one byte. Such a row has first the four bytes of each number, then the unchanged
bytes of the images (docs/spaces.md).
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, NamedTuple, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox.errors import ConfigError, ShapeError
from rlox.masked_arrays import MASKED_MESSAGE, is_masked

__all__ = [
    "ADDRESS_PATTERN",
    "BYTE",
    "FLOAT",
    "NUMERIC_KINDS",
    "TRANSFORM_WRAPPER",
    "BinaryCodec",
    "ChoiceCodec",
    "Image",
    "ImageCodec",
    "ObservationCodec",
    "SpaceWithCodec",
    "format_space",
    "infinity_note",
    "shape_of",
]

RowsT = TypeVar("RowsT")  # arrays or tensors

FLOAT = np.dtype(np.float32)
BYTE = np.dtype(np.uint8)
NUMERIC_KINDS = "biuf"  # dtype kinds of real numbers
ADDRESS_PATTERN = re.compile(r" at 0x[0-9a-fA-F]+")  # a memory address in the `repr` of an object
TRANSFORM_WRAPPER = "gymnasium.wrappers.TransformObservation"


class SpaceWithCodec(spaces.Dict):
    """A Dict space that rlox makes from an environment's observations; it has a codec of its own."""

    @abstractmethod
    def codec(self, name: str) -> ObservationCodec:
        """Make the codec for these observations of the environment `name`."""


class Image(NamedTuple):
    """An image in a row of bytes."""

    name: str  # path of its part, such as "arm.camera"; empty if the image is the whole space
    shape: tuple[int, ...]
    high: float  # the highest value in its space, at least 1

    @property
    def size(self) -> int:
        """Size in bytes."""
        return prod(self.shape)

    def channels_first(self, n_frames: int = 1) -> bool | None:
        """Tell whether the channels, the shortest dimension of a frame, come first; `None` if it is unclear.

        In a stack of `n_frames` gray frames, the stacked frames are the channels.
        """
        if len(self.shape) == 2:
            return False
        if len(self.shape) == 3 and n_frames > 1:
            return True
        first_dim, height, last_dim = self.shape[-3:]
        is_first = first_dim < min(height, last_dim)
        return is_first if is_first != (last_dim < min(first_dim, height)) else None


@dataclass(frozen=True)
class ObservationCodec:
    """Encodes an observation of a single environment into a row `[dim]` of float32, or uint8 with images.

    The base class handles numbers: a flattened `Box`.
    """

    space: gym.Space[Any]
    dim: int
    parts: Mapping[str, slice] = field(default_factory=dict)  # of a Dict or Tuple: each part's numbers
    mask_dim: int = 0  # length of the action mask at the end of a row (`rlox.envs.masks`)
    images: tuple[Image, ...] = ()  # in the order of their bytes
    n_frames: int = 1  # frames in an observation, oldest first (`rlox.envs.frame_stacks`)

    @property
    def input_dim(self) -> int:
        """Number of columns that networks read: all but those of a mask."""
        return self.dim - self.mask_dim

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of a row: float32, or uint8 with images."""
        return BYTE if self.images else FLOAT

    @property
    def row_bytes(self) -> int:
        """Size of one row in bytes."""
        return self.dim * self.dtype.itemsize

    @cached_property  # read at every step
    def numeric_dim(self) -> int:
        """Number of numbers in a row, without images and mask."""
        if not self.images:
            return self.input_dim
        return (self.input_dim - sum(image.size for image in self.images)) // FLOAT.itemsize

    @property
    def one_hot_columns(self) -> Sequence[tuple[int, int]]:
        """For each one-hot integer: its first column among a row's numbers, and its count of values."""
        return ()

    @cached_property  # compared at every step
    def shape(self) -> Any:
        """The shape of one observation; for a Dict or Tuple, the shape of each part."""
        return self.space.shape

    @property
    def actor_numbers(self) -> Sequence[int] | None:
        """The numbers of a row that an actor sees, by index; `None` if it sees all that its critic sees."""
        return None

    def rows(self, *shape: int) -> NDArray[Any]:
        """Make rows `[*shape, dim]` of zeros."""
        return np.zeros((*shape, self.dim), self.dtype)

    def numeric_view(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Return a view of the numbers `[..., numbers]` in rows `[..., dim]`."""
        if not self.images:
            return rows[..., : self.input_dim] if self.mask_dim else rows
        return rows[..., : FLOAT.itemsize * self.numeric_dim].view(FLOAT)

    def with_masks(self, observation: Any, masks: Any) -> Any:
        """Prepare a user's observation, or a batch, for encoding.

        `masks` are the action masks; `None` without masks.
        """
        if masks is not None:
            raise ConfigError(
                "action_masks: this policy was made without masks (env.action_mask=none); leave them out, "
                "or train with env.action_mask=info, method or observation"
            )
        return observation

    def encode_into(self, observation: Any, row: NDArray[Any]) -> None:
        """Write one observation into `row` `[dim]`."""
        if self.images:
            self.write(observation, self.numeric_view(row), self.pixel_view(row))
        else:
            self.write(observation, row, row[:0])

    def encode_one(self, observation: Any) -> NDArray[Any]:
        """Encode one observation as a row `[1, dim]`."""
        row = self.rows(1)
        self.encode_into(observation, row[0])
        return row

    def encode_batch(self, observations: Any) -> NDArray[Any]:
        """Encode several observations `[N, ...]` as rows `[N, dim]`."""
        rows = self.rows(self.count(observations))
        pixels = self.pixel_view(rows) if self.images else rows[:, :0]
        self.write_batch(observations, self.numeric_view(rows), pixels)
        return rows

    def count(self, observations: Any) -> int:
        """Return N of a batch."""
        return len(observations)

    def write(self, observation: Any, numbers: NDArray[np.float32], pixels: NDArray[np.uint8]) -> None:
        """Write one observation into the numbers of a row `[numbers]` and into its image bytes."""
        array = observation
        if type(array) is not np.ndarray or array.dtype is not FLOAT:  # fast path for the usual type
            array = _numeric(observation)
        shape = array.shape
        if shape != self.shape:  # the same count of numbers in another shape is rejected
            _require_shape(shape, self.space)
        numbers[:] = array if len(shape) == 1 else array.reshape(-1)

    def write_batch(self, observations: Any, numbers: NDArray[np.float32], pixels: NDArray[np.uint8]) -> None:
        """Write a batch `[N, ...]` into `[N, numbers]` and `[N, bytes]`."""
        numbers[:] = _flatten_batch(_numeric(observations), numbers.shape, self.space)

    def is_single(self, observation: Any) -> bool:
        """Tell whether `observation` is one observation rather than a batch."""
        return np.ndim(observation) == len(self.space.shape or ())

    def split(self, rows: RowsT) -> dict[str, RowsT]:
        """Split rows `[..., dim]`, an array or a tensor, into parts by name: views `[..., part's dim]`.

        Integers stay one-hot. If the rows have images, each part is float32 numbers, the bytes of an image,
        or a row of both. Raises `ShapeError` for rows of another length, or if the space is no Dict or Tuple.
        """
        columns: Any = rows
        if not self.parts or columns.shape[-1:] != (self.dim,):
            raise ShapeError(
                f"rows of shape {tuple(columns.shape)} of {format_space(self.space)} cannot be split, "
                f"expected [..., {self.dim}] of a Dict or Tuple"
            )
        return {name: columns[..., part] for name, part in self.parts.items()}

    def join(self, parts: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Join parts `[..., part's dim]`, as `split` returns them, into rows `[..., dim]`, a new array.

        Raises `ShapeError` if names or lengths do not match the space.
        """
        raise ShapeError(
            f"parts of shapes {shape_of(parts)} cannot be joined: {format_space(self.space)} has no parts"
        )

    def pixel_view(self, rows: NDArray[Any]) -> NDArray[np.uint8]:
        """Return a view of the image bytes in uint8 rows `[..., dim]`."""
        return rows[..., FLOAT.itemsize * self.numeric_dim : self.input_dim]


class ChoiceCodec(ObservationCodec):
    """`Discrete` and `MultiDiscrete`: the one-hot code of each integer, counted from the space's start."""

    def write(self, observation: Any, numbers: NDArray[np.float32], pixels: NDArray[np.uint8]) -> None:
        """Write a 1 for each integer."""
        self.write_batch(_as_unmasked_array(observation)[None], numbers[None], pixels)

    def write_batch(self, observations: Any, numbers: NDArray[np.float32], pixels: NDArray[np.uint8]) -> None:
        """Write a 1 for each integer of each observation."""
        array, (sizes, starts) = _numeric(observations), self._sizes_and_starts
        flat = _flatten_batch(array, (len(numbers), len(sizes)), self.space)
        index = flat.astype(np.int64) - starts
        if (index != flat - starts).any() or not ((index >= 0) & (index < sizes)).all():
            raise ValueError(f"{array} is not in {self.space}")
        numbers[:] = 0.0
        numbers[np.arange(len(numbers))[:, None], self._first_columns + index] = 1.0

    @property
    def one_hot_columns(self) -> Sequence[tuple[int, int]]:
        """First column and count of values of each integer."""
        return list(zip(self._first_columns.tolist(), self._sizes_and_starts[0].tolist(), strict=True))

    @cached_property
    def _first_columns(self) -> NDArray[np.int64]:
        """The column of each integer's lowest value."""
        sizes = self._sizes_and_starts[0]
        return np.cumsum(sizes) - sizes

    @cached_property
    def _sizes_and_starts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The count of values of each integer, and its lowest value."""
        space: Any = self.space
        sizes = space.n if isinstance(space, spaces.Discrete) else space.nvec
        pairs = (np.asarray(numbers, np.int64).reshape(-1) for numbers in (sizes, space.start))
        return next(pairs), next(pairs)


class BinaryCodec(ObservationCodec):
    """`MultiBinary`, flattened; accepts only 0 and 1."""

    def write(self, observation: Any, numbers: NDArray[np.float32], pixels: NDArray[np.uint8]) -> None:
        """Write the numbers of one observation."""
        super().write(_binary(observation), numbers, pixels)

    def write_batch(self, observations: Any, numbers: NDArray[np.float32], pixels: NDArray[np.uint8]) -> None:
        """Write the numbers of each observation."""
        super().write_batch(_binary(observations), numbers, pixels)


class ImageCodec(ObservationCodec):
    """A uint8 `Box` that is an image: its bytes, unchanged."""

    def write(self, observation: Any, numbers: NDArray[np.float32], pixels: NDArray[np.uint8]) -> None:
        """Write the bytes of one image."""
        pixels[:] = self._require_shape(observation, self.space.shape or ()).reshape(-1)

    def write_batch(self, observations: Any, numbers: NDArray[np.float32], pixels: NDArray[np.uint8]) -> None:
        """Write the bytes of each image."""
        shape = (len(pixels), *(self.space.shape or ()))
        pixels[:] = self._require_shape(observations, shape).reshape(pixels.shape)

    def _require_shape(self, value: Any, shape: tuple[int, ...]) -> NDArray[np.uint8]:
        """Convert to uint8; `ValueError` for another shape, such as channels first instead of last."""
        pixels = _as_bytes(value)
        if pixels.shape != shape:
            raise ValueError(f"an image of shape {pixels.shape}, expected {shape}")
        return pixels


def _numeric(value: Any) -> NDArray[Any]:
    """Convert to a numeric array; `ValueError` for text, complex numbers and objects, which casts accept."""
    array = _as_unmasked_array(value)
    if array.dtype.kind not in NUMERIC_KINDS:
        raise ValueError(f"it has dtype {array.dtype}, expected real numbers")
    return array


def _as_unmasked_array(value: Any) -> NDArray[Any]:
    """Convert to an array; `ValueError` if an entry is masked, since the array would have a number there."""
    if type(value) is not np.ndarray and is_masked(value):
        raise ValueError(MASKED_MESSAGE)
    return np.asarray(value)


def _binary(value: Any) -> NDArray[Any]:
    """Convert to an array of 0 and 1; `ValueError` for other numbers."""
    array = _numeric(value)
    if not ((array == 0) | (array == 1)).all():
        raise ValueError("it has values other than 0 and 1")
    return array


def _flatten_batch(value: NDArray[Any], shape: tuple[int, ...], space: gym.Space[Any]) -> NDArray[Any]:
    """Reshape a batch `[N, ...]` of `space` to `shape` `[N, size]`; `ValueError` for another N or shape."""
    if len(value) != shape[0]:
        raise ValueError(f"a batch of {len(value)}, expected {shape[0]}")
    _require_shape(value.shape[1:], space)
    return value.reshape(shape)


def _require_shape(shape: tuple[int, ...], space: gym.Space[Any]) -> None:
    """Raise `ValueError` unless the shape is that of `space`; axes of length 1 are ignored."""
    expected = space.shape or ()
    if [n for n in shape if n != 1] != [n for n in expected if n != 1]:
        raise ValueError(f"it has the shape {shape}, expected {expected}")


def _as_bytes(value: Any) -> NDArray[np.uint8]:
    """Convert integers from 0 to 255 to uint8; `ValueError` for other values, which a cast would change."""
    array = _as_unmasked_array(value)
    if array.dtype == BYTE:
        return array
    if array.dtype.kind not in "iub" or not ((array >= 0) & (array <= 255)).all():
        raise ValueError(f"an image of {array.dtype}, expected uint8 from 0 to 255")
    return array.astype(BYTE)


def infinity_note(values: Any) -> str:
    """Return a note that infinity may come from an overflow; empty if `values` have no infinity."""
    return " (inf: infinity, or a number beyond float32, 3.4e38)" if np.isinf(values).any() else ""


def shape_of(observation: Any) -> Any:
    """Return the shape of an observation, or of each part of a mapping or tuple, for messages."""
    if isinstance(observation, Mapping):
        return {name: shape_of(part) for name, part in observation.items()}
    if isinstance(observation, tuple) and not all(np.isscalar(part) for part in observation):
        return tuple(shape_of(part) for part in observation)
    try:
        return np.shape(observation)
    except ValueError:
        return "of lists of unequal lengths"


def format_space(space: gym.Space[Any]) -> str:
    """Format a space for messages: one line of at most 120 characters."""
    text = ADDRESS_PATTERN.sub("", " ".join(str(space).split()))
    return text if len(text) <= 120 else text[:117] + "..."
