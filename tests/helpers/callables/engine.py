"""Defines a case, draws its arguments, and spoils valid calls."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

Arguments = dict[str, Any]


# The smallest discount: a product of two smaller ones is 0 in float32 but not in the model, which gives
# another result with infinite values.
TINY = 1e-15


class Invalid(Exception):
    """A model raises it for arguments that must be refused."""


class Stale(Invalid):
    """A model raises it for a row that it does not hold."""


def require(condition: Any) -> None:
    """Refuse unless the condition is true."""
    if not condition:
        raise Invalid


@dataclass(frozen=True)
class Approximate:
    """A result with its own tolerance, relative to its largest finite number, `scale` or 1.

    With an infinite tolerance only type and shape are compared.
    """

    value: Any
    tolerance: float
    scale: float = 1.0


@dataclass(frozen=True)
class IntegerRange:
    """An integer from `low` to `high`."""

    low: int
    high: float = float("inf")


@dataclass(frozen=True)
class Case:
    """A callable, a way to draw valid arguments for it, and an independent model of its result."""

    call: Callable[..., Any]
    draw: Callable[[Draw], Arguments]
    model: Callable[..., Any]
    tolerance: float = 1e-10
    fixed: frozenset[str] = frozenset()
    """Arguments that are never spoilt, such as the object of a method call."""
    covers: frozenset[str] = frozenset()
    """Other names that the call uses and the model checks."""


class Draw:
    """Draws of Hypothesis; the numbers in arrays come from NumPy with a drawn seed."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1), label="seed"))

    def integer(self, low: int, high: int) -> int:
        return self.data.draw(st.integers(low, high))

    def unit(self) -> float:
        return self.data.draw(st.one_of(st.sampled_from([0.0, 1.0, 0.99]), st.floats(TINY, 1)))

    def number(self, bound: float = 1e3) -> float:
        return self.data.draw(st.floats(-bound, bound))

    def one_of(self, *choices: Any) -> Any:
        return self.data.draw(st.sampled_from(choices))

    def boolean(self) -> bool:
        return self.data.draw(st.booleans())

    def numbers(self, *shape: int, scale: float = 1.0) -> Any:
        """Return finite numbers in one of the accepted forms."""
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


def as_array(value: Any) -> np.ndarray:
    """Return NumPy's array of `value`; refuse a value that makes none."""
    try:
        return np.asarray(value)
    except (ValueError, TypeError, OverflowError) as error:
        raise Invalid from error


def any_numeric(value: Any) -> np.ndarray:
    """Return the array of `value`; refuse it unless it is numeric."""
    array = as_array(value)
    require(array.dtype.kind in "fiub")
    return array


def numeric(value: Any, *dims: int | None) -> np.ndarray:
    """Return the array of `value`; refuse it unless it is numeric and of `dims` (None: any size)."""
    array = any_numeric(value)
    require(array.ndim == len(dims))
    require(all(expected is None or expected == got for expected, got in zip(dims, array.shape, strict=True)))
    return array


def integers(value: Any, *dims: int | None) -> np.ndarray:
    """Return `numeric` integers below 2**63; an empty array may have any numeric type."""
    array = numeric(value, *dims)
    if not array.size:
        return array.astype(np.int64)
    require(array.dtype.kind in "iu")
    require(array.dtype != np.uint64 or array.max() < 2**63)
    return array.astype(np.int64)


def real(value: Any) -> float:
    """Return the float of a Python number, NumPy scalar or array without dimensions; bools count."""
    require(isinstance(value, (int, float)) or as_array(value).ndim == 0)
    require(isinstance(value, (int, float)) or as_array(value).dtype.kind in "fiub")
    try:
        return float(value)
    except (OverflowError, TypeError) as error:
        raise Invalid from error


def within(value: Any, low: float, high: float) -> float:
    number = real(value)
    require(low <= number <= high)
    return number


def as_integer(value: Any, low: int, high: int) -> int:
    """Return a Python integer, also from an object that can be used as one."""
    try:
        number = operator.index(value)
    except TypeError as error:
        raise Invalid from error
    require(low <= number <= high)
    return number


def named(value: Any, *names: str) -> str:
    """Return one of the names."""
    require(isinstance(value, str) and value in names)
    return str(value)


def largest(*arrays: np.ndarray) -> float:
    """Return the largest finite magnitude, at least 1."""
    return max(float(np.abs(a[np.isfinite(a)]).max(initial=1.0)) for a in arrays)


def is_single(*values: Any) -> bool:
    """Return whether all are float32 arrays, which makes the result float32."""
    return all(isinstance(v, np.ndarray) and v.dtype == np.dtype(np.float32) for v in values)


def is_output(value: Any, template: np.ndarray) -> bool:
    """Return whether a result can be written into `value` in place of `template`."""
    return (
        isinstance(value, np.ndarray)
        and (value.dtype, value.shape) == (template.dtype, template.shape)
        and value.flags.c_contiguous
        and value.flags.aligned
        and value.flags.writeable
    )


SCALARS: list[Any] = [
    float("nan"), float("inf"), -float("inf"), -1, -0.5, 1.5, 0, 1, 2**31, 2**63, 2**64, -(2**63),
    10**400, 1e308, None, "x", "\ud800", b"", [], {}, (), object(), True, slice(1),
    1 + 2j, np.complex128(1 + 2j), np.complex64(1 + 2j), np.float64(0.5), np.int8(-3),
    np.array(0.5), np.array(3), np.array([1]), [1, 2, 3], np.datetime64("2020-01-01"),
    np.timedelta64(1, "s"),
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
    lambda a: a.astype(np.uint64),
    lambda a: a[np.arange(len(a)) // 2] if a.ndim else a,
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
    lambda a: a * 1e300,  # sums stay finite, so their order does not matter
    lambda a: -a.astype(np.int64),
    lambda a: np.frombuffer(b"\0" + a.tobytes(), dtype=np.uint8)[1:].view(a.dtype).reshape(a.shape),
]


def spoil_one(draw: Draw, arguments: Arguments, fixed: frozenset[str]) -> Arguments:
    """Return the arguments with one of them changed or removed."""
    names = [name for name in arguments if name not in fixed]
    result = dict(arguments)
    if not names:
        return result
    name = draw.one_of(*names)
    if draw.integer(0, 19) == 0:
        del result[name]
    else:
        with np.errstate(all="ignore"):
            result[name] = change_value(draw, result[name])
    return result


def change_value(draw: Draw, value: Any) -> Any:
    """Return another value, often of the same kind; in a container change one entry."""
    entries = list(value) if isinstance(value, dict) else range(len(value) if holds_arrays(value) else 0)
    if entries and draw.integer(0, 5):
        key = draw.one_of(*entries)
        other = copy.copy(value)
        if draw.integer(0, 9) == 0:
            del other[key]
        else:
            other[key] = change_value(draw, value[key])
        return other
    if isinstance(value, (np.ndarray, list)) and not holds_arrays(value) and np.ndim(value):
        return draw.one_of(*ARRAYS)(np.asarray(value))
    return copy.copy(draw.one_of(*SCALARS))


def holds_arrays(value: Any) -> bool:
    """Return whether a value is a list of arrays or lists that does not form one array."""
    return isinstance(value, RaggedArrays)


class RaggedArrays(list[Any]):
    """A list of arrays of different lengths."""
