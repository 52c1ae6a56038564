"""What a case is, how its arguments are drawn, and how a valid call is spoilt."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

Arguments = dict[str, Any]


class Invalid(Exception):
    """Raised by a model for arguments that must be refused."""


def require(condition: Any) -> None:
    """Refuse unless true."""
    if not condition:
        raise Invalid


@dataclass(frozen=True)
class Case:
    """A callable, a way to draw valid arguments for it, and an independent model of its result."""

    call: Callable[..., Any]
    draw: Callable[[Draw], Arguments]
    model: Callable[..., Any]
    tolerance: float = 1e-10
    fixed: frozenset[str] = frozenset()
    """Arguments that are not spoilt, such as the object a method is called on."""
    covers: frozenset[str] = frozenset()
    """Further names that the call uses and the model checks."""


class Draw:
    """Draws of hypothesis; the numbers in arrays come from NumPy under a drawn seed."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1), label="seed"))

    def integer(self, low: int, high: int) -> int:
        return self.data.draw(st.integers(low, high))

    def unit(self) -> float:
        return self.data.draw(st.one_of(st.sampled_from([0.0, 1.0, 0.99]), st.floats(0, 1)))

    def number(self, bound: float = 1e3) -> float:
        return self.data.draw(st.floats(-bound, bound))

    def one_of(self, *choices: Any) -> Any:
        return self.data.draw(st.sampled_from(choices))

    def boolean(self) -> bool:
        return self.data.draw(st.booleans())

    def numbers(self, *shape: int, scale: float = 1.0) -> Any:
        """Finite numbers in one of the forms that are accepted."""
        return self.layout(self.rng.normal(size=shape) * scale)

    def flags(self, *shape: int, rate: float = 0.2) -> Any:
        kind = self.one_of(bool, float, np.float32, np.int64, np.uint8)
        return self.layout((self.rng.random(shape) < rate).astype(kind), keep_dtype=True)

    def layout(self, array: np.ndarray, keep_dtype: bool = False) -> Any:
        form = self.one_of("same", "same", "float32", "strided", "reversed", "list", "swapped")
        if form == "float32" and not keep_dtype:
            return array.astype(np.float32)
        if form == "strided":
            spaced = np.repeat(array[..., None], 2, axis=-1)
            spaced[..., 1] = 7
            return spaced[..., 0]
        if form == "reversed":
            return np.ascontiguousarray(array[::-1])[::-1]
        if form == "list":
            return array.tolist()
        if form == "swapped" and not keep_dtype:
            return array.astype(array.dtype.newbyteorder())
        return array


def numeric(value: Any, *dims: int | None) -> np.ndarray:
    """The array that `value` stands for; refused unless numeric and of `dims` (None: any size)."""
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise Invalid from error
    require(array.dtype.kind in "fiub" and array.ndim == len(dims))
    require(all(want is None or want == got for want, got in zip(dims, array.shape, strict=True)))
    return array


def real(value: Any) -> float:
    """A Python number; bools and NumPy scalars count."""
    require(isinstance(value, (int, float, np.number, np.bool_)) and not isinstance(value, complex))
    try:
        return float(value)
    except (OverflowError, TypeError) as error:
        raise Invalid from error


def within(value: Any, low: float, high: float) -> float:
    number = real(value)
    require(low <= number <= high)
    return number


def whole(value: Any, low: int, high: int) -> int:
    require(
        isinstance(value, (int, np.integer)) or (isinstance(value, np.ndarray) and value.ndim == 0)
    )
    try:
        number = value.__index__()
    except TypeError as error:
        raise Invalid from error
    require(low <= number <= high)
    return int(number)


def is_single(*values: Any) -> bool:
    """Whether all are float32 arrays, which makes the result float32."""
    return all(isinstance(v, np.ndarray) and v.dtype == np.dtype(np.float32) for v in values)


SCALARS: list[Any] = [
    float("nan"), float("inf"), -float("inf"), -1, -0.5, 1.5, 0, 1, 2**31, 2**63, 2**64, -(2**63), 10**400,
    1e308, None, "x", b"", [], {}, (), object(), 1 + 2j, True, np.float64(0.5), np.int8(-3), np.array(0.5),
    np.array(3), np.array([1]), [1, 2, 3], np.datetime64("2020-01-01"), slice(1),
]  # fmt: skip

ARRAYS: list[Callable[[np.ndarray], Any]] = [
    lambda a: a[:-1],
    lambda a: np.concatenate([a, a[:1]]) if a.ndim else a,
    lambda a: a[None],
    lambda a: a[..., None],
    lambda a: a.ravel(),
    lambda a: a.T,
    lambda a: a[:0],
    lambda a: a.astype(object),
    lambda a: a.astype(complex),
    lambda a: a.astype(str),
    lambda a: a.astype(np.float16),
    lambda a: a.astype(np.longdouble),
    lambda a: a.astype("m8[s]"),
    lambda a: np.zeros(a.shape, dtype=[("x", "f8")]),
    lambda a: a.astype(np.int8),
    lambda a: a.astype(bool),
    lambda a: np.broadcast_to(a.dtype.type(1), a.shape),
    lambda a: np.asfortranarray(a),
    lambda a: np.ma.masked_array(a, mask=False),
    lambda a: [[1.0], [2.0, 3.0]],
    lambda a: "numbers",
    lambda a: None,
    lambda a: 3.0,
    lambda a: iter([1.0]),
    lambda a: {"a": a},
    lambda a: np.full(a.shape, np.nan),
    lambda a: np.where(np.arange(a.size).reshape(a.shape) == 0, np.inf, a),
    lambda a: a * 1e308,
    lambda a: np.frombuffer(b"\0" + a.tobytes(), dtype=np.uint8)[1:].view(a.dtype).reshape(a.shape),
]


def spoilt(draw: Draw, arguments: Arguments, fixed: frozenset[str]) -> Arguments:
    """The arguments with one of them, or a copy left out or added, changed."""
    names = [name for name in arguments if name not in fixed]
    result = dict(arguments)
    if not names:
        return result
    name = draw.one_of(*names)
    value = result[name]
    if draw.integer(0, 19) == 0:
        del result[name]
    elif isinstance(value, (np.ndarray, list)) and np.asarray(value).ndim:
        result[name] = draw.one_of(*ARRAYS)(np.asarray(value))
    else:
        result[name] = copy.copy(draw.one_of(*SCALARS))
    return result
