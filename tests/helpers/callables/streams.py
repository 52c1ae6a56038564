"""Models random streams by ChaCha8 in Python."""

from __future__ import annotations

import struct
from statistics import NormalDist
from typing import Any

import numpy as np

from helpers.callables.engine import Arguments, Case, Draw, as_integer, require
from rlox import _core

MASK = 2**32 - 1
LARGEST = 2**64 - 1


def quarter(s: list[int], a: int, b: int, c: int, d: int) -> None:
    for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        s[x] = (s[x] + s[y]) & MASK
        mixed = s[z] ^ s[x]
        s[z] = (mixed << turn | mixed >> (32 - turn)) & MASK


def chacha8(key: bytes, block: int) -> list[int]:
    """Return the 16 words of one block, nonce 0, 64-bit counter (Bernstein 2008, 8 rounds)."""
    start = [*struct.unpack("<4I", b"expand 32-byte k"), *struct.unpack("<8I", key)]
    start += [block & MASK, block >> 32 & MASK, 0, 0]
    s = list(start)
    for _ in range(4):
        for column in range(4):
            quarter(s, column, column + 4, column + 8, column + 12)
        for turn in range(4):
            quarter(s, turn, 4 + (turn + 1) % 4, 8 + (turn + 2) % 4, 12 + (turn + 3) % 4)
    return [(a + b) & MASK for a, b in zip(s, start, strict=True)]


def words(seed: int, name: str, index: int, position: int, count: int) -> list[int]:
    key = 0x6C62272E07BB014262B821756295C58D
    for byte in name.encode():
        key = ((key ^ byte) * 0x0000000001000000000000000000013B) % 2**128
    packed = struct.pack("<QQ", seed, index) + key.to_bytes(16, "little")
    first, last = position // 16, (position + count) // 16
    stream = [word for block in range(first, last + 1) for word in chacha8(packed, block)]
    return stream[position - 16 * first :][:count]


def draws(
    count: int, seed: Any = None, name: Any = None, index: Any = None, position: Any = None
) -> list[int]:
    """Return the next `count` 64-bit draws."""
    require(isinstance(name, str) and not any("\ud800" <= letter <= "\udfff" for letter in name))
    seed, index, position = (as_integer(n, 0, LARGEST) for n in (seed, index, position))
    got = words(seed, name, index, position, 2 * count)
    return [low | high << 32 for low, high in zip(got[::2], got[1::2], strict=True)]


def stream(seed: Any, name: Any, index: Any, position: Any) -> _core.Stream:
    generator = _core.Stream(seed, name, index)
    generator.position = position
    return generator


def uniforms(n: Any, **key: Any) -> np.ndarray:
    got = draws(as_integer(n, 0, 2**28), **key)
    return np.array([(bits >> 11) * 2.0**-53 for bits in got], dtype=np.float64)


def uniform(seed: Any, name: Any, index: Any, position: Any, n: Any) -> tuple[np.ndarray, int]:
    generator = stream(seed, name, index, position)
    return generator.uniform(n), generator.position


def uniform_model(n: Any = None, **key: Any) -> tuple[np.ndarray, int]:
    return uniforms(n, **key), int(key["position"]) + 2 * int(n)


def normal(seed: Any, name: Any, index: Any, position: Any, n: Any) -> tuple[np.ndarray, int]:
    generator = stream(seed, name, index, position)
    return generator.normal(n), generator.position


def normal_model(n: Any = None, **key: Any) -> tuple[np.ndarray, int]:
    u = uniforms(2 * as_integer(n, 0, 1000), **key).reshape(-1, 2)
    numbers = np.sqrt(-2 * np.log(1 - u[:, 0])) * np.cos(2 * np.pi * u[:, 1])
    return numbers, int(key["position"]) + 4 * int(n)


def quick(seed: Any, name: Any, index: Any, position: Any, n: Any) -> tuple[np.ndarray, int]:
    generator = stream(seed, name, index, position)
    return generator.standard_normal(n), generator.position


