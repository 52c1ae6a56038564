"""Choice of a space's codec, and the codec for Dict and Tuple spaces, which uses a codec for each part."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox.envs.action_parts import require_choices_fit, require_width
from rlox.envs.spaces import (
    BYTE,
    FLOAT,
    NUMERIC_KINDS,
    TRANSFORM_WRAPPER,
    BinaryCodec,
    ChoiceCodec,
    Image,
    ImageCodec,
    ObservationCodec,
    RowsT,
    SpaceWithCodec,
    format_space,
    shape_of,
)
from rlox.errors import ShapeError, UnsupportedSpaceError

__all__ = ["OBSERVATION", "PartsCodec", "codec_of", "is_image"]

OBSERVATION = "observation"  # the part with an environment's own observation, where a wrapper adds parts

# By class of space: how to make other observations than numbers and images usable for learning.
REMEDIES = {
    spaces.Text: "set env.wrappers=[flatten_observation], which makes numbers of its letters, "
    "or remove it from a Dict with gymnasium.wrappers.FilterObservation",
    spaces.Sequence: f"pad it to a Box of fixed length with {TRANSFORM_WRAPPER}",
    spaces.Graph: f"give its nodes and edges as Boxes of fixed sizes with {TRANSFORM_WRAPPER}",
    spaces.OneOf: f"make it a Dict with a part for each of its spaces with {TRANSFORM_WRAPPER}",
}


# A MiniGrid space gets its own hint; it is recognised by the keys of its Dict.
MINIGRID_KEYS = frozenset({"image", "mission"})
MINIGRID_REMEDY = "set env.wrappers=[minigrid_flat], or env.wrappers=[minigrid_image] for its image alone"


def codec_of(space: gym.Space[Any], name: str = "the environment") -> ObservationCodec:
    """Make the codec for `space`; `UnsupportedSpaceError` says how to wrap a space that does not fit."""
    if isinstance(space, SpaceWithCodec):
        return space.codec(name)
    codec = _make_codec(space, name)
    if not codec.dim:
        raise UnsupportedSpaceError(
            f"{name} has an empty {type(space).__name__} of observations, expected at least one number; "
            f"wrap it with {TRANSFORM_WRAPPER}"
        )
    return codec


def _make_codec(
    space: gym.Space[Any], name: str, sibling_keys: frozenset[str] = frozenset()
) -> ObservationCodec:
    """Make the codec for a space or a part of one; the codec may have no columns.

    `sibling_keys` are the keys of the Dict that contains the space.
    """
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        require_choices_fit("observation", space, name)
    codec = _make_unlimited_codec(space, name, sibling_keys)
    require_width("observation", space, codec.dim, name)
    return codec


def _make_unlimited_codec(space: gym.Space[Any], name: str, sibling_keys: frozenset[str]) -> ObservationCodec:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return PartsCodec.of_parts(space, name)
    if isinstance(space, spaces.Discrete):
        return ChoiceCodec(space, int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        return ChoiceCodec(space, sum(map(int, space.nvec.flat)))  # the sum may exceed int64
    if isinstance(space, spaces.MultiBinary):
        return BinaryCodec(space, prod(space.shape))
    if isinstance(space, spaces.Box) and space.dtype.kind in NUMERIC_KINDS:
        if is_image(space):
            image = Image("", space.shape, max(float(space.high.max()), 1.0))
            return ImageCodec(space, image.size, images=(image,))
        return ObservationCodec(space, prod(space.shape))
    hints = [hint for space_class, hint in REMEDIES.items() if isinstance(space, space_class)]
    hints += [MINIGRID_REMEDY] if sibling_keys >= MINIGRID_KEYS else [f"wrap it with {TRANSFORM_WRAPPER}"]
    raise UnsupportedSpaceError(
        f"{name} has observation space {format_space(space)}, expected Box, Discrete, MultiDiscrete, "
        f"MultiBinary, or a Dict or Tuple of them; {hints[0]}"
    )


@dataclass(frozen=True)
class PartsCodec(ObservationCodec):
    """A `Dict` or `Tuple` as one row, parts in the order of the space; a Tuple's are named "0", "1", ..."""

    codecs: Mapping[str, ObservationCodec] = field(default_factory=dict)
    image_slices: Mapping[str, slice] = field(default_factory=dict)  # each part's slice of the image bytes
    # parts that only a critic sees; where they are missing, as for a deployed policy, a row has zeros
    critic_parts: frozenset[str] = frozenset()

    @classmethod
    def of_parts(cls, space: spaces.Dict | spaces.Tuple[Any], name: str) -> PartsCodec:
        """Make the codec for `space`; `UnsupportedSpaceError` names the part that does not fit."""
        spaces_by_name = space.spaces if isinstance(space, spaces.Dict) else _parts_by_index(space)
        sibling_keys = frozenset(space.spaces) if isinstance(space, spaces.Dict) else frozenset()
        codecs = {
            key: _make_codec(part, _part_label(name, key), sibling_keys)
            for key, part in spaces_by_name.items()
        }
        images = tuple(
            image._replace(name=f"{key}.{image.name}".rstrip("."))
            for key, codec in codecs.items()
            for image in codec.images
        )
        parts = _consecutive_slices({key: codec.numeric_dim for key, codec in codecs.items()})
        image_bytes = {key: sum(i.size for i in codec.images) for key, codec in codecs.items()}
        numeric_dim = sum(codec.numeric_dim for codec in codecs.values())
        dim = FLOAT.itemsize * numeric_dim + sum(image_bytes.values()) if images else numeric_dim
        image_slices = _consecutive_slices(image_bytes)
        return cls(space, dim, parts, 0, images, codecs=codecs, image_slices=image_slices)

    @property
    def one_hot_columns(self) -> Sequence[tuple[int, int]]:
        """One-hot columns of all parts, at their columns in the whole row."""
        return [
            (self.parts[name].start + first, n)
            for name, codec in self.codecs.items()
            for first, n in codec.one_hot_columns
        ]

    @property
    def actor_numbers(self) -> Sequence[int] | None:
        """The numbers of all parts but `critic_parts`; `None` if there are no such parts."""
        if not self.critic_parts:
            return None
        seen_parts = [part for name, part in self.parts.items() if name not in self.critic_parts]
        return [index for part in seen_parts for index in range(part.start, part.stop)]

    @cached_property
    def shape(self) -> Any:
        """The shape of each part."""
        return {name: codec.shape for name, codec in self.codecs.items()}

    def encode_one(self, observation: Any) -> NDArray[Any]:
        """Encode one observation as a row `[1, dim]`."""
        return self.encode_batch([observation])

    def encode_batch(self, observations: Any) -> NDArray[Any]:
        """Encode parts `[N, ...]` in a mapping or tuple, or a list of N observations, as rows `[N, dim]`."""
        if not self._is_batch_list(observations):
            return super().encode_batch(observations)
        rows = self.rows(len(observations))
        for observation, row in zip(observations, rows, strict=True):
            self.encode_into(observation, row)
        return rows

    def count(self, observations: Any) -> int:
        """Return N of a batch of parts."""
        named_parts = self._named_parts(observations)
        name, codec = next(item for item in self.codecs.items() if item[1].dim and item[0] in named_parts)
        return codec.count(named_parts[name])

    def write(self, observation: Any, numbers: NDArray[np.float32], pixels: NDArray[np.uint8]) -> None:
        """Write each part into its columns."""
        named_parts = self._named_parts(observation)
        for name, codec in self._items_of(named_parts):
            try:
                codec.write(named_parts[name], numbers[self.parts[name]], pixels[self.image_slices[name]])
            except (ValueError, TypeError, IndexError) as error:
                raise ValueError(f"part {name!r}: {error}") from error

    def write_batch(self, observations: Any, numbers: NDArray[np.float32], pixels: NDArray[np.uint8]) -> None:
        """Write each part of a batch into its columns."""
        named_parts = self._named_parts(observations)
        for name, codec in self._items_of(named_parts):
            numeric_slice, image_slice = self.parts[name], self.image_slices[name]
            codec.write_batch(named_parts[name], numbers[:, numeric_slice], pixels[:, image_slice])

    def is_single(self, observation: Any) -> bool:
        """Tell whether `observation` is one observation rather than a batch."""
        if self._is_batch_list(observation):
            return False
        named_parts = self._named_parts(observation)
        return all(codec.is_single(named_parts[name]) for name, codec in self._items_of(named_parts))

    def split(self, rows: RowsT) -> dict[str, RowsT]:
        """Split rows into parts by name."""
        numeric_parts = super().split(rows)
        if not self.images:
            return numeric_parts
        columns: Any = rows
        size, begin = FLOAT.itemsize, FLOAT.itemsize * self.numeric_dim
        parts: dict[str, RowsT] = {}
        for name, codec in self.codecs.items():
            numeric_slice, image_slice = self.parts[name], self.image_slices[name]
            floats = columns[..., size * numeric_slice.start : size * numeric_slice.stop]
            pixels = columns[..., begin + image_slice.start : begin + image_slice.stop]
            row = _concat_columns(floats, pixels) if codec.numeric_dim else pixels
            parts[name] = row if codec.images else _as_float32(floats)
        return parts

    def join(self, parts: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        """Join parts into rows; returns a new array."""
        expected = {name: codec.dim for name, codec in self.codecs.items()}
        if {name: rows.shape[-1] for name, rows in parts.items()} != expected:
            raise ShapeError(
                f"parts of shapes {shape_of(parts)} cannot be joined, expected {expected} columns"
            )
        if not self.images:
            return np.concatenate([parts[name] for name in expected], axis=-1)
        codec_rows = [(codec, parts[name]) for name, codec in self.codecs.items()]
        numbers = np.concatenate([codec.numeric_view(rows) for codec, rows in codec_rows], -1)
        pixels = [codec.pixel_view(rows) for codec, rows in codec_rows if codec.images]
        return np.concatenate([np.ascontiguousarray(numbers).view(BYTE), *pixels], -1)

    def _is_batch_list(self, observations: Any) -> bool:
        """Tell whether `observations` is a list of observations; for a Dict, any sequence counts."""
        if isinstance(self.space, spaces.Dict):
            return isinstance(observations, Sequence)
        return isinstance(observations, list)

    def _items_of(self, named_parts: Mapping[str, Any]) -> Iterator[tuple[str, ObservationCodec]]:
        """Yield name and codec of the given parts: all but perhaps some of `critic_parts`."""
        return ((name, codec) for name, codec in self.codecs.items() if name in named_parts)

    def _named_parts(self, observation: Any) -> Mapping[str, Any]:
        """Return the given parts by name; `TypeError` or `ValueError` if they are not those of the space.

        Those of `critic_parts` may be missing. If `observation` is the only other part, it may come alone.
        """
        if isinstance(self.space, spaces.Dict):
            if not isinstance(observation, Mapping):
                if self.critic_parts and self.codecs.keys() - self.critic_parts == {OBSERVATION}:
                    return {OBSERVATION: observation}
                raise TypeError(f"{type(observation).__name__} is no mapping of {list(self.codecs)}")
            names = self.codecs.keys()
            if observation.keys() != names and observation.keys() | self.critic_parts != names:
                raise ValueError(f"has the parts {list(observation)}, expected {list(self.codecs)}")
            return observation
        if not isinstance(observation, tuple | list):
            raise TypeError(f"{type(observation).__name__} is no tuple of {len(self.codecs)} parts")
        return dict(zip(self.codecs, observation, strict=True))


def is_image(space: spaces.Box) -> bool:
    """Tell whether a Box is an image: uint8 with 3 axes, 4 (stacked frames), or 2 and bounds 0 and 255."""
    if space.dtype != BYTE or not prod(space.shape):
        return False
    is_full_range = bool((space.low == 0).all() and (space.high == 255).all())
    return len(space.shape) in (3, 4) or (len(space.shape) == 2 and is_full_range)


def _parts_by_index(space: spaces.Tuple[Any]) -> dict[str, gym.Space[Any]]:
    """Return the parts of a Tuple by index."""
    return {str(index): part for index, part in enumerate(space.spaces)}


def _part_label(name: str, key: Any) -> str:
    """Name a part of an environment's observation for messages, at any depth."""
    return f"{name.removesuffix(',')}, part {key!r},"


def _consecutive_slices(sizes: Mapping[str, int]) -> dict[str, slice]:
    """Return consecutive slices of these sizes."""
    slices, start = {}, 0
    for name, size in sizes.items():
        slices[name] = slice(start, start + size)
        start += size
    return slices


def _as_float32(columns: Any) -> Any:
    """View bytes `[..., 4 n]` as float32 `[..., n]`: a view of an array, an aligned copy of a tensor."""
    if isinstance(columns, np.ndarray):
        return columns.view(FLOAT)
    import torch  # lazy: needed only for tensors

    return columns.clone(memory_format=torch.contiguous_format).view(torch.float32)


def _concat_columns(left: Any, right: Any) -> Any:
    """Concatenate columns of arrays or of tensors."""
    if isinstance(left, np.ndarray):
        return np.concatenate([left, right], -1)
    import torch

    return torch.cat([left, right], -1)
