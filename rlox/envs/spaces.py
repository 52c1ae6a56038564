"""Between Gymnasium spaces and flat arrays: what a policy sees.

Observations become float32 vectors (`Box` flattened, `Discrete` one-hot, the parts of a `Dict` one after
the other).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rlox.errors import ConfigError, ShapeError, UnsupportedSpaceError

__all__ = ["CodedSpace", "ObservationCodec", "shape_of", "short"]

Rows = TypeVar("Rows")  # arrays or tensors


class CodedSpace(spaces.Dict):
    """A Dict that rlox puts around observations, with a codec of its own."""

    @abstractmethod
    def codec(self, name: str) -> ObservationCodec:
        """The codec for these observations of the environment `name`."""


@dataclass(frozen=True)
class ObservationCodec:
    """Encodes one observation of a single environment into a row of `[dim]` float32."""

    space: gym.Space[Any]
    dim: int
    parts: Mapping[str, slice] = field(default_factory=dict)  # columns of each part of a Dict
    masked: int = 0  # columns at the end of a row that are a mask of actions (`rlox.envs.masks`)

    @classmethod
    def of(cls, space: gym.Space[Any], name: str = "the environment") -> ObservationCodec:
        """The codec for `space`, or `UnsupportedSpaceError` saying what to wrap."""
        if isinstance(space, CodedSpace):
            return space.codec(name)
        if isinstance(space, spaces.Dict):
            return DictCodec.of_dict(space, name)
        if isinstance(space, spaces.Discrete):
            return ObservationCodec(space, int(space.n))
        if isinstance(space, spaces.Box) and space.dtype.kind in "fiub":
            if len(space.shape) == 3 and space.dtype == np.uint8:
                raise UnsupportedSpaceError(
                    f"{name} has image observations {space.shape} uint8, expected a vector; "
                    "set env.wrappers=[flatten_observation] to train an MLP on the raw pixels"
                )
            return ObservationCodec(space, int(np.prod(space.shape, dtype=np.int64)))
        raise UnsupportedSpaceError(
            f"{name} has observation space {short(space)}, expected Box, Discrete or a Dict of them; "
            "set env.wrappers=[flatten_observation] or wrap it with gymnasium.wrappers"
        )

    @property
    def seen(self) -> int:
        """The columns that networks see: all but those of a mask."""
        return self.dim - self.masked

    @property
    def shape(self) -> Any:
        """The shape of one observation; of a Dict the shape of each part."""
        return self.space.shape

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

    def encode_into(self, observation: Any, row: NDArray[np.float32]) -> None:
        """Write one observation into `row` `[dim]`."""
        if isinstance(self.space, spaces.Discrete):
            row[:] = self.encode_batch(np.asarray(observation).reshape(1))[0]
        else:
            row[:] = np.asarray(observation).reshape(self.dim)  # never broadcast

    def encode_one(self, observation: Any) -> NDArray[np.float32]:
        """One observation as float32 `[1, dim]`."""
        return self.encode_batch(np.asarray(observation)[None])

    def encode_batch(self, observations: Any) -> NDArray[np.float32]:
        """Several observations `[N, ...]` as float32 `[N, dim]`."""
        batch = np.asarray(observations)
        if isinstance(self.space, spaces.Discrete):
            index = batch.astype(np.int64) - int(self.space.start)
            if (index != batch - int(self.space.start)).any() or not self._inside(index):
                raise ValueError(f"{batch} is not in {self.space}")
            rows = np.zeros((len(batch), self.dim), np.float32)
            rows[np.arange(len(batch)), index] = 1.0
            return rows
        return np.ascontiguousarray(batch.reshape(len(batch), self.dim), dtype=np.float32)

    def _inside(self, index: NDArray[np.int64]) -> bool:
        return bool(((index >= 0) & (index < self.dim)).all())

    def is_single(self, observation: Any) -> bool:
        """Whether `observation` is one observation rather than a batch of them."""
        return np.ndim(observation) == len(self.space.shape or ())

    def split(self, rows: Rows) -> dict[str, Rows]:
        """The parts of rows `[..., dim]`, an array or a tensor, by name: views `[..., part's dim]`.

        A Discrete part stays one-hot. `ShapeError` for rows of another length, or where the space is
        no Dict: its rows have no parts.
        """
        columns: Any = rows
        if not self.parts or columns.shape[-1:] != (self.dim,):
            raise ShapeError(
                f"rows of shape {tuple(columns.shape)} of {short(self.space)} cannot be split, "
                f"expected [..., {self.dim}] of a Dict"
            )
        return {name: columns[..., part] for name, part in self.parts.items()}

    def join(self, parts: Mapping[str, NDArray[np.float32]]) -> NDArray[np.float32]:
        """Rows `[..., dim]` of parts `[..., part's dim]`, as `split` gives them; a new array.

        `ShapeError` where names or lengths are not those of the space.
        """
        expected = {name: part.stop - part.start for name, part in self.parts.items()}
        if not expected or {name: rows.shape[-1] for name, rows in parts.items()} != expected:
            raise ShapeError(
                f"parts of shapes {shape_of(parts)} cannot be joined, expected {expected} columns"
            )
        return np.concatenate([parts[name] for name in expected], axis=-1)


@dataclass(frozen=True)
class DictCodec(ObservationCodec):
    """A `Dict` of vectors and choices as one row, its parts in the order of the space."""

    codecs: Mapping[str, ObservationCodec] = field(default_factory=dict)

    @classmethod
    def of_dict(cls, space: spaces.Dict, name: str) -> DictCodec:
        """The codec for `space`, or `UnsupportedSpaceError` naming the part that does not fit."""
        codecs: dict[str, ObservationCodec] = {}
        parts: dict[str, slice] = {}
        dim = 0
        for key, part in space.spaces.items():
            if isinstance(part, spaces.Dict):
                raise UnsupportedSpaceError(
                    f"{name} has a Dict in its Dict of observations, part {key!r}; "
                    "set env.wrappers=[flatten_observation], which flattens all, or wrap it with "
                    "gymnasium.wrappers.TransformObservation"
                )
            codecs[key] = ObservationCodec.of(part, f"{name}, part {key!r},")
            parts[key] = slice(dim, dim + codecs[key].dim)
            dim += codecs[key].dim
        if not dim:
            raise UnsupportedSpaceError(
                f"{name} has an empty Dict of observations, expected at least one number; "
                "wrap it with gymnasium.wrappers.TransformObservation"
            )
        return cls(space, dim, parts, codecs=codecs)

    @property
    def shape(self) -> Any:
        """The shape of each part."""
        return {name: codec.shape for name, codec in self.codecs.items()}

    def encode_into(self, observation: Any, row: NDArray[np.float32]) -> None:
        """Write one observation, a mapping with a value for each part, into `row` `[dim]`."""
        self._require_parts(observation)
        for name, codec in self.codecs.items():
            try:
                codec.encode_into(observation[name], row[self.parts[name]])
            except (ValueError, TypeError, IndexError) as error:
                raise ValueError(f"part {name!r}: {error}") from error

    def encode_one(self, observation: Any) -> NDArray[np.float32]:
        """One observation as float32 `[1, dim]`."""
        return self.encode_batch([observation])

    def encode_batch(self, observations: Any) -> NDArray[np.float32]:
        """A mapping of parts `[N, ...]`, or N mappings, as float32 `[N, dim]`."""
        if isinstance(observations, Sequence):
            rows = np.empty((len(observations), self.dim), np.float32)
            for observation, row in zip(observations, rows, strict=True):
                self.encode_into(observation, row)
            return rows
        self._require_parts(observations)
        parts = [codec.encode_batch(observations[name]) for name, codec in self.codecs.items()]
        return np.concatenate(parts, axis=1)

    def is_single(self, observation: Any) -> bool:
        """Whether `observation` is one observation rather than a batch of them."""
        if isinstance(observation, Sequence):
            return False
        self._require_parts(observation)
        return all(codec.is_single(observation[name]) for name, codec in self.codecs.items())

    def _require_parts(self, observation: Any) -> None:
        if not isinstance(observation, Mapping):
            raise TypeError(f"{type(observation).__name__} is no mapping of {list(self.parts)}")
        if observation.keys() != self.parts.keys():
            raise ValueError(f"has the parts {list(observation)}, expected {list(self.parts)}")


def shape_of(observation: Any) -> Any:
    """The shape of an observation, or of each part of a mapping, for messages."""
    if isinstance(observation, Mapping):
        return {name: shape_of(part) for name, part in observation.items()}
    try:
        return np.shape(observation)
    except ValueError:
        return "of lists of unequal lengths"


def short(space: gym.Space[Any]) -> str:
    """The text of a space for messages, one line of 120 letters at most."""
    text = " ".join(str(space).split())
    return text if len(text) <= 120 else text[:117] + "..."