def quantiles(n: int, **key: Any) -> np.ndarray:
    """Return normal quantiles of the draws' upper 52 bits."""
    inverse = NormalDist().inv_cdf
    return np.array([inverse(((bits >> 12) * 2 + 1) / 2**53) for bits in draws(n, **key)])


def quick_model(n: Any = None, **key: Any) -> tuple[np.ndarray, int]:
    numbers = quantiles(as_integer(n, 0, 1000), **key).astype(np.float32)
    return numbers, int(key["position"]) + 2 * int(n)


def permutation(seed: Any, name: Any, index: Any, position: Any, n: Any) -> np.ndarray:
    return stream(seed, name, index, position).permutation(n)


def permutation_model(n: Any = None, **key: Any) -> np.ndarray:
    """Return Fisher and Yates's permutation, with bounded numbers by Lemire's multiplication."""
    order, count = list(range(as_integer(n, 0, 1000))), as_integer(n, 0, 1000)
    bits = iter(draws(count, **key))
    halves = (half for word in bits for half in (word & MASK, word >> 32))
    for last in range(count - 1, 0, -1):
        bound = last + 1
        product = next(halves) * bound
        while product & MASK < 2**32 % bound:
            product = next(halves) * bound
        at = product >> 32
        order[last], order[at] = order[at], order[last]
    return np.array(order, dtype=np.int64)


def orthogonal(
    seed: Any, name: Any, index: Any, position: Any, rows: Any, columns: Any
) -> tuple[np.ndarray, int]:
    generator = stream(seed, name, index, position)
    return generator.orthogonal(rows, columns), generator.position


def orthogonal_model(rows: Any = None, columns: Any = None, **key: Any) -> tuple[np.ndarray, int]:
    """Return the orthogonal factor of a QR decomposition of the same normal numbers.

    The triangle has a positive diagonal, as in Gram-Schmidt.
    """
    few, long = sorted((as_integer(rows, 0, 1000), as_integer(columns, 0, 1000)))
    numbers = quantiles(few * long, **key).reshape(few, long)
    q, r = np.linalg.qr(numbers.T)
    basis = (q * np.sign(np.diag(r))).T
    generator = basis if rows <= columns else basis.T
    return np.ascontiguousarray(generator), int(key["position"]) + 2 * few * long


def draw_shape(draw: Draw) -> Arguments:
    place = draw_key(draw) | {"position": 2 * draw.integer(0, 2**40)}
    return place | {"rows": draw.integer(0, 6), "columns": draw.integer(0, 6)}


def draw_key(draw: Draw) -> Arguments:
    return {
        "seed": draw.integer(0, LARGEST),
        "name": draw.one_of("env", "", "policy/λ", "replay"),
        "index": draw.integer(0, LARGEST),
    }


def draw_stream(draw: Draw) -> Arguments:
    return draw_key(draw) | {"position": 2 * draw.integer(0, 2**40), "n": draw.integer(0, 20)}


CASES = {
    "Stream.uniform": Case(
        uniform, draw_stream, uniform_model, covers=frozenset({"Stream", "Stream.position"})
    ),
    "Stream.normal": Case(normal, draw_stream, normal_model),
    "Stream.standard_normal": Case(quick, draw_stream, quick_model, tolerance=1e-6),
    "Stream.permutation": Case(permutation, draw_stream, permutation_model),
    "Stream.orthogonal": Case(orthogonal, draw_shape, orthogonal_model, tolerance=1e-9),
    "Stream.next_u64": Case(
        lambda seed, name, index=0: _core.Stream(seed, name, index).next_u64(),
        draw_key,
        lambda seed=None, name=None, index=0: draws(1, seed, name, index, 0)[0],
    ),
    "stream_seed": Case(
        _core.stream_seed,
        draw_key,
        lambda seed=None, name=None, index=0: draws(1, seed, name, index, 0)[0] >> 1,
    ),
}
