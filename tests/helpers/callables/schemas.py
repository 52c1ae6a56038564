"""Observation schemas of the programs on buffers: flat, dicts, bytes, stacks of frames along either axis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.callables.engine import Arguments, Draw, Invalid, any_numeric, require


def map_columns(work: Callable[..., Any], *values: Any) -> Any:
    """Apply `work` to arrays, or to the arrays of dicts with the same names."""
    if isinstance(values[0], dict):
        return {name: map_columns(work, *(value[name] for value in values)) for name in values[0]}
    return work(*values)


def put(arrays: Any, place: Any, rows: Any) -> None:
    """Assign `arrays[place] = rows`, also in dicts."""
    if isinstance(arrays, dict):
        for name, array in arrays.items():
            put(array, place, rows[name])
    else:
        arrays[place] = rows


def column(value: Any, lead: tuple[int, ...], shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    """Return `[*lead, *shape]` of a pushed value; flat rows may have any shape."""
    if not lead and np.prod(shape) == 1 and isinstance(value, (int, float)):
        try:
            value = np.float64(float(value))
        except OverflowError as error:
            raise Invalid from error
    array = any_numeric(value)
    rest = array.shape[len(lead) :]
    require(array.shape[: len(lead)] == lead)
    flat = len(shape) <= 1 and int(np.prod(rest)) == int(np.prod(shape))
    require(rest == shape or flat or (not lead and array.shape == (1, *shape)))
    if np.dtype(dtype).kind != "f" and array.size:
        limits = np.iinfo(dtype)
        require(array.dtype.kind in "iub")
        require(int(array.min()) >= limits.min and int(array.max()) <= limits.max)
    with np.errstate(all="ignore"):
        converted = array.astype(dtype)
        if converted.dtype.kind == "f":
            require((np.isfinite(converted) | ~np.isfinite(array.astype(np.float64))).all())
        return converted.reshape(lead + shape)


@dataclass(frozen=True)
class Schema:
    """dtype and shape of each observation column; a single column has no name."""

    columns: dict[str, tuple[str, tuple[int, ...]]]
    stacks: dict[str, tuple[int, str]]

    @property
    def has_goals(self) -> bool:
        return "achieved_goal" in self.columns

    def settings(self) -> Arguments:
        if list(self.columns) == [""]:
            dtype, shape = self.columns[""]
            stack = {"frame_stack": self.stacks[""]} if self.stacks else {}
            return {"obs_shape": shape, "obs_dtype": dtype, **stack}
        stack = {"frame_stack": self.stacks} if self.stacks else {}
        return {"obs_spaces": self.columns, **stack}

    def of(self, work: Callable[[str], Any]) -> Any:
        """Apply `work` to the only column, or to each column by name."""
        if list(self.columns) == [""]:
            return work("")
        return {name: work(name) for name in self.columns}

    def draw(self, draw: Draw, *lead: int) -> Any:
        """Return valid observations; bytes have few distinct values, so that rows share some."""
        return self.of(lambda name: self.draw_column(draw, name, lead))

    def draw_column(self, draw: Draw, name: str, lead: tuple[int, ...]) -> Any:
        dtype, shape = self.columns[name]
        if dtype != "uint8":
            return draw.numbers(*lead, *shape)
        array = draw.rng.integers(0, 2, (*lead, *shape), np.uint8)
        if name in self.stacks and len(lead) == 1 and draw.boolean():
            size, axis = self.stacks[name]
            frame = shape[1:] if axis == "first" else shape[:-1]
            frames = draw.rng.integers(0, 256, (lead[0] + size - 1, *frame), np.uint8)
            windows = np.lib.stride_tricks.sliding_window_view(frames, size, axis=0)
            array = np.moveaxis(windows, -1, 1) if axis == "first" else windows
        return draw.layout(np.ascontiguousarray(array), keep_dtype=True)

    def read(self, value: Any, lead: tuple[int, ...]) -> Any:
        """Return the stored form of pushed observations."""
        if "" not in self.columns:
            require(isinstance(value, dict) and value.keys() == self.columns.keys())
        return self.of(
            lambda name: column(
                value[name] if name else value, lead, self.columns[name][1], self.columns[name][0]
            )
        )

    def zeros(self, *lead: int) -> Any:
        return self.of(lambda name: np.zeros((*lead, *self.columns[name][1]), self.columns[name][0]))

    def joined(self, rows: list[Any]) -> Any:
        """Return one array, or one per column, of single observations."""

        def join(name: str) -> np.ndarray:
            dtype, shape = self.columns[name]
            parts = [row[name] if name else row for row in rows]
            return np.array(parts, dtype).reshape(len(rows), *shape)

        return self.of(join)


FLAT = Schema({"": ("float32", (2,))}, {})
SCHEMAS = {
    "flat": FLAT,
    "goals": Schema(
        {
            "achieved_goal": ("float64", (1,)),
            "desired_goal": ("float64", (1,)),
            "pixels": ("uint8", (2, 2)),
        },
        {},
    ),
    "bytes": Schema({"": ("uint8", (2, 3))}, {}),
    "stack first": Schema({"": ("uint8", (3, 2))}, {"": (3, "first")}),
    "stack last": Schema({"": ("uint8", (2, 3))}, {"": (3, "last")}),
    "dict of a stack": Schema(
        {"frames": ("uint8", (3, 2)), "speed": ("float32", (1,))}, {"frames": (3, "first")}
    ),
}
