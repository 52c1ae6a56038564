"""Between Gymnasium spaces and flat arrays: what a policy sees.

An observation becomes one row. Without an image in it that is float32: `Box` flattened, `Discrete` and
`MultiDiscrete` one-hot, the parts of a `Dict` or `Tuple` one after the other, to any depth. With images it
is bytes, so that a pixel takes one: first the four bytes of each of those numbers, then the images as they
are (docs/spaces.md).
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

from rlox.errors import ConfigError, ShapeError, UnsupportedSpaceError
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
NUMERIC_KINDS = "biuf"  # the kinds of dtypes that are real numbers
ADDRESS_PATTERN = re.compile(r" at 0x[0-9a-fA-F]+")  # in memory, which says nothing to anybody
TRANSFORM_WRAPPER = "gymnasium.wrappers.TransformObservation"


class SpaceWithCodec(spaces.Dict):
    """A Dict that rlox puts around observations, with a codec of its own."""

    @abstractmethod
    def codec(self, name: str) -> ObservationCodec:
        """The codec for these observations of the environment `name`."""


class Image(NamedTuple):
    """An image in a row of bytes."""

    name: str  # of its part, "arm.camera" of a nested one; empty where the space is nothing else
    shape: tuple[int, ...]
    high: float  # the greatest value that its space allows, at least 1

    @property
    def size(self) -> int:
        """Its bytes."""
        return prod(self.shape)

    def channels_first(self, n_frames: int = 1) -> bool | None:
        """Whether its channels are the first dimension of a frame: the shorter one; `None`: it may be either.

        Of a stack of `n_frames` gray frames they are what is stacked.
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
    """Encodes one observation of a single environment into a row of `[dim]` float32, or bytes with images.

    This one is of numbers: a `Box`, flattened.
    """

    space: gym.Space[Any]
    dim: int
    parts: Mapping[str, slice] = field(default_factory=dict)  # of a Dict or Tuple, in its numbers
    mask_dim: int = 0  # columns at the end of a row that are a mask of actions (`rlox.envs.masks`)
    images: tuple[Image, ...] = ()  # in the order of their bytes
    n_frames: int = 1  # that an observation is a stack of, oldest first (`rlox.envs.frame_stacks`)

    @classmethod
    def of(cls, space: gym.Space[Any], name: str = "the environment") -> ObservationCodec:
        """The codec for `space`, or `UnsupportedSpaceError` saying what to wrap."""
        if isinstance(space, SpaceWithCodec):
            return space.codec(name)
        from rlox.envs.parts_codec import make_codec  # which is made of these here

        codec = make_codec(space, name)
        if not codec.dim:
            raise UnsupportedSpaceError(
                f"{name} has an empty {type(space).__name__} of observations, expected at least one number; "
                f"wrap it with {TRANSFORM_WRAPPER}"
            )
        return codec

    @property
    def input_dim(self) -> int:
        """The columns that networks see: all but those of a mask."""
        return self.dim - self.mask_dim

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of a row: float32, or uint8 where there is an image."""
        return BYTE if self.images else FLOAT

    @property
    def row_bytes(self) -> int:
        """Memory of one row."""
        return self.dim * self.dtype.itemsize

    @cached_property  # asked for at every step
    def numeric_dim(self) -> int:
        """How many numbers a row has, apart from images and a mask."""
        if not self.images:
            return self.input_dim
        return (self.input_dim - sum(image.size for image in self.images)) // FLOAT.itemsize

    @property
    def one_hot_columns(self) -> Sequence[tuple[int, int]]:
        """Of each integer that is one-hot, its first column in a row's numbers and how many values it has."""
        return ()

    @cached_property  # compared at every step
    def shape(self) -> Any:
        """The shape of one observation; of a Dict or Tuple the shape of each part."""
        return self.space.shape

    def rows(self, *shape: int) -> NDArray[Any]:
        """Rows `[*shape, dim]` of zeros."""
        return np.zeros((*shape, self.dim), self.dtype)

    def numeric_view(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """A view of the numbers `[..., numbers]` in rows `[..., dim]`."""
        if not self.images:
            return rows[..., : self.input_dim] if self.mask_dim else rows
        return rows[..., : FLOAT.itemsize * self.numeric_dim].view(FLOAT)

    def with_masks(self, observation: Any, masks: Any) -> Any:
        """What a user gives, one observation or a batch, in the form that is encoded.

        `masks` are of the actions that are allowed, `None` where none are given.
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
        """One observation as a row `[1, dim]`."""
        row = self.rows(1)
        self.encode_into(observation, row[0])
        return row

    def encode_batch(self, observations: Any) -> NDArray[Any]:
        """Several observations `[N, ...]` as rows `[N, dim]`."""
        rows = self.rows(self.count(observations))
        pixels = self.pixel_view(rows) if self.images else rows[:, :0]
        self.write_batch(observations, self.numeric_view(rows), pixels)
        return rows

    def count(self, observations: Any) -> int:
        """N of a batch."""
        return len(observations)

    def write(self, observation: Any, numbers: NDArray[np.float32], pixels: NDArray[np.uint8]) -> None:
        """Write one observation into what a row has of `[numbers]`, and of bytes of images."""
        array = observation
        if type(array) is not np.ndarray or array.dtype is not FLOAT:  # most are, at every step
            array = _numeric(observation)
        shape = array.shape
        if shape != self.shape:  # as many numbers in another order are another observation
            _require_shape(shape, self.space)
        numbers[:] = array if len(shape) == 1 else array.reshape(-1)

    def write_batch(self, observations: Any, numbers: NDArray[np.float32], pixels: NDArray[np.uint8]) -> None:
        """The same of several, `[N, ...]` into `[N, numbers]` and `[N, bytes]`."""
        numbers[:] = _flatten_batch(_numeric(observations), numbers.shape, self.space)

    def is_single(self, observation: Any) -> bool:
        """Whether `observation` is one observation rather than a batch of them."""
        return np.ndim(observation) == len(self.space.shape or ())

    def split(self, rows: RowsT) -> dict[str, RowsT]:
        """The parts of rows `[..., dim]`, an array or a tensor, by name: views `[..., part's dim]`.

        Integers stay one-hot. Of rows with images a part is float32, bytes of an image, or again a row of
        both. `ShapeError` for rows of another length, or where the space is no Dict or Tuple: its rows have
        no parts.
        """
        columns: Any = rows
        if not self.parts or columns.shape[-1:] != (self.dim,):
            raise ShapeError(
                f"rows of shape {tuple(columns.shape)} of {format_space(self.space)} cannot be split, "
                f"expected [..., {self.dim}] of a Dict or Tuple"
            )
        return {name: columns[..., part] for name, part in self.parts.items()}

    def join(self, parts: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Rows `[..., dim]` of parts `[..., part's dim]`, as `split` gives them; a new array.

        `ShapeError` where names or lengths are not those of the space.
        """
        raise ShapeError(
            f"parts of shapes {shape_of(parts)} cannot be joined: {format_space(self.space)} has none"
        )

    def pixel_view(self, rows: NDArray[Any]) -> NDArray[np.uint8]:
        """A view of the images' bytes in rows `[..., dim]` of bytes."""
        return rows[..., FLOAT.itemsize * self.numeric_dim : self.input_dim]


class ChoiceCodec(ObservationCodec):
    """`Discrete` and `MultiDiscrete`: one-hot, integer after integer, each from the space's start."""

    def write(self, observation: Any, numbers: NDArray[np.float32], pixels: NDArray[np.uint8]) -> None:
        """A 1 for each integer."""
        self.write_batch(_as_unmasked_array(observation)[None], numbers[None], pixels)

    def write_batch(self, observations: Any, numbers: NDArray[np.float32], pixels: NDArray[np.uint8]) -> None:
        """A 1 for each integer of each."""
        array, (sizes, starts) = _numeric(observations), self._sizes_and_starts
        flat = _flatten_batch(array, (len(numbers), len(sizes)), self.space)
        index = flat.astype(np.int64) - starts
        if (index != flat - starts).any() or not ((index >= 0) & (index < sizes)).all():
            raise ValueError(f"{array} is not in {self.space}")
        numbers[:] = 0.0
        numbers[np.arange(len(numbers))[:, None], self._first_columns + index] = 1.0

    @property
    def one_hot_columns(self) -> Sequence[tuple[int, int]]:
        """Of each integer its first column and how many values it has."""
        return list(zip(self._first_columns.tolist(), self._sizes_and_starts[0].tolist(), strict=True))

    @cached_property
    def _first_columns(self) -> NDArray[np.int64]:
        """The column of each integer's lowest value."""
        sizes = self._sizes_and_starts[0]
        return np.cumsum(sizes) - sizes

    @cached_property
    def _sizes_and_starts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many values each integer has, and its lowest."""
        space: Any = self.space
        sizes = space.n if isinstance(space, spaces.Discrete) else space.nvec
        pairs = (np.asarray(numbers, np.int64).reshape(-1) for numbers in (sizes, space.start))
        return next(pairs), next(pairs)


class BinaryCodec(ObservationCodec):
    """`MultiBinary`, flattened: nothing but 0 and 1."""

    def write(self, observation: Any, numbers: NDArray[np.float32], pixels: NDArray[np.uint8]) -> None:
        """The numbers of one."""
        super().write(_binary(observation), numbers, pixels)

    def write_batch(self, observations: Any, numbers: NDArray[np.float32], pixels: NDArray[np.uint8]) -> None:
        """The numbers of each."""
        super().write_batch(_binary(observations), numbers, pixels)


class ImageCodec(ObservationCodec):
    """A `Box` of uint8 that is an image: its bytes, as they lie."""

    def write(self, observation: Any, numbers: NDArray[np.float32], pixels: NDArray[np.uint8]) -> None:
        """The bytes of one."""
        pixels[:] = self._require_shape(observation, self.space.shape or ()).reshape(-1)

    def write_batch(self, observations: Any, numbers: NDArray[np.float32], pixels: NDArray[np.uint8]) -> None:
        """The bytes of each."""
        shape = (len(pixels), *(self.space.shape or ()))
        pixels[:] = self._require_shape(observations, shape).reshape(pixels.shape)

    def _require_shape(self, value: Any, shape: tuple[int, ...]) -> NDArray[np.uint8]:
        """Bytes of this very shape: with its channels elsewhere an image has as many."""
        pixels = _as_bytes(value)
        if pixels.shape != shape:
            raise ValueError(f"an image of shape {pixels.shape}, expected {shape}")
        return pixels


def _numeric(value: Any) -> NDArray[Any]:
    """An array of numbers; `ValueError` for text, complex numbers and objects, of which a cast makes some."""
    array = _as_unmasked_array(value)
    if array.dtype.kind not in NUMERIC_KINDS:
        raise ValueError(f"it is of {array.dtype}, expected real numbers")
    return array


def _as_unmasked_array(value: Any) -> NDArray[Any]:
    """As an array; `ValueError` where some of it is masked, which an array would show as numbers."""
    if type(value) is not np.ndarray and is_masked(value):
        raise ValueError(MASKED_MESSAGE)
    return np.asarray(value)


def _binary(value: Any) -> NDArray[Any]:
    """An array of 0 and 1; `ValueError` for others."""
    array = _numeric(value)
    if not ((array == 0) | (array == 1)).all():
        raise ValueError("not all of it is 0 or 1")
    return array


def _flatten_batch(value: NDArray[Any], shape: tuple[int, ...], space: gym.Space[Any]) -> NDArray[Any]:
    """A batch `[N, ...]` of `space` as `shape` `[N, size]`; `ValueError` where it has another N or shape."""
    if len(value) != shape[0]:
        raise ValueError(f"{len(value)} of them, expected {shape[0]}")
    _require_shape(value.shape[1:], space)
    return value.reshape(shape)


def _require_shape(shape: tuple[int, ...], space: gym.Space[Any]) -> None:
    """`ValueError` for another shape than that of `space`, but for axes of length 1."""
    expected = space.shape or ()
    if [n for n in shape if n != 1] != [n for n in expected if n != 1]:
        raise ValueError(f"it has the shape {shape}, expected {expected}")


def _as_bytes(value: Any) -> NDArray[np.uint8]:
    """Whole numbers from 0 to 255; `ValueError` for others, which a cast would make into some."""
    array = _as_unmasked_array(value)
    if array.dtype == BYTE:
        return array
    if array.dtype.kind not in "iub" or not ((array >= 0) & (array <= 255)).all():
        raise ValueError(f"an image of {array.dtype}, expected uint8 from 0 to 255")
    return array.astype(BYTE)


def infinity_note(values: Any) -> str:
    """Of numbers as they are stored what infinity among them may have been, for messages."""
    return " (inf: infinity, or a number beyond float32, 3.4e38)" if np.isinf(values).any() else ""


def shape_of(observation: Any) -> Any:
    """The shape of an observation, or of each part of a mapping or tuple, for messages."""
    if isinstance(observation, Mapping):
        return {name: shape_of(part) for name, part in observation.items()}
    if isinstance(observation, tuple) and not all(np.isscalar(part) for part in observation):
        return tuple(shape_of(part) for part in observation)
    try:
        return np.shape(observation)
    except ValueError:
        return "of lists of unequal lengths"


def format_space(space: gym.Space[Any]) -> str:
    """The text of a space for messages, one line of 120 letters at most."""
    text = ADDRESS_PATTERN.sub("", " ".join(str(space).split()))
    return text if len(text) <= 120 else text[:117] + "..."
